"""Commands that answer from the index: search, note, graph, topics, diagnose, web."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from obsidian_rag.cli.completions import complete_notes, mode_option, offer
from obsidian_rag.command_frame import (
    FILE,
    json_option,
    leave_on_sigterm,
    open_reader,
    open_screen,
    print_json,
    with_filters,
    with_priors,
    with_settings,
)
from obsidian_rag.command_help import TaughtCommand
from obsidian_rag.config import Settings
from obsidian_rag.program import spell_commands
from obsidian_rag.screen.safety import show_text

if TYPE_CHECKING:
    from obsidian_rag.catalog import Topics
    from obsidian_rag.diagnosis import Diagnosis
    from obsidian_rag.graph import Graph
    from obsidian_rag.search.pipeline import Answer
    from obsidian_rag.search.query import Filters


Found = TypeVar("Found", "Answer", "Graph", "Topics", "Diagnosis")


def _spell_notices(found: Found) -> Found:
    """With commands that can be typed here, for a person. Only notices: the rest is text of notes."""
    return replace(found, notices=tuple(map(spell_commands, found.notices)))


@click.command(
    cls=TaughtCommand, context_settings={"ignore_unknown_options": True}
)  # -word is part of a query
@click.argument("query", nargs=-1, required=True)
@mode_option
@click.option("--limit", type=int, default=10, show_default=True, help="How many notes, 1 to 50.")
@click.option(
    "--intent",
    shell_complete=offer("exact", "entity", "question", "temporal", "general"),
    help="exact, entity, question, temporal or general, if it is told wrongly.",
)
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

    "Quoted phrases", OR and -words work; write -- before a query that starts with a dash. On a terminal the
    titles open the note in Obsidian; into a file or a pipe goes Markdown.

    \b
    Examples:
      obsidian-rag search "what do I do when a drive dies?"
      obsidian-rag search snapraid OR zfs -windows --folder "Home Server"
      obsidian-rag search --mode keyword --tag recipe --after 2025-01-01 lemon
      obsidian-rag search --json "rent" > answer.json

    Exit code 0 also where nothing is found; the answer says why. 2: it could not search.

    Next: obsidian-rag note NOTE; obsidian-rag diagnose, where a note should have been found
    """
    from obsidian_rag.render import fit_answer, render_answer
    from obsidian_rag.search.pipeline import search as find
    from obsidian_rag.search.query import make_request

    request = make_request(
        " ".join(query), mode, limit, filters, intent, boosts=boosts, include_excluded=include_excluded
    )
    with open_reader(settings) as reader:
        answer = find(reader, request)
        if json_:
            print_json(answer.to_json())
        elif console := open_screen():
            from obsidian_rag.screen.answer import print_answer
            from obsidian_rag.screen.places import load_places

            places = reader.run(lambda conn: load_places(conn, settings))
            print_answer(console, _spell_notices(answer), places)
        else:
            click.echo(render_answer(fit_answer(_spell_notices(answer))))


@click.command(cls=TaughtCommand)
@click.argument("file_path", metavar="NOTE", shell_complete=complete_notes)
@click.option("--heading", help="Only this section, with those below it; ^id: the one with this block.")
@click.option("--offset", type=int, default=0, show_default=True, help="Begin at this character of the note.")
@json_option
@with_settings
def note(settings: Settings, file_path: str, heading: str | None, offset: int, json_: bool) -> None:
    """Print a note's text, as it was indexed: whole, or one section.

    The note is named by its path, its title or an alias; case and .md do not matter. A heading or a block may
    stand behind it, as in a link. On a terminal its Markdown is laid out; into a file or a pipe goes the text
    as it is.

    \b
    Examples:
      obsidian-rag note "Home Server/Snapraid.md"
      obsidian-rag note snapraid
      obsidian-rag note "snapraid#disk failure"

    Next: obsidian-rag graph NOTE, for what it is linked with
    """
    from obsidian_rag.catalog import load_place
    from obsidian_rag.note_pages import make_page
    from obsidian_rag.render import render_note

    with open_reader(settings) as reader:
        found, named = reader.run(lambda conn: load_place(conn, file_path))
        page = None
        if heading is not None or named is not None or offset:
            page = make_page(found, heading, offset, sys.maxsize, named)
            found = replace(found, content=page.content)
            for notice in page.notices:
                click.echo(show_text(notice), err=True)
        if json_:
            print_json((page or found).to_json())
        elif console := open_screen():
            from obsidian_rag.screen.index import print_note
            from obsidian_rag.screen.places import load_places

            print_note(console, found, reader.run(lambda conn: load_places(conn, settings)))
        else:
            click.echo(render_note(found))


