"""The command `index --watch`: what it runs, and what it says of each run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import click

from obsidian_rag.command_frame import FAILURE, INTERRUPTED, JSON_LINES, print_json
from obsidian_rag.config import Settings
from obsidian_rag.counts import count
from obsidian_rag.errors import ObsidianRagError, SettingsError
from obsidian_rag.indexing import Options, run_indexer
from obsidian_rag.models import RunReport
from obsidian_rag.program import show_message
from obsidian_rag.progress import SilentProgress, open_progress
from obsidian_rag.render import render_report
from obsidian_rag.watching import may_pass, watch_vaults


def index_and_watch(settings: Settings, options: Options, *, quiet: bool, as_json: bool) -> NoReturn:
    """Index, and again after each change, until the program is ended. `options` hold until a run is done,
    after that only changes come in. With `as_json` each run prints its report as a line.

    Raises the errors that need a person.
    """
    click.get_current_context().meta[JSON_LINES] = True
    if options.dry_run:
        raise SettingsError("--watch writes, --dry-run does not", "Choose one of them.")
    runs = _Runs(settings, options, quiet, as_json)
    try:
        watch_vaults(settings, runs.make, runs.say)
    except KeyboardInterrupt:
        if runs.last is None or as_json:
            raise
        runs.say("Stopped watching. What was stored stays.")
        raise click.exceptions.Exit(INTERRUPTED) from None


@dataclass
class _Runs:
    settings: Settings
    options: Options
    quiet: bool
    as_json: bool
    last: RunReport | None = None

    def make(self) -> None:
        meta = click.get_current_context().meta
        meta[FAILURE] = RunReport(None, "failed").to_json()

        def keep(report: RunReport) -> None:
            meta[FAILURE] = report.to_json()

        try:
            with open_progress(self.quiet) if self.last is None else SilentProgress() as progress:
                report = run_indexer(self.settings, self.options, progress, keep)
        except ObsidianRagError as exc:
            if self.as_json and may_pass(exc):  # the others end the program, which prints them
                print_json(meta[FAILURE] | {"error": exc.message, "mend": exc.mend})
            raise
        self._tell(report)
        self.options = Options()
        self.last = report

    def say(self, text: str) -> None:
        click.echo(show_message(text), err=True)

    def _tell(self, report: RunReport) -> None:
        if self.as_json:
            print_json(report.to_json())
        if self.last is None:
            if not self.quiet or report.failures:
                self.say(render_report(report))
            if not self.quiet:
                self.say("Watching for changes; Ctrl-C ends it.")
            return
        if not self.quiet and (done := summarize(report)):
            self.say(done)
        for failure in report.failures:
            if failure not in self.last.failures:
                self.say(f"FAILED {failure.file_path} ({failure.stage}): {failure.error}")
        if not self.quiet:
            for warning in report.warnings:
                if warning not in self.last.warnings:
                    self.say(f"warning: {warning}")


def summarize(report: RunReport) -> str:
    """What a run changed, in a line; "" where that is nothing."""
    counts = {
        "indexed": report.notes_indexed,
        "renamed": report.notes_renamed,
        "deleted": report.notes_deleted,
    }
    done = [f"{notes} {what}" for what, notes in counts.items() if notes]
    if not done:
        return ""
    return (
        f"Notes: {', '.join(done)}; {count(report.chunks_embedded, 'text')} embedded, {report.seconds:.1f} s."
    )
