"""The command obsidian-rag: thin adapters from flags to work and from results to text or JSON.

Exit codes: 0 done; 1 done, but some notes failed; 2 could not be done. Heavy imports wait for their command.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from obsidian_rag import __version__
from obsidian_rag.config import EMBEDDERS, NAMES, Settings, load_settings
from obsidian_rag.errors import ObsidianRagError
from obsidian_rag.models import RunReport

if TYPE_CHECKING:
    from obsidian_rag.index_reader import IndexReader

SETTING_OPTIONS: tuple[tuple[str, str, str], ...] = (
    ("--vault", "VAULT_PATH", "The vault's folder; several with distinct names separated by ':'."),
    ("--database-url", "DATABASE_URL", "PostgreSQL with pgvector. Without it: the embedded server."),
    ("--data-dir", "OBSIDIAN_RAG_DATA", "Where the embedded server keeps its data."),
    ("--ollama-url", "OLLAMA_URL", "Where Ollama answers."),
    ("--embed-model", "EMBED_MODEL", "The embedding model."),
    ("--embedder", "EMBEDDER", f"One of {', '.join(EMBEDDERS)}."),
    ("--fts-config", "FTS_CONFIG", "PostgreSQL's text search configuration."),
)

Command = Callable[..., Any]
COULD_NOT_RUN = 2
INTERRUPTED = 130  # as a shell reports SIGINT
STOPPED = (129, 143)  # SIGHUP and SIGTERM, see leave_on_sigterm
# Where a command keeps what its JSON document holds if it fails.
FAILURE = "obsidian_rag.failure"


def with_settings(command: Command) -> Command:
    """Give a command the options for settings; it gets the merged `settings`. Errors end with exit code 2."""

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> Any:
        flags = {name: arguments.pop(name.lower()) for name in NAMES}
        named = arguments.pop("vault_argument", None)
        as_json = arguments.get("json_", False)
        try:
            if named:
                flags["VAULT_PATH"] = named
            settings = load_settings(os.environ, flags, Path.cwd())
            if not arguments.get("quiet"):
                for notice in settings.notices:
                    click.echo(notice, err=True)
            return command(settings=settings, **arguments)
        except ObsidianRagError as exc:
            fail(as_json, exc.message, exc.mend)
        except KeyboardInterrupt:
            fail(as_json, "Interrupted", "What was stored stays; run it again to go on.", INTERRUPTED)
        except SystemExit as exc:
            if exc.code in STOPPED and "json_" in arguments:
                code = int(exc.code)
                fail(as_json, f"Stopped by signal {code - 128}", "Run it again to go on.", code)
            raise
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as exc:  # Python's own exit code would be 1, which says that only some notes failed
            if isinstance(exc, OSError) and exc.errno == errno.EPIPE:
                raise
            traceback.print_exc()
            fail(
                as_json, f"{type(exc).__name__}: {exc}", "This is a fault of obsidian-rag; please report it."
            )

    for flag, name, text in reversed(SETTING_OPTIONS):
        wrapped = click.option(flag, name.lower(), metavar="TEXT", help=f"{text} [{name}]")(wrapped)
    return wrapped


json_option = click.option("--json", "json_", is_flag=True, help="One JSON document on stdout, no more.")


def print_json(value: Any) -> None:
    """One JSON document on stdout, in UTF-8 whatever the locale."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    # A lone surrogate, from a file name, becomes \\udc80: so JSON writes it too.
    click.echo(text.encode("utf-8", "backslashreplace"))


def fail(as_json: bool, message: str, mend: str, code: int = COULD_NOT_RUN) -> NoReturn:
    """Say why the command could not do its work, on stderr and if wanted as JSON, and end the program."""
    if as_json:
        shown = click.get_current_context().meta.get(FAILURE, {"status": "failed"})
        print_json(shown | {"error": message, "mend": mend})
    click.echo(f"Error: {ObsidianRagError(message, mend)}", err=True)
    sys.exit(code)


