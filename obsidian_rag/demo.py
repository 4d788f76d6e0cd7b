"""A tour: index a vault, ask it in every mode, walk its graph, and say how to go on."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from obsidian_rag.client_config import make_claude_line
from obsidian_rag.config import DEFAULT_ARCHIVE, FUSIONS, Settings, Vault, join_list, mask_password
from obsidian_rag.errors import SettingsError
from obsidian_rag.graph import Graph, walk_graph
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.indexing import Options, run_indexer
from obsidian_rag.migrate import sql_folder
from obsidian_rag.postgres import Connection
from obsidian_rag.program import find_program, name_program, show_message, spell_commands
from obsidian_rag.progress import open_progress
from obsidian_rag.render import fit_graph, render_graph, render_report
from obsidian_rag.screen.safety import show_text
from obsidian_rag.search.pipeline import Answer, search
from obsidian_rag.search.query import Mode, make_request

SHOWN = 3  # notes of each question
BESIDE = ("same_note", "neighbor")  # what stands under a note's best passage
GRAPH_BUDGET = 800  # tokens, about 30 links


@dataclass(frozen=True, slots=True)
class Tour:
    """What to ask a vault, and the note at which to enter its graph."""

    questions: tuple[tuple[Mode, str], ...]
    entrance: str | None


EXAMPLE_TOUR = Tour(
    (
        ("hybrid", "how do I replace a dead disk?"),
        ("keyword", "snapraid parity disk failure"),
        ("vector", "keeping the house warm without wasting gas"),
        ("hybrid", "rotella plan"),
    ),
    "Projects/Garden/RAG/index.md",
)
# The most linked notes of a vault are those a person is likely to ask about.
HUBS = """
SELECT n.title, n.file_path FROM notes n
LEFT JOIN note_links l ON l.target_path = n.file_path AND l.source_path <> n.file_path
GROUP BY n.title, n.file_path ORDER BY count(l.id) DESC, n.file_path LIMIT 3
"""


def run_demo(settings: Settings) -> int:
    """Do the tour; returns the exit code of the indexing, 1 where notes failed."""
    own = bool(settings.vaults)
    if not own:
        settings = replace(settings, vaults=(Vault(example_vault()),))
    _title(f"Indexing {', '.join(str(vault.root) for vault in settings.vaults)}")
    with open_progress(quiet=False) as progress:
        report = run_indexer(settings, Options(), progress)
    _show(render_report(report))
    reader = IndexReader(settings, lambda text: print(show_message(text), file=sys.stderr))
    try:
        tour = reader.run(_make_tour) if own else EXAMPLE_TOUR
        for mode, question in tour.questions:
            _title(f"{mode}: {question}")
            _show(_summarize(search(reader, make_request(question, mode))))
        if tour.entrance is not None:
            _title("The link graph")
            _show(_draw(reader.run(partial(walk_graph, file_path=tour.entrance, depth=2))))
    finally:
        reader.close()
    _title("Next")
    print(describe_next_steps(settings, own))
    return 1 if report.failures else 0


def example_vault() -> Path:
    """The example vault of the checkout or of the installed package."""
    vault = sql_folder() / "examples" / "vault"
    if not vault.is_dir():
        raise SettingsError("The example vault is missing", "Name a vault: obsidian-rag demo /path/to/vault")
    return vault


def _make_tour(conn: Connection) -> Tour:
    hubs = conn.execute(HUBS).fetchall()
    modes: Sequence[Mode] = ("hybrid", "keyword", "vector")
    questions = tuple((mode, title) for mode, (title, _) in zip(modes, hubs, strict=False))
    return Tour(questions, hubs[0][1] if hubs else None)


def _title(text: str) -> None:
    _show(f"\n=== {text}")


def _show(text: str) -> None:
    """Print text of notes, which a terminal must not obey."""
    print(show_text(text), flush=True)


def _summarize(answer: Answer) -> str:
    lines = [f"({spell_commands(notice)})" for notice in answer.notices]
    hits = [hit for hit in answer.results if hit.evidence not in BESIDE][:SHOWN]
    for number, hit in enumerate(hits, 1):
        where = f" > {hit.heading_path}" if hit.heading_path else ""
        text = " ".join(hit.content.split())
        lines.append(f"{number}. {hit.file_path}{where}  [{hit.evidence}]")
        lines.append(f"   {text[:160]}{'…' if len(text) > 160 else ''}")
    return "\n".join(lines or ["nothing found"])


def _draw(graph: Graph) -> str:
    """A neighbourhood in brief; where that leaves out much, with the command that shows all."""
    brief = fit_graph(graph, GRAPH_BUDGET)
    if brief.notices != graph.notices:
        whole = f"{name_program()} graph --depth {graph.depth} {shlex.quote(graph.file_path)}"
        brief = replace(brief, notices=(*graph.notices, f"In brief. All of it: {whole}"))
    return render_graph(brief)


def describe_next_steps(settings: Settings, own: bool) -> str:
    """How the reader goes on with a vault of their own, or with this one, and connects Claude Code to it."""
    program = find_program()
    lines = [
        f"Set it up with {'this' if own else 'your own'} vault: settings, index, client, the line for cron:",
        f"  {name_program()} init{f' --vault {_vault_path(settings)}' if own else ''}",
        "Or by hand. Connect Claude Code to this index:",
        f"  {connect_line(settings, program)}",
    ]
    lines += [
        f"  ({name} is taken from your shell, its password is not shown here.)" for name in _hidden(settings)
    ]
    if own:
        lines += ["Index it again after edits, or from cron:", f"  {program} index {_vault_path(settings)}"]
    else:
        lines += [
            "Index your own vault, then connect it with its path as VAULT_PATH:",
            f"  {program} index /path/to/your/vault",
        ]
    return "\n".join(lines)


def connect_line(settings: Settings, program: str) -> str:
    """The shell line that registers the server with all it needs, wherever it will be started.

    A value with a password is left to the shell to fill in.
    """
    hidden = _hidden(settings)
    given = list_given(settings)
    passed = [
        f'-e {name}="${name}"' if name in hidden else f"-e {shlex.quote(f'{name}={value}')}"
        for name, value in given.items()
    ]
    return make_claude_line(program, passed)


def list_given(settings: Settings) -> dict[str, str]:
    """The settings that are not at their defaults, by name, as they are written."""
    given = {"VAULT_PATH": os.pathsep.join(str(vault.root) for vault in settings.vaults)}
    return given | {name: value for name, value in _values(settings).items() if value is not None}


def _values(settings: Settings) -> dict[str, str | None]:
    """What an agent's server needs beside the vault; None where nothing was set."""
    return {
        "DATABASE_URL": settings.database_url,
        "OBSIDIAN_RAG_DATA": str(settings.data_dir) if settings.data_dir else None,
        "OLLAMA_URL": settings.ollama_url if settings.ollama_url_is_set else None,
        "EMBED_MODEL": settings.embed_model,
        "EMBEDDER": settings.embedder if settings.embedder != "auto" else None,
        "FTS_CONFIG": settings.fts_config,
        "LINK_RELATIONS": str(settings.link_relations) if settings.link_relations else None,
        "SEARCH_FUSION": settings.search_fusion if settings.search_fusion != FUSIONS[0] else None,
        "SEARCH_BOOSTS": join_list([f"{folder}={factor}" for folder, factor in settings.search_boosts])
        or None,
        "SEARCH_ARCHIVE": str(settings.search_archive)
        if settings.search_archive != DEFAULT_ARCHIVE
        else None,
        "SEARCH_EXCLUDES": join_list(settings.search_excludes) or None,
        "RERANK_MODEL": settings.rerank_model,
        "EXPAND_MODEL": settings.expand_model,
    }


def _hidden(settings: Settings) -> list[str]:
    return [name for name, value in _values(settings).items() if value and mask_password(value) != value]


def _vault_path(settings: Settings) -> str:
    return shlex.quote(os.pathsep.join(str(vault.root) for vault in settings.vaults))