@click.command(cls=TaughtCommand)
@click.argument("file_path", metavar="NOTE", shell_complete=complete_notes)
@click.option("--depth", type=int, default=1, show_default=True, help="Links to follow, 1 to 3.")
@click.option("--relation", "relations", multiple=True, help="Only links that say this; may be repeated.")
@click.option(
    "--direction",
    default="both",
    show_default=True,
    shell_complete=offer("both", "out", "in"),
    help="Only links out, or in, at each step.",
)
@click.option("--include-content", is_flag=True, help="Add the first 500 characters of each note.")
@click.option("--mermaid", is_flag=True, help="Print a Mermaid flowchart, for a code block in a note.")
@click.option("--html", "page", type=FILE, metavar="FILE", help="Draw a page for the browser.")
@json_option
@with_settings
def graph(settings: Settings, json_: bool, mermaid: bool, page: Path | None, **walk: Any) -> None:
    """Show which notes a note links to, and which link to it.

    With how the text says that they are connected, where it does.

    \b
    Examples:
      obsidian-rag graph "Ann Example"
      obsidian-rag graph --depth 2 --direction out "Home Server"
      obsidian-rag graph --html ann.html "Ann Example"

    Next: obsidian-rag note NOTE, to read one of them
    """
    from obsidian_rag.graph import walk_graph
    from obsidian_rag.picture import load_picture
    from obsidian_rag.picture.mermaid import render_mermaid
    from obsidian_rag.picture.page import check_page_name, write_page
    from obsidian_rag.render import render_graph
    from obsidian_rag.screen.index import print_graph
    from obsidian_rag.screen.places import load_places

    if mermaid and json_:
        raise click.UsageError("--mermaid and --json both print; use one of them.")
    if page:
        check_page_name(page)
    with open_reader(settings) as reader:
        found = reader.run(lambda conn: walk_graph(conn, **walk))
        picture = reader.run(lambda conn: load_picture(conn, found)) if mermaid or page else None
        console = None if json_ or mermaid or page else open_screen()
        if console:
            print_graph(console, _spell_notices(found), reader.run(lambda conn: load_places(conn, settings)))
    if picture and page:
        write_page(picture, page)
        click.echo(f"Drawn: {page.absolute()}", err=True)
    if json_:
        print_json(found.to_json())
    elif picture and mermaid:
        click.echo(render_mermaid(picture), nl=False)
    elif not page and not console:
        click.echo(render_graph(_spell_notices(found)))


@click.command(cls=TaughtCommand)
@json_option
@with_settings
def topics(settings: Settings, json_: bool) -> None:
    """List the vault's top-level folders with their notes and chunks.

    \b
    Examples:
      obsidian-rag topics
      obsidian-rag topics --json

    Next: obsidian-rag search --folder FOLDER "a question"
    """
    from obsidian_rag.catalog import list_topics
    from obsidian_rag.render import render_topics

    with open_reader(settings) as reader:
        found = reader.run(list_topics)
    if json_:
        print_json(found.to_json())
    elif console := open_screen():
        from obsidian_rag.screen.index import print_topics

        print_topics(console, _spell_notices(found))
    else:
        click.echo(render_topics(_spell_notices(found)))


@click.command(cls=TaughtCommand)
@click.argument("query", nargs=-1, required=True)
@click.option(
    "--target", required=True, shell_complete=complete_notes, help="The note that should have been found."
)
@mode_option
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
    """Tell why a note is not higher in a search.

    Who ranked it where, and what would have helped.

    \b
    Examples:
      obsidian-rag diagnose "dead drive" --target "Home Server/Snapraid.md"

    Next: obsidian-rag eval, to measure whether a change of the settings helps in general
    """
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
        findings = tuple(map(spell_commands, diagnosis.findings))
        shown = replace(_spell_notices(diagnosis), findings=findings)
        click.echo(show_text(render_diagnosis(shown)))


@click.command(cls=TaughtCommand)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8722, show_default=True, help="0: any free one."
)
@click.option("--no-open", is_flag=True, help="Do not open it in the browser.")
@with_settings
def web(settings: Settings, port: int, no_open: bool) -> None:
    """Search in the browser, on a page of this machine alone.

    It only reads, and nobody else on the network can reach it. Ctrl-C ends it.

    \b
    Examples:
      obsidian-rag web
      obsidian-rag web --port 0 --no-open

    Exit code 2: it could not run, perhaps since another program has the port.
    """
    from obsidian_rag.web import serve_web

    leave_on_sigterm()
    serve_web(settings, port=port, open_browser=not no_open)
