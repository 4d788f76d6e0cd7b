"""A tool's call while it is at work: what it is doing, and how it is given up.

A call runs in a thread of its own, which nobody can end from outside. What can be ended is the statement that
it waits for in the database, and that it begins another.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING

from obsidian_rag.errors import CallCancelled

if TYPE_CHECKING:
    from obsidian_rag.postgres import Connection

AGAIN_SECONDS = 0.1  # a statement may begin between the look at the call and the order to end it
ORDER_SECONDS = 5.0

# The call that this thread works for; a command of the command line has none.
_CURRENT: ContextVar[Call | None] = ContextVar("call", default=None)


class Call:
    """One call. Thread-safe."""

    def __init__(self) -> None:
        self.stage = "searching"
        self._changed = threading.Condition()
        self._held: list[Connection] = []
        self._is_cancelled = False

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the call's answer any more."""
        return self._is_cancelled

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make it the call of this context, and of the threads that inherit it."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def cancel(self) -> None:
        """Give the call up: no further statement begins, and the present one is ended in the background."""
        with self._changed:
            self._is_cancelled = True
            if not self._held:
                return
        threading.Thread(target=self._end_statements, name="cancel", daemon=True).start()

    @contextmanager
    def hold(self, conn: Connection) -> Iterator[None]:
        """While a connection works for the call. Raises CallCancelled where that is given up."""
        with self._changed:
            if self._is_cancelled:
                raise CallCancelled("The call was cancelled")
            self._held.append(conn)
        try:
            yield
        finally:
            with self._changed:
                self._held.remove(conn)
                self._changed.notify_all()

    def _end_statements(self) -> None:
        with self._changed:  # held while orders are sent: none may reach what the connection does next
            while self._held:
                for conn in self._held:
                    with suppress(Exception):
                        conn.cancel_safe(timeout=ORDER_SECONDS)
                self._changed.wait(AGAIN_SECONDS)


def tell_stage(stage: str) -> None:
    """Say what the present call is doing, for its reports of progress."""
    if call := _CURRENT.get():
        call.stage = stage


def check_cancelled() -> None:
    """Raise CallCancelled where the present call was given up."""
    if is_cancelled():
        raise CallCancelled("The call was cancelled")


def is_cancelled() -> bool:
    """Whether the present call was given up."""
    call = _CURRENT.get()
    return call is not None and call.is_cancelled


@contextmanager
def working(conn: Connection) -> Iterator[None]:
    """While a connection works for the present call, if any. Raises CallCancelled."""
    call = _CURRENT.get()
    if call is None:
        yield
        return
    with call.hold(conn):
        yield
