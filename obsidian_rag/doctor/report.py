"""What the doctor found: one line a check, and what all of them come to."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from obsidian_rag.counts import count
from obsidian_rag.masking import mask_words
from obsidian_rag.program import spell_commands
from obsidian_rag.render import show_line

if TYPE_CHECKING:
    from rich.console import Console

Status = Literal["ok", "warning", "error", "skipped"]
COLOURS: dict[Status, str] = {"ok": "green", "warning": "yellow", "error": "bold red", "skipped": "magenta"}
STATUS_WIDTH = 9
NAME_WIDTH = 18  # of the longest name of a check, and a space


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found. `name` is set where one check has several lines; `waits` where it was not made,
    since another one did not pass.
    """

    status: Status
    message: str
    mend: str = ""
    name: str = ""
    waits: bool = False


def ok(message: str, name: str = "") -> Finding:
    """All is as it should be."""
    return Finding("ok", message, "", name)


def warn(message: str, mend: str, name: str = "") -> Finding:
    """It works, but not as well as it could, or will not for long."""
    return Finding("warning", message, mend, name)


def fail(message: str, mend: str, name: str = "") -> Finding:
    """Something does not work, or is not what it says it is."""
    return Finding("error", message, mend, name)


def skip(why: str, mend: str = "", name: str = "", *, waits: bool = False) -> Finding:
    """It could not be looked at, which is no pass."""
    return Finding("skipped", f"could not run: {why}", mend, name, waits)


@dataclass(frozen=True, slots=True)
class Check:
    """A line of the report. `status` is ok, warning, error, or skipped for a check that could not run."""

    group: str
    name: str
    status: Status
    message: str
    mend: str = ""
    waits: bool = False

    def to_json(self) -> dict[str, str]:
        """An object of `doctor --json`."""
        return {name: value for name, value in asdict(self).items() if name != "waits"}


def make_check(group: str, name: str, finding: Finding) -> Check:
    """A finding as a line of the report: on one line, without a password."""
    message, mend = _make_line(finding.message), _make_line(finding.mend)
    return Check(group, finding.name or name, finding.status, message, mend, finding.waits)


def _make_line(text: str) -> str:
    return show_line(mask_words(text))


@dataclass(frozen=True, slots=True)
class Report:
    """All lines. `status` is the worst of them, where a check that could not run is worth a warning."""

    checks: tuple[Check, ...]

    @property
    def status(self) -> Literal["ok", "warning", "error"]:
        found = {check.status for check in self.checks}
        return "error" if "error" in found else "ok" if found <= {"ok"} else "warning"

    @property
    def exit_code(self) -> int:
        """0 where nothing is wrong that keeps the index from working, 1 where something is."""
        return 1 if self.status == "error" else 0

    def to_json(self) -> dict[str, Any]:
        """The object that `doctor --json` prints."""
        return {"status": self.status, "checks": [check.to_json() for check in self.checks]}


def open_console() -> Console:
    """Where the report is printed: with colours and the terminal's width, or plainly into a pipe."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False)


def print_checks(console: Console, checks: Iterable[Check]) -> Report:
    """Print each line as it comes, below the heading of its group, and what they come to; give them back.

    What waits for a check that did not pass comes at the end, in a line for each such check.
    """
    seen: list[Check] = []
    group = ""
    for check in checks:
        if not check.waits:
            if group != check.group:
                group = check.group
                _print_line(console, group, "bold")
            # A mend is told once.
            _print_check(console, check, tell_mend=all(check.mend != told.mend for told in seen))
        seen.append(check)
    report = Report(tuple(seen))
    _print_waiting(console, [check for check in seen if check.waits])
    console.print()
    _print_line(console, summarize(report.checks), COLOURS[report.status])
    return report


def _print_waiting(console: Console, checks: Sequence[Check]) -> None:
    if checks:
        _print_line(console, "not looked at", "bold")
    for message in dict.fromkeys(check.message for check in checks):
        names = [check.name for check in checks if check.message == message]
        told = count(len(names), "check")
        line = Check("", told, "skipped", f"{message} ({', '.join(names)})")
        _print_check(console, line, tell_mend=False)


def summarize(checks: Sequence[Check]) -> str:
    """How many lines of each kind there are."""
    counts = {status: sum(1 for check in checks if check.status == status) for status in COLOURS}
    parts = [f"{counts['ok']} ok", count(counts["warning"], "warning"), count(counts["error"], "error")]
    if counts["skipped"]:
        parts.append(f"{counts['skipped']} could not run")
    return ", ".join(parts)


def _print_check(console: Console, check: Check, *, tell_mend: bool) -> None:
    from rich.text import Text

    line = Text("  ")
    line.append(f"{check.status:<{STATUS_WIDTH}}", COLOURS[check.status])
    line.append(f"{check.name:<{NAME_WIDTH}}")
    indent = " " * len(line)
    line.append(_fold(spell_commands(check.message), console, indent))
    # Not wrapped by rich: a command must stay whole, to be copied.
    console.print(line, soft_wrap=True)
    if check.mend and tell_mend:
        mend = f"{indent}→ {spell_commands(check.mend)}"
        console.print(Text(mend, "cyan" if check.status != "ok" else ""), soft_wrap=True)


def _fold(text: str, console: Console, indent: str) -> str:
    """A message folded at the terminal's width below itself; one line in a pipe."""
    room = console.width - len(indent)
    if not console.is_terminal or room < 30:
        return text
    import textwrap

    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
    return f"\n{indent}".join(lines)


def _print_line(console: Console, text: str, style: str) -> None:
    from rich.text import Text

    console.print(Text(text, style), soft_wrap=True)
