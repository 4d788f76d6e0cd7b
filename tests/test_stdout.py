"""Nothing but the protocol on the server's stdout, whatever the libraries do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Workbench
from raw_server import ROOT, RawServer

# Loaded by the interpreter before anything of ours. It stands for libraries that print when they are
# imported, when they connect, and when the program ends, through Python and past it.
NOISY = """
import atexit, os, subprocess, sys, warnings

NAMES = {"fastmcp", "mcp.server", "pydantic", "psycopg", "numpy", "pgvector", "httpx", "obsidian_rag.graph"}

def make_noise(where):
    print("noise printed", where)
    sys.stdout.buffer.write(b"noise buffered\\n")
    sys.__stdout__.write("noise unflushed")
    os.write(1, f"noise native {where}\\n".encode())
    warnings.warn("noise warned " + where)

def listen(event, arguments):
    if event == "import" and arguments[0] in NAMES:
        NAMES.discard(arguments[0])
        make_noise("import " + arguments[0])
        if arguments[0] == "psycopg":
            print("noise long " * 20_000)
            subprocess.run(["echo", "noise of a child"])
    elif event == "socket.connect":
        make_noise("connect")

print("noise printed at start")
sys.addaudithook(listen)
atexit.register(make_noise, "exit")
"""


@pytest.fixture
def noisy(bench: Workbench, tmp_path: Path) -> dict[str, str]:
    """The environment of a server full of noise, with an index of two notes."""
    bench.vault.write("A.md", "# Alpha\n\nTo [[B]].\n")
    bench.vault.write("B.md", "# Beta\n\nWords.\n")
    bench.index()
    folder = tmp_path / "noisy"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(NOISY)
    return bench.environment | {"PYTHONPATH": str(folder), "PYTHONWARNINGS": "always"}


def test_stdout_carries_json_rpc_only(noisy: dict[str, str], tmp_path: Path) -> None:
    with RawServer(noisy, tmp_path) as server:
        server.initialize()
        assert server.call("search_notes", query="words")["structuredContent"]["results"]
        assert server.call("graph_search", file_path="A")["structuredContent"]["total"] == 1
        assert server.call("get_note", file_path="nowhere")["isError"]
        server.end_input()
        assert server.finish() == 0

    assert [json.loads(line)["jsonrpc"] for line in server.lines] == ["2.0"] * 4
    # The noise was made, and went where a person can read it.
    for noise in (
        "printed at start",
        "printed import fastmcp",
        "native import psycopg",
        "of a child",
        "buffered",
        "unflushed",
        "native connect",
        "warned connect",
        "long noise long",
        "printed exit",
        "native exit",
    ):
        assert f"noise {noise}" in server.stderr


def test_stdout_stays_clean_when_a_signal_ends_the_server(noisy: dict[str, str], tmp_path: Path) -> None:
    with RawServer(noisy, tmp_path) as server:
        server.initialize()
        server.call("list_topics")
        server.process.terminate()
        assert server.finish() == 128 + 15

    assert [json.loads(line)["jsonrpc"] for line in server.lines] == ["2.0"] * 2
    assert "noise native exit" in server.stderr


def test_help_is_printed_on_stdout(bench: Workbench, tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, ROOT / "server.py", "--help"],
        env=bench.environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Usage: server.py serve" in shown.stdout
    assert shown.stderr == ""


def test_half_an_emoji_in_a_request_is_answered_like_any_other(bench: Workbench, tmp_path: Path) -> None:
    bench.vault.write("A.md", "Words.\n")
    bench.index()
    with RawServer(bench.environment, tmp_path) as server:
        server.initialize()
        for query in ("words \ud83d", "\ude00 words", "words \U0001f600 \\ud83d"):
            answer = server.call("search_notes", query=query, mode="keyword")
            assert [hit["file_path"] for hit in answer["structuredContent"]["results"]] == ["A.md"]
        server.end_input()
        assert server.finish() == 0
