"""A tour: index a vault, ask it in every mode, walk its graph, and say how to go on."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from obsidian_rag.config import Settings, Vault
from obsidian_rag.errors import SettingsError
from obsidian_rag.graph import walk_graph
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.indexing import Options, run_indexer
from obsidian_rag.migrate import sql_folder
from obsidian_rag.postgres import Connection
from obsidian_rag.progress import open_progress
from obsidian_rag.render import render_graph, render_report
from obsidian_rag.search.pipeline import Answer, search
from obsidian_rag.search.query import Mode, make_request

SHOWN = 3  # results of each question
# Settings that an agent's server needs as well, where the person set them.
PASSED_ON = (
    "DATABASE_URL", "OBSIDIAN_RAG_DATA", "OLLAMA_URL", "EMBED_MODEL", "EMBEDDER", "FTS_CONFIG",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tour:
    """What to ask a vault, and the note at which to enter its graph."""

    questions: tuple[tuple[Mode, str], ...]
    entrance: str


EXAMPLE_TOUR = Tour(
    (
        ("hybrid", "what do I do when a drive in the server dies?"),
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
    print(render_report(report))
    reader = IndexReader(settings, lambda text: print(text, file=sys.stderr))
    try:
        tour = reader.run(_make_tour) if own else EXAMPLE_TOUR
        for mode, question in tour.questions:
            _title(f"{mode}: {question}")
            print(_summarize(search(reader, make_request(question, mode))))
        _title("The link graph")
        print(render_graph(reader.run(lambda conn: walk_graph(conn, tour.entrance, 2))))
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
    titles = [title for title, _ in hubs] or ["notes"]
    questions = tuple((mode, titles[i % len(titles)]) for i, mode in enumerate(modes))
    return Tour(questions, hubs[0][1])


def _title(text: str) -> None:
    print(f"\n=== {text}", flush=True)


def _summarize(answer: Answer) -> str:
    lines = [f"({notice})" for notice in answer.notices]
    hits = [hit for hit in answer.results if not hit.neighbor][:SHOWN]
    for number, hit in enumerate(hits, 1):
        where = f" > {hit.heading_path}" if hit.heading_path else ""
        text = " ".join(hit.content.split())
        lines.append(f"{number}. {hit.file_path}{where}  [{hit.evidence}]")
        lines.append(f"   {text[:160]}{'…' if len(text) > 160 else ''}")
    return "\n".join(lines or ["nothing found"])


def describe_next_steps(settings: Settings, own: bool) -> str:
    """The line that connects Claude Code to this index, and the one that indexes the reader's own vault."""
    program = shlex.quote(_program())
    lines = ["Connect Claude Code to this index:", f"  {connect_line(settings, program)}"]
    if not own:
        lines += ["Index your own vault:", f"  {program} index /path/to/your/vault"]
    else:
        lines += ["Index it again after edits, or from cron:", f"  {program} index {_vault_path(settings)}"]
    return "\n".join(lines)


def connect_line(settings: Settings, program: str) -> str:
    """The shell line that registers the server; values of settings come from the shell, not from here."""
    passed = "".join(f' -e {name}="${name}"' for name in PASSED_ON if name in settings.from_environment)
    return (
        f"claude mcp add --scope user obsidian-rag -e VAULT_PATH={_vault_path(settings)}{passed}"
        f" -- {program} serve"
    )


def _vault_path(settings: Settings) -> str:
    return shlex.quote(os.pathsep.join(str(vault.root) for vault in settings.vaults))


def _program() -> str:
    beside = Path(sys.executable).with_name("obsidian-rag")
    return str(beside) if beside.exists() else sys.argv[0]
