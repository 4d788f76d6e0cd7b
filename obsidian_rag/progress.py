"""Progress of long work on stderr: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from obsidian_rag.program import show_message

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

LOG_INTERVAL = 30.0  # seconds after which a log file gets a line, however far the work is
LEAST_INTERVAL = 5.0  # seconds between two lines


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
    """The kind that fits stderr: silent, a bar, or a log, also for a terminal that cannot redraw a line."""
    if quiet:
        return SilentProgress()
    if sys.stderr.isatty():
        from rich.console import Console

        console = Console(stderr=True)
        if not console.is_dumb_terminal:
            return BarProgress(console)
    return LogProgress()


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
    """Plain lines: each stage once, then how far it is, at each tenth of the way or twice a minute, but never
    two in a breath.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._reset("", 0)

    def _reset(self, what: str, total: int) -> None:
        self._what, self._total, self._done, self._told = what, total, 0, 0
        self._start = self._last = self._clock()

    def begin(self, what: str, total: int) -> None:
        self._reset(what, total)
        self.say(f"{what}: {total}")

    def advance(self, steps: int = 1) -> None:
        self._done += steps
        now = self._clock()
        waited, tenths = now - self._last, self._done * 10 // max(self._total, 1)
        if self._done >= self._total or waited < LEAST_INTERVAL:
            return
        if waited >= LOG_INTERVAL or tenths > self._told:
            self._last, self._told = now, tenths
            self.say(self._describe(self._done / (now - self._start)))

    def say(self, text: str) -> None:
        print(show_message(text), file=sys.stderr, flush=True)

    def _describe(self, rate: float) -> str:
        left = show_length((self._total - self._done) / rate)
        share = 100 * self._done // self._total
        return (
            f"{self._what}: {self._done} of {self._total} ({share} %), {show_rate(rate)}, about {left} left"
        )


def show_rate(rate: float) -> str:
    """How many steps a second, or where that is less than one, a minute."""
    if rate >= 10:
        return f"{rate:.0f}/s"
    return f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min"


def show_length(seconds: float) -> str:
    """A length of time in its two largest units: 40 s, 3 min 20 s, 2 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


class BarProgress:
    """A bar with rate and time left."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}", markup=False),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
            expand=True,
        )
        self._task: TaskID | None = None

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
            self._bar.advance(task.id, steps)
            speed = task.finished_speed or task.speed
            self._bar.update(task.id, rate=show_rate(speed) if speed else "")

    def say(self, text: str) -> None:
        self._bar.console.print(
            show_message(text), highlight=False, markup=False, emoji=False, soft_wrap=True
        )
