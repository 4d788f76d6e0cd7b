"""What all commands share: options for settings and filters, JSON on stdout, errors with exit codes.

Exit codes: 0 done; 1 done, but some notes failed; 2 could not be done.
"""

from __future__ import annotations

import errno
import functools
import io
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from obsidian_rag.config import DEFAULT_ARCHIVE, EMBEDDERS, FUSIONS, NAMES, Settings, load_settings
from obsidian_rag.errors import ObsidianRagError
from obsidian_rag.program import show_message

if TYPE_CHECKING:
    from rich.console import Console

    from obsidian_rag.index_reader import IndexReader

SETTING_OPTIONS: tuple[tuple[str, str, str], ...] = (
    ("--vault", "VAULT_PATH", "The vault's folder; several with distinct names separated by ':'."),
    ("--database-url", "DATABASE_URL", "PostgreSQL with pgvector. Without it: the embedded server."),
    ("--data-dir", "OBSIDIAN_RAG_DATA", "Where the embedded server keeps its data."),
    ("--ollama-url", "OLLAMA_URL", "Where Ollama answers."),
    ("--embed-model", "EMBED_MODEL", "The embedding model."),
    ("--embedder", "EMBEDDER", f"One of {', '.join(EMBEDDERS)}."),
    ("--fts-config", "FTS_CONFIG", "PostgreSQL's text search configuration."),
    ("--link-relations", "LINK_RELATIONS", "A TOML file that adds to the words by which links are typed."),
    ("--search-fusion", "SEARCH_FUSION", f"How hybrid joins its lists: {' or '.join(FUSIONS)}."),
    ("--search-boosts", "SEARCH_BOOSTS", "Factors of folders, as Projects=1.3, Journal=0.8."),
    ("--search-archive", "SEARCH_ARCHIVE", f"The factor of archive folders, else {DEFAULT_ARCHIVE}."),
    ("--search-excludes", "SEARCH_EXCLUDES", "Folders and patterns no search shows, as Templates, *.tmp.md."),
    ("--rerank-model", "RERANK_MODEL", "A cross-encoder that orders the first notes anew."),
    ("--expand-model", "EXPAND_MODEL", "A text model of Ollama that words queries in other ways."),
)

Command = Callable[..., Any]
COULD_NOT_RUN = 2
INTERRUPTED = 130  # as a shell reports SIGINT
STOPPED = (129, 143)  # SIGHUP and SIGTERM, see leave_on_sigterm
# Where a command keeps what its JSON document holds if it fails.
FAILURE = "obsidian_rag.failure"
# Set where a command prints one document after the other, each in a line.
JSON_LINES = "obsidian_rag.json_lines"

FILE = click.Path(dir_okay=False, path_type=Path)


class SettingOption(click.Option):
    """An option that sets a setting for this once."""


def with_settings(command: Command) -> Command:
    """Give a command the options for settings; it gets the merged `settings`. Errors end with exit code 2."""

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> Any:
        flags = {name: arguments.pop(name.lower()) for name in NAMES}
        named = arguments.pop("vault_argument", None)
        as_json = arguments.get("json_", False)
        settings = Settings()
        try:
            if named:
                flags["VAULT_PATH"] = named
            settings = load_settings(os.environ, flags, Path.cwd())
            if not arguments.get("quiet"):
                for notice in settings.notices:
                    click.echo(show_message(notice), err=True)
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
            if isinstance(exc, OSError) and exc.errno == errno.ENOSPC:
                fail(False, "No space is left where the output goes", "Free some, or write it elsewhere.")
            from obsidian_rag.masking import hide_passwords

            click.echo(hide_passwords(traceback.format_exc(), settings), err=True)
            words = hide_passwords(f"{type(exc).__name__}: {exc}", settings)
            fail(as_json, words, "This is a fault of obsidian-rag; please report it.")

    for flag, name, text in reversed(SETTING_OPTIONS):
        wrapped = click.option(
            flag, name.lower(), cls=SettingOption, metavar="TEXT", help=f"{text} [{name}]"
        )(wrapped)
    return wrapped


json_option = click.option("--json", "json_", is_flag=True, help="One JSON document on stdout, no more.")


def print_json(value: Any) -> None:
    """One JSON document on stdout, in UTF-8 whatever the locale."""
    context = click.get_current_context(silent=True)
    in_lines = context is not None and context.meta.get(JSON_LINES, False)
    text = json.dumps(value, ensure_ascii=False, indent=None if in_lines else 2)
    # A lone surrogate, from a file name, becomes \\udc80: so JSON writes it too.
    click.echo(text.encode("utf-8", "backslashreplace"))


def fail(as_json: bool, message: str, mend: str, code: int = COULD_NOT_RUN) -> NoReturn:
    """Say why the command could not do its work, on stderr and if wanted as JSON, and end the program."""
    if as_json:
        shown = click.get_current_context().meta.get(FAILURE, {"status": "failed"})
        print_json(shown | {"error": message, "mend": mend})
    click.echo(f"Error: {show_message(str(ObsidianRagError(message, mend)))}", err=True)
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


def forgive_encoding() -> None:
    """Print what the terminal's encoding does not have as an escape: a note may hold anything."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def leave_on_sigterm() -> None:
    """Let SIGTERM end this program as an exit does, so that the embedded server is given back."""
    from obsidian_rag import embedded

    embedded.leave_on_sigterm()


@contextmanager
def open_reader(settings: Settings) -> Iterator[IndexReader]:
    """The index for reading, closed at the end."""
    from obsidian_rag.index_reader import IndexReader

    forgive_encoding()
    reader = IndexReader(settings, lambda text: click.echo(show_message(text), err=True))
    try:
        yield reader
    finally:
        reader.close()


def open_screen() -> Console | None:
    """The console on which results are laid out; None for a file or a pipe, which get Markdown."""
    if not sys.stdout.isatty():
        return None
    from obsidian_rag.screen.paint import open_console

    return open_console()


def with_priors(command: Command) -> Command:
    """Give a command the options for what counts beside the match: `boosts` and `include_excluded`."""
    for option in (
        click.option("--include-excluded", is_flag=True, help="Also what SEARCH_EXCLUDES hides."),
        click.option(
            "--boost",
            "boosts",
            multiple=True,
            metavar="FOLDER=FACTOR",
            help="Favour a folder, or put it back: Projects=1.3; may be repeated.",
        ),
    ):
        command = option(command)
    return command


def with_filters(command: Command) -> Command:
    """Give a command the options that say which notes may answer; it gets them as `filters`."""

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> Any:
        from obsidian_rag.search.query import make_filters

        given = {name: arguments.pop(name) for name in ("folder", "tags", "properties", "after", "before")}
        return command(filters=make_filters(**given), **arguments)

    for option in (
        click.option("--before", metavar="DATE", help="Only notes of this day or earlier."),
        click.option("--after", metavar="DATE", help="Only notes of this day or later, as 2025-09-30."),
        click.option(
            "--property",
            "properties",
            multiple=True,
            metavar="KEY=VALUE",
            help="Only notes with this property; may be repeated.",
        ),
        click.option(
            "--tag", "tags", multiple=True, help="Only notes with this tag or one below it; may be repeated."
        ),
        click.option("--folder", help="Only notes in this folder or below it."),
    ):
        wrapped = option(wrapped)
    return wrapped
