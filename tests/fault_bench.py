"""What the tests of faults share: notes to be indexed, and what must hold of an index whatever happened."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from conftest import VaultFolder, Workbench
from raw_server import RawServer

from obsidian_rag import ledger
from obsidian_rag.catalog import load_status
from obsidian_rag.drift import Drift, compare_tables, load_full_status
from obsidian_rag.postgres import connect

PATIENCE = 120  # seconds until a test gives up
NewBench = Callable[[VaultFolder], Workbench]


def write_notes(vault: VaultFolder, count: int, say: str = "says") -> None:
    """Notes of three chunks that link to one another."""
    for number in range(count):
        parts = "".join(f"## Part {part}\n\nNote {number} {say} {part}.\n\n" for part in range(2))
        vault.write(f"Note {number:02}.md", f"[[Note {(number + 1) % count:02}]]\n\n{parts}")


def find_notes(bench: Workbench) -> list[str]:
    """The notes in the index."""
    return [path for (path,) in bench.rows("SELECT file_path FROM notes ORDER BY 1")]


def find_drift(bench: Workbench) -> tuple[Drift, ...]:
    """How the tables disagree with one another."""
    with connect(bench.database_url, read_only=True) as conn:
        return compare_tables(conn)


def read_status(bench: Workbench, *, full: bool = False) -> dict[str, Any]:
    with connect(bench.database_url, read_only=True) as conn:
        return load_full_status(conn, bench.settings) if full else load_status(conn)


def assert_as_undisturbed(bench: Workbench, new_bench: NewBench) -> None:
    """The index is that of one run over the same vault in which nothing went wrong."""
    fresh = new_bench(bench.vault)
    fresh.index()
    assert bench.tables() == fresh.tables()
    assert find_drift(bench) == ()


def await_end_of_indexers(bench: Workbench) -> None:
    """PostgreSQL sees the end of a killed client a moment later; its lock is then free."""
    with psycopg.connect(bench.database_url, autocommit=True) as conn:
        conn.execute("SET lock_timeout = '60s'")
        conn.execute("SELECT pg_advisory_lock(%s)", (ledger.INDEXER_LOCK,))


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
        pause.wait(0.02)


def open_server(bench: Workbench, folder: Path, **environment: str) -> RawServer:
    """The real server over the bench's index, which has answered its first request."""
    folder.mkdir(exist_ok=True)
    server = RawServer(bench.environment | environment, folder)
    server.initialize()
    return server


def paths_of(answer: dict[str, Any]) -> list[str]:
    """The notes of an answer of search_notes over the wire, best first."""
    assert not answer.get("isError"), answer
    return list(dict.fromkeys(hit["file_path"] for hit in answer["structuredContent"]["results"]))


def error_of(answer: dict[str, Any]) -> str:
    """The words of a tool's error."""
    assert answer["isError"], answer
    return str(answer["content"][0]["text"])
