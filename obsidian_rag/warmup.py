"""Getting ready for the first tool call while nobody waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool
from mcp.types import ListToolsRequest

LISTING_SECONDS = 2.0  # a client that has not asked for the tools by then knows them, or is in no hurry
ENDING_SECONDS = 5.0  # more than any step needs, save a database that does not answer


class Warmup(Middleware):
    """Goes through the steps of `prepare` in a thread, when the client has its list of tools, or did not ask
    for it in `patience` seconds: imports before that would take the time from the answer. Says nothing: what
    is wrong is said by the first call, which meets it again.
    """

    def __init__(self, prepare: Callable[[], Iterable[None]], patience: float = LISTING_SECONDS) -> None:
        self._prepare = prepare
        self._patience = patience
        self._listed = threading.Event()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_ending(self) -> bool:
        """Whether no further step is to begin."""
        return self._ending.is_set()

    def start(self) -> None:
        """Start the thread, which waits for the listing of tools at first."""
        self._listed.clear()
        self._ending.clear()
        # A daemon: a database that does not answer must not hold up the program's end.
        self._thread = threading.Thread(target=self._run, name="warmup", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop before the next step, and wait for the present one."""
        self._ending.set()
        self._listed.set()
        if self._thread is not None:
            self._thread.join(ENDING_SECONDS)

    async def on_list_tools(
        self,
        context: MiddlewareContext[ListToolsRequest],
        call_next: CallNext[ListToolsRequest, Sequence[Tool]],
    ) -> Sequence[Tool]:
        try:
            return await call_next(context)
        finally:
            self._listed.set()

    def _run(self) -> None:
        self._listed.wait(self._patience)
        if self.is_ending:
            return
        with suppress(Exception):
            for _ in self._prepare():
                if self.is_ending:
                    return
