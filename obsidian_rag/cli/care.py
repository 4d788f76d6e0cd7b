"""Commands that look after the index: status, doctor, eval, psql."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from obsidian_rag.cli.completions import mode_option
from obsidian_rag.command_frame import (
    FILE,
    failing_as,
    forgive_encoding,
    json_option,
    leave_on_sigterm,
    open_reader,
    open_screen,
    print_json,
    with_settings,
)
from obsidian_rag.command_help import TaughtCommand
from obsidian_rag.config import Settings
from obsidian_rag.program import spell_commands


@click.command(cls=TaughtCommand)
@json_option
@with_settings
def status(settings: Settings, json_: bool) -> None:
    """Show how the index stands.

    Counts, the last run, notes that failed, notes on disk that are not in it, and whether its tables agree.

    \b
    Examples:
      obsidian-rag status
      obsidian-rag status --json

    Next: obsidian-rag index, to bring in what is missing; obsidian-rag doctor, where something is wrong
    """
    from obsidian_rag.drift import load_full_status
    from obsidian_rag.render import render_status

    with open_reader(settings) as reader:
        found = reader.run(lambda conn: load_full_status(conn, settings))
    if json_:
        print_json(found)
    elif console := open_screen():
        from obsidian_rag.screen.index import print_status

        print_status(console, found)
    else:
        click.echo(spell_commands(render_status(found)))


@click.command(cls=TaughtCommand)
@json_option
@failing_as({"status": "error", "checks": []})
@with_settings
def doctor(settings: Settings, json_: bool) -> None:
    """Check all that the index needs, and say what mends it.

    Looks at settings, vault, database, embedder, index and MCP clients, and writes nothing. Each line is ok,
    warning, error, or skipped: a check that could not run, which is no pass.

    \b
    Examples:
      obsidian-rag doctor
      obsidian-rag doctor --json

    Exit code 0: no error, there may be warnings. 1: an error. 2: it could not run at all.
    """
    from obsidian_rag.doctor import Report, look_around, open_console, print_checks, run_doctor

    leave_on_sigterm()
    checks = run_doctor(settings, look_around(os.environ))
    if json_:
        report = Report(tuple(checks))
        print_json(report.to_json())
    else:
        forgive_encoding()
        report = print_checks(open_console(), checks)
    sys.exit(report.exit_code)


@click.command("eval", cls=TaughtCommand)
@click.option("--queries", type=FILE, required=True, help="Questions, as JSON lines.")
@mode_option
@click.option("--limit", type=int, default=10, show_default=True, help="How many notes an answer, 1 to 50.")
@click.option("--without", multiple=True, metavar="STAGE", help="Leave a stage out; may be repeated.")
@click.option("--run", "saved", type=FILE, help="Score this saved run instead of searching.")
@click.option("--compare", type=FILE, help="A saved run to compare with, question by question.")
@click.option("--save", type=FILE, help="Where to save the run, as JSON lines.")
@json_option
@with_settings
def evaluate(
    settings: Settings,
    queries: Path,
    mode: str,
    limit: int,
    without: tuple[str, ...],
    saved: Path | None,
    compare: Path | None,
    save: Path | None,
    json_: bool,
) -> None:
    """Measure how good the answers are, on questions of your own.

    A line of the questions: {"id", "query", "relevant": [paths], "family"}. Brackets hold 95 % intervals.

    \b
    Examples:
      obsidian-rag eval --queries mine.jsonl
      obsidian-rag eval --queries mine.jsonl --save before.jsonl
      obsidian-rag eval --queries mine.jsonl --compare before.jsonl

    Next: obsidian-rag diagnose, for a single question
    """
    from obsidian_rag import evaluate as metrics
    from obsidian_rag.search.query import apply_fusion, make_request

    template = make_request("any", mode, limit, without=frozenset(without))
    template = apply_fusion(template, settings.search_fusion)
    questions = metrics.read_questions(queries)
    other = metrics.read_run(compare) if compare else None
    seconds: list[float] = []
    if saved:
        run = metrics.read_run(saved)
    else:
        with open_reader(settings) as reader:
            run, seconds = metrics.search_all(reader, questions, template)
    if save:
        metrics.save_run(save, run)
    result = metrics.evaluate_run(questions, run, template, seconds, other)
    if json_:
        print_json(result.to_json())
    else:
        click.echo(metrics.render_evaluation(result))


@click.command(cls=TaughtCommand, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--write", is_flag=True, help="As the owner of the index: statements may change it.")
@with_settings
def psql(settings: Settings, arguments: tuple[str, ...], write: bool) -> None:
    """Open psql on the index; what stands after -- goes to psql.

    \b
    Examples:
      obsidian-rag psql
      obsidian-rag psql -- -c "TABLE broken_links"
    """
    from obsidian_rag.psql import run_psql

    leave_on_sigterm()
    sys.exit(run_psql(settings, arguments, write=write))
