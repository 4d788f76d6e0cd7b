"""The parts of speed.py about the server: tool calls over MCP, recall of the vector index, and the start."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from made_vaults import MadeVault, Plan
from speed_lab import Lab, ask, middle, percentile, read_memory

MANY_CHUNKS = 150_000  # from which on a call may take three times its bar
BARS = {  # milliseconds at 100,000 chunks: p50, p95
    "keyword, rare words": (10, 30),
    "keyword, frequent words": (10, 30),
    "keyword, questions": (10, 30),
    "vector": (None, 20),
    "hybrid": (20, 45),
    "graph_search, depth 3": (None, 50),
    "get_note": (None, 20),
    "list_topics": (None, 20),
}
LEAST_RECALL = 0.98
STARTS = 9
MOST_START, MOST_IDLE = 1.3, 120
IDLE_SECONDS = 3  # until a server that has started does nothing more
BARE_SERVER = """
from fastmcp import FastMCP
server = FastMCP("bare")
@server.tool
def search_notes(query: str, limit: int = 10) -> str:
    return query
server.run(transport="stdio", show_banner=False, log_level="WARNING")
"""
# No such port is open: a connection is refused at once.
NO_DATABASE = "postgresql://nobody:nothing@127.0.0.1:9/none"

Call = tuple[str, dict[str, Any]]
Found = list[tuple[str, int]]


class Session:
    """A client of an MCP server over stdio: one call after the other."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._errors = (folder / "stderr").open("wb")
        started = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._number = 0
        self._ask(
            "initialize",
            {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "speed", "version": "1"},
            },
        )
        self.start_seconds = time.perf_counter() - started
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        """Milliseconds until the answer was there, and the answer. Raises RuntimeError for an error."""
        started = time.perf_counter()
        answer = self._ask("tools/call", {"name": tool, "arguments": arguments})
        took = (time.perf_counter() - started) * 1000
        if answer.get("isError"):
            raise RuntimeError(f"{tool} {arguments}: {answer['content'][0]['text']}")
        return took, answer

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self._errors.close()

    def _ask(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": parameters})
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self._number and "method" not in message:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return dict(message["result"])
        raise RuntimeError(f"The server ended: {Path(self._errors.name).read_text()[-2000:]}")

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()


@contextmanager
def open_session(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> Iterator[Session]:
    session = Session(command, environment, folder)
    try:
        yield session
    finally:
        session.close()


def serve_command() -> list[str]:
    return [sys.executable, "-m", "obsidian_rag", "serve"]


def keyword_queries(vault: MadeVault) -> dict[str, list[str]]:
    """By kind; the peer gets the same."""
    rare, frequent = vault.rare, vault.frequent
    return {
        "rare words": [*rare[:20], *map(" ".join, zip(rare[20:30], rare[30:40], strict=True))],
        "frequent words": [*frequent, *map(" ".join, zip(frequent[:10], frequent[10:], strict=True))],
        "questions": vault.questions,
    }


def make_calls(vault: MadeVault, paths: Sequence[str]) -> dict[str, list[Call]]:
    """What is asked of the server, by kind. No query occurs twice in one mode."""

    def search(mode: str, queries: Sequence[str]) -> list[Call]:
        return [("search_notes", {"query": query, "mode": mode}) for query in queries]

    words = keyword_queries(vault)
    mixed = [*vault.questions, *vault.titles, *words["rare words"][:10], *words["frequent words"][:10]]
    calls = {f"keyword, {kind}": search("keyword", queries) for kind, queries in words.items()}
    calls["vector"] = search("vector", mixed)
    calls["hybrid"] = search("hybrid", mixed)
    calls["graph_search, depth 3"] = [("graph_search", {"file_path": path, "depth": 3}) for path in paths]
    calls["get_note"] = [("get_note", {"file_path": path}) for path in paths]
    calls["list_topics"] = [("list_topics", {})] * 20
    return calls


def measure_tools(lab: Lab, plan: Plan, embedder: str) -> None:
    """How long each kind of call takes, the first calls of a server aside."""
    vault = lab.working_vault(plan)
    url = lab.database(plan)
    environment = lab.environment(vault.root, url, embedder)
    with psycopg.connect(url, autocommit=True) as conn:
        paths = pick_paths(conn)
        row = conn.execute("SELECT count(*) FROM documents").fetchone()
    times = 3 if row is not None and row[0] >= MANY_CHUNKS else 1
    with open_session(serve_command(), environment, lab.cache / "work" / "serve") as session:
        for mode in ("keyword", "vector", "hybrid"):
            for n in range(3):
                session.call("search_notes", {"query": f"warming up {mode} {n}", "mode": mode})
        for kind, calls in make_calls(vault, paths).items():
            took = [session.call(*call)[0] for call in calls]
            for name, share, bar in zip(("p50", "p95"), (0.5, 0.95), BARS[kind], strict=True):
                lab.add(
                    "tools",
                    plan,
                    f"{kind}, {name}",
                    percentile(took, share),
                    "ms",
                    bar=bar and bar * times,
                )
        ask(f"{embedder}/spent", forget=True)
        for _ in range(2):
            session.call("search_notes", {"query": "a question that is asked twice", "mode": "hybrid"})
        texts = ask(f"{embedder}/spent")["texts"]
        lab.add("tools", plan, "texts embedded for a query asked twice", texts, "", bar=1)
        lab.add("tools", plan, "memory of the server after that", read_memory(session.process.pid), "MB")
    measure_recall(lab, plan, embedder)


def pick_paths(conn: psycopg.Connection[Any]) -> list[str]:
    """Thirty notes by chance and the ten that most others link to."""
    rows = conn.execute(
        "(SELECT file_path FROM notes ORDER BY md5(file_path) LIMIT 30) UNION"
        " (SELECT target_path FROM note_links WHERE target_type = 'note' GROUP BY 1"
        "  ORDER BY count(*) DESC, 1 LIMIT 10)"
    ).fetchall()
    return [row[0] for row in rows]


def measure_recall(lab: Lab, plan: Plan, embedder: str) -> None:
    """Of the ten results of an exact search, how many the vector index finds: the same server, once with
    index scans forbidden to the database.
    """
    vault = lab.working_vault(plan)
    url = lab.database(plan)
    found: list[list[Found]] = []
    for exact in (False, True):
        chosen = url + ("?options=-c%20enable_indexscan%3Doff" if exact else "")
        environment = lab.environment(vault.root, chosen, embedder)
        with open_session(serve_command(), environment, lab.cache / "work" / "serve") as session:
            queries = [*vault.questions, *vault.titles]
            answers = [session.call("search_notes", {"query": q, "mode": "vector"})[1] for q in queries]
        found.append([read_hits(answer) for answer in answers])
    shares = [len(set(near) & set(all_)) / len(all_) for near, all_ in zip(*found, strict=True) if all_]
    lab.add("tools", plan, "vector recall@10", sum(shares) / len(shares), "", bar=LEAST_RECALL, least=True)


def read_hits(answer: dict[str, Any]) -> Found:
    """The notes of an answer, by path and chunk, without the neighbours that are shown beside them."""
    results = answer["structuredContent"]["results"]
    return [(hit["file_path"], hit["chunk_index"]) for hit in results if not hit["neighbor"]]


def measure_start(lab: Lab, plan: Plan, embedder: str) -> None:
    """Time to the answer to `initialize`, and memory a while later; by turns: all meet the same noise."""
    environment = lab.environment(lab.working_vault(plan).root, lab.database(plan), embedder)
    folder = lab.cache / "work" / "serve"
    bare = [sys.executable, "-c", BARE_SERVER]
    kinds = {
        "a bare FastMCP server": (bare, environment),
        "serve": (serve_command(), environment),
        "serve without its database": (serve_command(), environment | {"DATABASE_URL": NO_DATABASE}),
    }
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(STARTS):
        for kind, (command, chosen) in kinds.items():
            with open_session(command, chosen, folder) as session:
                times[kind].append(session.start_seconds)
    least = middle(times["a bare FastMCP server"])
    for kind, (command, chosen) in kinds.items():
        seconds = middle(times[kind])
        lab.add("start", None, f"{kind} answers initialize", seconds, "s")
        if kind != "a bare FastMCP server":
            lab.add("start", None, f"{kind}, ratio to the bare one", seconds / least, "", bar=MOST_START)
        with open_session(command, chosen, folder) as session:
            time.sleep(IDLE_SECONDS)
            idle = read_memory(session.process.pid)
        bar = MOST_IDLE if kind == "serve" else None
        lab.add("start", None, f"{kind}, idle memory", idle, "MB", bar=bar)