def failing_as(shown: Mapping[str, Any]) -> Callable[[Command], Command]:
    """Let a command's JSON document hold `shown` if it fails, so that it has the same keys as otherwise."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(**arguments: Any) -> Any:
            click.get_current_context().meta[FAILURE] = shown
            return command(**arguments)

        return wrapped

    return decorate


class JsonGroup(click.Group):
    """A group whose commands answer `--json` with a document even where their arguments cannot be read."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["obsidian_rag.json"] = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as exc:
            if ctx.meta["obsidian_rag.json"]:
                print_json({"status": "failed", "error": exc.format_message(), "mend": "See --help."})
            raise


@contextmanager
def open_reader(settings: Settings) -> Iterator[IndexReader]:
    """The index for reading, closed at the end."""
    from obsidian_rag.index_reader import IndexReader

    reader = IndexReader(settings, lambda text: click.echo(text, err=True))
    try:
        yield reader
    finally:
        reader.close()


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
@click.option("--reembed", is_flag=True, help="Embed every note again, with the embedder now set.")
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
    reembed: bool,
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
    with open_progress(quiet) as progress:
        report = run_indexer(settings, Options(full, dry_run, allow_mass_delete, reembed), progress, keep)
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


@cli.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--mode", default="hybrid", show_default=True, help="hybrid, vector or keyword.")
@click.option("--limit", type=int, default=10, show_default=True, help="How many notes, 1 to 50.")
@json_option
@with_settings
def search(settings: Settings, query: tuple[str, ...], mode: str, limit: int, json_: bool) -> None:
    """Search the notes.

    "Quoted phrases", OR and -words work; write -- before a query that starts with a dash.
    """
    from obsidian_rag.render import render_answer
    from obsidian_rag.search.pipeline import search as find
    from obsidian_rag.search.query import make_request

    request = make_request(" ".join(query), mode, limit)
    with open_reader(settings) as reader:
        answer = find(reader, request)
    if json_:
        print_json(answer.to_json())
    else:
        click.echo(render_answer(answer))


@cli.command()
@click.argument("file_path")
@click.option("--depth", type=int, default=1, show_default=True, help="Links to follow, 1 to 3.")
@click.option("--include-content", is_flag=True, help="Add the first 500 characters of each note.")
@json_option
@with_settings
def graph(settings: Settings, file_path: str, depth: int, include_content: bool, json_: bool) -> None:
    """Show which notes a note links to, and which link to it."""
    from obsidian_rag.graph import walk_graph
    from obsidian_rag.render import render_graph

    with open_reader(settings) as reader:
        found = reader.run(lambda conn: walk_graph(conn, file_path, depth, include_content))
    if json_:
        print_json(found.to_json())
    else:
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

    with open_reader(settings) as reader:
        found = reader.run(lambda conn: load_note(conn, file_path))
    if json_:
        print_json(found.to_json())
    else:
        click.echo(found.content)


@cli.command()
@json_option
@with_settings
def status(settings: Settings, json_: bool) -> None:
    """Show how the index stands: counts, the last run, notes that failed."""
    from obsidian_rag.catalog import load_status
    from obsidian_rag.render import render_status

    with open_reader(settings) as reader:
        found = reader.run(load_status)
    if json_:
        print_json(found)
    else:
        click.echo(render_status(found))


@cli.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@with_settings
def psql(settings: Settings, arguments: tuple[str, ...]) -> None:
    """Open psql on the index; what stands after -- goes to psql.

    \b
    obsidian-rag psql -- -c "TABLE broken_links"
    """
    from obsidian_rag.psql import run_psql

    leave_on_sigterm()
    sys.exit(run_psql(settings, arguments))


@cli.command()
@click.argument("vault_argument", metavar="[VAULT]", required=False)
@with_settings
def demo(settings: Settings, **_: Any) -> None:
    """Index the example vault, or VAULT, and show what can be asked."""
    from obsidian_rag.demo import run_demo

    leave_on_sigterm()
    sys.exit(run_demo(settings))


def main() -> None:
    """The program obsidian-rag."""
    cli(prog_name="obsidian-rag")
