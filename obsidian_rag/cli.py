"""The command obsidian-rag: thin adapters from flags to work and from results to text or JSON.

Exit codes: 0 done; 1 done, but some notes failed; 2 could not be done. Heavy imports wait for their command.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from obsidian_rag import __version__
from obsidian_rag.command_frame import (
    FAILURE,
    JsonGroup,
    failing_as,
    forgive_encoding,
    json_option,
    open_reader,
    print_json,
    with_filters,
    with_priors,
    with_settings,
)
from obsidian_rag.config import Settings
from obsidian_rag.models import RunReport

if TYPE_CHECKING:
    from obsidian_rag.search.query import Filters


FILE = click.Path(dir_okay=False, path_type=Path)


def leave_on_sigterm() -> None:
    """Let SIGTERM end this program as an exit does, so that the embedded server is given back."""
    from obsidian_rag import embedded

    embedded.leave_on_sigterm()


@click.group(
    cls=JsonGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="obsidian-rag")
def cli() -> None:
    """Make an Obsidian vault searchable by the agent you work with.

    \b
    obsidian-rag index ~/Notes          index a vault; again after edits, or from cron
    obsidian-rag search "a question"    search it
    obsidian-rag serve                  serve it to an agent over MCP

    Settings are taken from flags, then the environment, then .env, then the settings file.
    """


@cli.command()
@click.argument("vault_argument", metavar="[VAULT]", required=False)
@click.option("--full", is_flag=True, help="Read and parse every note again; vectors of the same text stay.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; write nothing.")
@click.option("--quiet", is_flag=True, help="Say nothing but errors.")
@click.option("--watch", is_flag=True, help="Stay, and index each change; --json prints a line for each run.")
@click.option(
    "--reembed",
    is_flag=True,
    help="Embed every note again, with the embedder now set, or go on with that; search uses the old vectors"
    " until all are made.",
)
@click.option("--drop-reembedding", is_flag=True, help="Give up a --reembed that is not finished.")
@click.option(
    "--allow-mass-delete",
    is_flag=True,
    help="Accept that most of the indexed notes are gone, or that another vault replaces them.",
)
@json_option
@failing_as(RunReport(None, "failed").to_json())
@with_settings
def index(
    settings: Settings,
    full: bool,
    dry_run: bool,
    quiet: bool,
    watch: bool,
    reembed: bool,
    drop_reembedding: bool,
    allow_mass_delete: bool,
    json_: bool,
) -> None:
    """Make the index equal to the VAULT.

    Only files that changed are read, and only text that changed is embedded. Safe to kill, fit for cron.

    Exit code 0: every note is in. 1: some failed, each is named. 2: it could not run; nothing is lost.
    """
    from obsidian_rag.indexing import Options, run_indexer
    from obsidian_rag.progress import open_progress
    from obsidian_rag.render import render_report

    def keep(report: RunReport) -> None:
        click.get_current_context().meta[FAILURE] = report.to_json()

    leave_on_sigterm()
    options = Options(full, dry_run, allow_mass_delete, reembed, drop_reembedding)
    if watch:
        from obsidian_rag.index_watch import index_and_watch

        index_and_watch(settings, options, quiet=quiet, as_json=json_)
    with open_progress(quiet) as progress:
        report = run_indexer(settings, options, progress, keep)
    if json_:
        print_json(report.to_json())
    if not quiet or report.failures:
        click.echo(render_report(report, dry_run), err=True)
    sys.exit(1 if report.failures else 0)


@cli.command()
@with_settings
def serve(settings: Settings) -> None:
    """Serve the index to an agent over MCP (stdio)."""
    from obsidian_rag.mcp_server import serve as serve_stdio

    leave_on_sigterm()
    serve_stdio(settings)


@cli.command(context_settings={"ignore_unknown_options": True})  # -word is part of a query
@click.argument("query", nargs=-1, required=True)
@click.option("--mode", default="hybrid", show_default=True, help="hybrid, vector or keyword.")
@click.option("--limit", type=int, default=10, show_default=True, help="How many notes, 1 to 50.")
@click.option("--intent", help="exact, entity, question, temporal or general, if it is told wrongly.")
@json_option
@with_settings
@with_filters
@with_priors
def search(
    settings: Settings,
    query: tuple[str, ...],
    mode: str,
    limit: int,
    intent: str | None,
    filters: Filters,
    boosts: tuple[str, ...],
    include_excluded: bool,
    json_: bool,
) -> None:
    """Search the notes.

    "Quoted phrases", OR and -words work; write -- before a query that starts with a dash.
    """
    from obsidian_rag.render import render_answer
    from obsidian_rag.search.pipeline import search as find
    from obsidian_rag.search.query import make_request

    request = make_request(
        " ".join(query), mode, limit, filters, intent, boosts=boosts, include_excluded=include_excluded
    )
    with open_reader(settings) as reader:
        answer = find(reader, request)
    if json_:
        print_json(answer.to_json())
    else:
        click.echo(render_answer(answer))


@cli.command()
@click.argument("file_path")
@click.option("--depth", type=int, default=1, show_default=True, help="Links to follow, 1 to 3.")
@click.option("--relation", "relations", multiple=True, help="Only links that say this; may be repeated.")
@click.option("--direction", default="both", show_default=True, help="Only links out, or in, at each step.")
@click.option("--include-content", is_flag=True, help="Add the first 500 characters of each note.")
@click.option("--mermaid", is_flag=True, help="Print a Mermaid flowchart, for a code block in a note.")
@click.option("--html", "page", type=FILE, metavar="FILE", help="Draw a page for the browser.")
@json_option
@with_settings
def graph(settings: Settings, json_: bool, mermaid: bool, page: Path | None, **walk: Any) -> None:
    """Show which notes a note links to, and which link to it, with how the text says they are connected."""
    from obsidian_rag.graph import walk_graph
    from obsidian_rag.picture import load_picture
    from obsidian_rag.picture.mermaid import render_mermaid
    from obsidian_rag.picture.page import check_page_name, write_page
    from obsidian_rag.render import render_graph

    if mermaid and json_:
        raise click.UsageError("--mermaid and --json both print; use one of them.")
    if page:
        check_page_name(page)
    with open_reader(settings) as reader:
        found = reader.run(lambda conn: walk_graph(conn, **walk))
        picture = reader.run(lambda conn: load_picture(conn, found)) if mermaid or page else None
    if picture and page:
        write_page(picture, page)
        click.echo(f"Drawn: {page.absolute()}", err=True)
    if json_:
        print_json(found.to_json())
    elif picture and mermaid:
        click.echo(render_mermaid(picture), nl=False)
    elif not page:
        click.echo(render_graph(found))


@cli.command()
@json_option
@with_settings
def topics(settings: Settings, json_: bool) -> None:
    """List the vault's top-level folders with their notes and chunks."""
    from obsidian_rag.catalog import list_topics
    from obsidian_rag.render import render_topics

    with open_reader(settings) as reader:
        found = reader.run(list_topics)
    if json_:
        print_json(found.to_json())
    else:
        click.echo(render_topics(found))


