"""A thread beside the main one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = 1.0  # seconds for what is at work when it is stopped


class Worker:
    """Does one thing after another. Unlike an executor's threads it is not waited for when the program is to
    end: a request may take minutes.
    """

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Do this after what was submitted before."""
        future: Future[T] = Future()
        self._jobs.put((future, job))
        return future

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopped = True
        self._jobs.put(None)
        self._thread.join(PATIENCE)

    def _work(self) -> None:
        while (work := self._jobs.get()) is not None and not self._stopped:
            future, job = work
            try:
                future.set_result(job())
            except BaseException as exc:  # it is raised where the result is asked for
                future.set_exception(exc)
