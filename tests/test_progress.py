"""Progress: a bar with rate and time left on a terminal, plain lines at sensible intervals in a log."""

from __future__ import annotations

import io
import re

import pytest
from conftest import Workbench
from rich.console import Console
from terminals import run_on_terminal

from obsidian_rag.progress import (
    LEAST_INTERVAL,
    BarProgress,
    LogProgress,
    SilentProgress,
    open_progress,
    show_length,
    show_rate,
)


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_log_gets_a_line_at_each_tenth_with_rate_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = LogProgress(clock)
    progress.begin("Indexing notes", 40)
    for _ in range(40):
        clock.now += 2
        progress.advance()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Indexing notes: 40"
    assert lines[1] == "Indexing notes: 4 of 40 (10 %), 30.0/min, about 1 min 12 s left"
    assert len(lines) == 10
    assert lines[-1].startswith("Indexing notes: 36 of 40 (90 %)")


def test_work_that_hardly_moves_is_heard_of_twice_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = LogProgress(clock)
    progress.begin("Embedding texts", 100_000)
    for _ in range(600):
        clock.now += 1
        progress.advance()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 + 600 // 30
    assert lines[1] == "Embedding texts: 30 of 100000 (0 %), 1.0/s, about 27 h 46 min left"


def test_quick_work_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = LogProgress(clock)
    progress.begin("Indexing notes", 1000)
    for _ in range(1000):
        clock.now += LEAST_INTERVAL / 1001
        progress.advance()
    assert capsys.readouterr().err == "Indexing notes: 1000\n"


def test_a_stage_without_steps_and_more_steps_than_told_are_no_fault(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    progress = LogProgress(clock)
    progress.begin("Nothing", 0)
    clock.now = 100
    progress.advance(3)
    assert capsys.readouterr().err == "Nothing: 0\n"


def test_a_log_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    LogProgress().say("a\x1b[31mb\rc")
    assert capsys.readouterr().err == "a\\x1b[31mb\\x0dc\n"


def test_rates_and_lengths_are_said_as_people_do() -> None:
    assert [show_rate(rate) for rate in (123.4, 9.96, 1, 0.5)] == ["123/s", "10.0/s", "1.0/s", "30.0/min"]
    assert [show_length(s) for s in (0.4, 59.4, 60, 3599, 3600, 7500)] == [
        "0 s", "59 s", "1 min 00 s", "59 min 59 s", "1 h 00 min", "2 h 05 min",
    ]  # fmt: skip


def test_a_bar_says_how_many_how_fast_and_how_long() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80, color_system=None, legacy_windows=False)
    with BarProgress(console) as progress:
        progress.begin("[b]Indexing[/b] notes", 7)
        progress.advance(3)
        progress.advance(4)
        progress.say("a [red]name[/red] of a note\x1b[31m")
    said = file.getvalue()
    assert "[b]Indexing[/b] notes" in said
    assert re.search(r"━+ 7/7 \S+/(s|min) 0:00:00", said)
    assert "a [red]name[/red] of a note\\x1b[31m" in said


def test_a_pipe_gets_a_log_and_quiet_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(open_progress(quiet=False), LogProgress)
    assert type(open_progress(quiet=True)) is SilentProgress


@pytest.mark.parametrize(("term", "has_bar"), [("xterm-256color", True), ("dumb", False)])
def test_indexing_on_a_terminal_shows_a_bar_where_it_can_redraw(
    bench: Workbench, term: str, has_bar: bool
) -> None:
    for number in range(3):
        bench.vault.write(f"{number}.md", f"Note {number}.\n")
    seen = run_on_terminal(["index"], bench.environment | {"TERM": term}, bench.vault.root.parent)
    assert ("━" in seen.text) == has_bar
    assert ("3/3" in seen.text) == has_bar
    assert ("\x1b" in seen.raw) == has_bar
    assert "3 were indexed" in seen.text