@cli.command()
@click.argument("file_path")
@json_option
@with_settings
def note(settings: Settings, file_path: str, json_: bool) -> None:
    """Print a note's text whole, as it was indexed."""
    from obsidian_rag.catalog import load_note
    from obsidian_rag.render import render_note

    with open_reader(settings) as reader:
        found = reader.run(lambda conn: load_note(conn, file_path))
    if json_:
        print_json(found.to_json())
    else:
        click.echo(render_note(found))


@cli.command()
@json_option
@with_settings
def status(settings: Settings, json_: bool) -> None:
    """Show how the index stands: counts, the last run, notes that failed, notes on disk that are not in it,
    and whether its tables agree.
    """
    from obsidian_rag.drift import load_full_status
    from obsidian_rag.render import render_status

    with open_reader(settings) as reader:
        found = reader.run(lambda conn: load_full_status(conn, settings))
    if json_:
        print_json(found)
    else:
        click.echo(render_status(found))


@cli.command()
@json_option
@failing_as({"status": "error", "checks": []})
@with_settings
def doctor(settings: Settings, json_: bool) -> None:
    """Check all that the index needs, and say what mends what is wrong. Writes nothing.

    Looks at settings, vault, database, embedder, index and MCP clients. Each line is ok, warning, error, or
    skipped: a check that could not run, which is no pass.

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


@cli.command("eval")
@click.option("--queries", type=FILE, required=True, help="Questions, as JSON lines.")
@click.option("--mode", default="hybrid", show_default=True, help="hybrid, vector or keyword.")
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
    """Measure how good the answers are, on questions whose right notes are known.

    A line of the questions: {"id", "query", "relevant": [paths], "family"}. Brackets hold 95 % intervals.
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


@cli.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--target", required=True, help="The note that should have been found.")
@click.option("--mode", default="hybrid", show_default=True, help="hybrid, vector or keyword.")
@click.option("--limit", type=int, default=10, show_default=True, help="How many notes were asked for.")
@json_option
@with_settings
@with_filters
@with_priors
def diagnose(
    settings: Settings,
    query: tuple[str, ...],
    target: str,
    mode: str,
    limit: int,
    filters: Filters,
    boosts: tuple[str, ...],
    include_excluded: bool,
    json_: bool,
) -> None:
    """Tell why a note is not higher in a search: who ranked it where, and what would have helped."""
    from obsidian_rag.diagnose import diagnose_target
    from obsidian_rag.diagnosis import render_diagnosis
    from obsidian_rag.search.query import make_request

    request = make_request(
        " ".join(query), mode, limit, filters, boosts=boosts, include_excluded=include_excluded
    )
    with open_reader(settings) as reader:
        diagnosis = diagnose_target(reader, request, target, settings.vaults)
    if json_:
        print_json(diagnosis.to_json())
    else:
        click.echo(render_diagnosis(diagnosis))


@cli.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--write", is_flag=True, help="As the owner of the index: statements may change it.")
@with_settings
def psql(settings: Settings, arguments: tuple[str, ...], write: bool) -> None:
    """Open psql on the index, to read; what stands after -- goes to psql.

    \b
    obsidian-rag psql -- -c "TABLE broken_links"
    """
    from obsidian_rag.psql import run_psql

    leave_on_sigterm()
    sys.exit(run_psql(settings, arguments, write=write))


@cli.command()
@click.argument("vault_argument", metavar="[VAULT]", required=False)
@with_settings
def demo(settings: Settings, **_: Any) -> None:
    """Index the example vault, or VAULT, and show what can be asked."""
    from obsidian_rag.demo import run_demo

    leave_on_sigterm()
    forgive_encoding()
    sys.exit(run_demo(settings))


def main() -> None:
    """The program obsidian-rag."""
    cli(prog_name="obsidian-rag")
