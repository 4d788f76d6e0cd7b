"""Progress of long work on stderr: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Protocol, Self

LOG_INTERVAL = 30.0  # seconds between two lines of a log file


class Progress(Protocol):
    """What the indexer tells while it works."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None: ...
    def begin(self, what: str, total: int) -> None:
        """A stage with `total` steps starts."""

    def advance(self, steps: int = 1) -> None:
        """Some steps are done."""

    def say(self, text: str) -> None:
        """A line for the person."""


def open_progress(quiet: bool) -> Progress:
    """The kind that fits stderr: silent, a bar, or a log."""
    if quiet:
        return SilentProgress()
    return BarProgress() if sys.stderr.isatty() else LogProgress()


class SilentProgress:
    """Says nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, what: str, total: int) -> None:
        pass

    def advance(self, steps: int = 1) -> None:
        pass

    def say(self, text: str) -> None:
        pass


class LogProgress(SilentProgress):
    """Plain lines: each stage once, then how far it is, at most twice a minute."""

    def __init__(self) -> None:
        self._what, self._total, self._done, self._last = "", 0, 0, time.monotonic()

    def begin(self, what: str, total: int) -> None:
        self._what, self._total, self._done, self._last = what, total, 0, time.monotonic()
        self.say(f"{what}: {total}")

    def advance(self, steps: int = 1) -> None:
        self._done += steps
        if time.monotonic() - self._last >= LOG_INTERVAL:
            self._last = time.monotonic()
            self.say(f"{self._what}: {self._done} of {self._total}")

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class BarProgress:
    """A bar with rate and time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task: object = None

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, what: str, total: int) -> None:
        self._task = self._bar.add_task(what, total=total, rate="")

    def advance(self, steps: int = 1) -> None:
        task = next((t for t in self._bar.tasks if t.id == self._task), None)
        if task is not None:
            rate = f"{task.speed:.0f}/s" if task.speed else ""
            self._bar.update(task.id, advance=steps, rate=rate)

    def say(self, text: str) -> None:
        self._bar.console.print(text, highlight=False, markup=False)
