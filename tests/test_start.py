"""What a start costs: which modules are there when, and what is got ready before anybody asks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import Workbench
from embedded_bench import EmbeddedBench, make_embedded_bench
from fastmcp.tools import Tool
from fault_bench import wait_until
from ollama_double import OllamaDouble
from raw_server import ROOT, RawServer

from obsidian_rag import embedded_home
from obsidian_rag.warmup import Warmup

HEAVY = {
    "fastembed",
    "griffe",
    "httpx",
    "markdown_it",
    "numpy",
    "onnxruntime",
    "pgvector",
    "psutil",
    "psycopg",
    "py3langid",
    "regex",
    "yaml",
    "obsidian_rag.graph",
    "obsidian_rag.index_reader",
    "obsidian_rag.indexing",
    "obsidian_rag.render",
    "obsidian_rag.search",
}
# server.py without what it does after its answers; says at the end what it has imported.
SERVER = """
import runpy, sys
from obsidian_rag.warmup import Warmup
Warmup.start = lambda self: None
try:
    runpy.run_path(sys.argv.pop(), run_name="__main__")
finally:
    print("imported:", *sys.modules, file=sys.stderr)
"""
COMMAND = """
import sys
from obsidian_rag.cli import main
try:
    main()
finally:
    print("imported:", *sys.modules, file=sys.stderr)
"""


def read_imported(stderr: str) -> set[str]:
    line = next(line for line in stderr.splitlines() if line.startswith("imported: "))
    return set(line.split()[1:])


def count_connections(bench: Workbench) -> int:
    """Connections to the index beside the one that counts."""
    rows = bench.rows(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    return int(rows[0][0])


def test_the_server_tells_its_tools_without_what_only_calls_need(bench: Workbench, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(SERVER)
    environment = bench.environment | {"PYTHONPATH": str(ROOT)}
    with RawServer(environment, tmp_path, [sys.executable, program, ROOT / "server.py"]) as server:
        server.initialize()
        assert len(server.ask("tools/list")["result"]["tools"]) == 4
        server.end_input()
        assert server.finish() == 0
        imported = read_imported(server.stderr)
    assert {"fastmcp", "obsidian_rag.mcp_tools"} <= imported
    assert imported & HEAVY == set()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["index", "--help"], ["search", "--help"]])
def test_help_is_printed_without_what_only_work_needs(arguments: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        env={"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    imported = read_imported(done.stderr)
    assert "obsidian_rag.cli" in imported
    assert imported & (HEAVY | {"fastmcp", "rich", "pydantic", "watchfiles"}) == set()


def test_the_server_connects_before_the_first_call(bench: Workbench, tmp_path: Path) -> None:
    bench.vault.write("A.md", "Words.\n")
    bench.index()
    assert count_connections(bench) == 0
    with RawServer(bench.environment, tmp_path) as server:
        server.initialize()
        server.ask("tools/list")
        wait_until(lambda: count_connections(bench) == 1, "the server connects")
        assert server.call("list_topics")["structuredContent"]["topics"]
        server.end_input()
        assert server.finish() == 0
        assert server.stderr == ""


@pytest.fixture
def embedded_bench(ollama: OllamaDouble, tmp_path: Path) -> EmbeddedBench:
    return make_embedded_bench(tmp_path, ollama)


def test_the_embedded_server_is_started_before_the_first_call(
    embedded_bench: EmbeddedBench, tmp_path: Path
) -> None:
    assert embedded_bench.server_process() is None
    with RawServer(embedded_bench.environment, tmp_path) as server:
        server.initialize()
        server.ask("tools/list")
        wait_until(embedded_bench.server_process, "the embedded server is started")
        server.end_input()
        assert server.finish() == 0
        assert embedded_bench.server_process() is None
        assert server.stderr == ""


def test_an_input_that_ends_at_once_ends_the_server_in_order(
    embedded_bench: EmbeddedBench, tmp_path: Path
) -> None:
    with RawServer(embedded_bench.environment, tmp_path) as server:
        server.send("initialize", {})
        server.send("tools/list")
        server.end_input()
        assert server.finish() == 0
        assert server.stderr == ""
        assert embedded_bench.server_process() is None


def test_no_database_is_made_where_nothing_was_indexed(tmp_path: Path) -> None:
    home = tmp_path / "data"
    environment = {"OBSIDIAN_RAG_DATA": str(home), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    with RawServer(environment, tmp_path) as server:
        server.initialize()
        server.ask("tools/list")
        server.end_input()
        assert server.finish() == 0
    assert not embedded_home.was_made(home)


async def list_nothing(_context: Any) -> Sequence[Tool]:
    return []


def test_the_first_step_waits_for_the_list_of_tools() -> None:
    begun = threading.Event()

    def prepare() -> Iterator[None]:
        begun.set()
        yield

    warmup = Warmup(prepare, patience=600)
    warmup.start()
    assert not begun.is_set()
    asyncio.run(warmup.on_list_tools(None, list_nothing))  # type: ignore[arg-type]
    assert begun.wait(60)
    warmup.end()


def test_a_client_that_knows_the_tools_is_not_waited_for() -> None:
    begun = threading.Event()

    def prepare() -> Iterator[None]:
        begun.set()
        yield

    warmup = Warmup(prepare, patience=0)
    warmup.start()
    assert begun.wait(60)
    warmup.end()


def test_the_end_comes_before_the_next_step() -> None:
    first, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def prepare() -> Iterator[None]:
        first.set()
        go_on.wait(60)
        done.append("first")
        yield
        done.append("second")

    warmup = Warmup(prepare, patience=0)
    warmup.start()
    assert first.wait(60)
    ending = threading.Thread(target=warmup.end)
    ending.start()
    wait_until(lambda: warmup.is_ending, "the end is known")
    go_on.set()
    ending.join(60)
    assert done == ["first"]


def test_what_fails_beforehand_is_left_to_the_first_call(capfd: pytest.CaptureFixture[str]) -> None:
    failed = threading.Event()

    def prepare() -> Iterator[None]:
        yield
        failed.set()
        raise OSError("The database is down")

    warmup = Warmup(prepare, patience=0)
    warmup.start()
    assert failed.wait(60)
    warmup.end()
    assert capfd.readouterr() == ("", "")
