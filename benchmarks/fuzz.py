"""Feed the program what nobody would write: notes, properties, queries, arguments of tools.

usage: python benchmarks/fuzz.py [--count 10000] [--seed 1]

Of `count` inputs 45 % are notes and 15 % properties: read, cut, typed and analysed one by one, then indexed
for real in batches. 25 % are queries and 15 % calls of any tool with any arguments, made of the real server
over stdio. The inputs are those of tests/hostile.py; the same seed makes the same ones with the same version
of hypothesis. The database is an embedded server of its own, the embedder a double.

An input is a crash where something else comes of it than an answer or an error that explains itself: an
exception, a note that the parser or the database refuses, an answer that admits a fault of the program. It
is slow over two seconds. Prints what was found, the slowest input of each kind, the peak of memory of the
indexer and of the server, and what the server printed on stdout that is no JSON-RPC. Exit code 1 where there
was a crash, a slow input, or more than 500 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

import hostile  # noqa: E402
from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from peaks import own_peak, read_peak  # noqa: E402
from raw_server import RawServer  # noqa: E402

from obsidian_rag import embedded  # noqa: E402
from obsidian_rag.analysis import analyze, list_keys  # noqa: E402
from obsidian_rag.chunks import split_note  # noqa: E402
from obsidian_rag.config import Settings, parse_vaults  # noqa: E402
from obsidian_rag.encodings import decode  # noqa: E402
from obsidian_rag.errors import NoteError  # noqa: E402
from obsidian_rag.indexing import Options, run_indexer  # noqa: E402
from obsidian_rag.link_rows import type_mentions  # noqa: E402
from obsidian_rag.links import LinkResolver  # noqa: E402
from obsidian_rag.notes import parse_note  # noqa: E402
from obsidian_rag.progress import SilentProgress  # noqa: E402
from obsidian_rag.relations import load_table  # noqa: E402

SHARES = (("notes", 0.45), ("properties", 0.15), ("queries", 0.25), ("tool calls", 0.15))
SLOW = 2.0  # seconds
MOST_MEMORY = 500  # MB
BATCH = 50  # notes of one run of the indexer
ROUND = 250  # inputs of one run of hypothesis
SHOWN = 300  # characters of an input
# What an indexer says of a file that cannot be one; any other failure is the program's.
EXPECTED_STAGES = ("walk", "read")
FAULTS = ("its own fault", "Traceback", "validation error", "please report")
NOTES = {
    "Home/Pump.md": "# Pump\n\nIt feeds the [[index|garden]]. #home\n",
    "Home/index.md": "---\naliases: [Garden]\n---\n- [[Pump]]\n",
    "People/Ann.md": "Ann founded [[Acme]] and works at [[Acme]].\n",
    "People/Bob Lee.md": "Bob Lee invested in [[Acme]] with [[Ann]].\n",
    "Companies/Acme.md": "---\ntype: company\nauthor: '[[Ann]]'\n---\nSee [[note]], [[x]], [[C++]].\n",
}


@dataclass
class Findings:
    """What came of the inputs."""

    counts: Counter[str] = field(default_factory=Counter)
    crashes: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    slowest: dict[str, tuple[float, str]] = field(default_factory=dict)

    @contextmanager
    def watch(self, kind: str, shown: object, inputs: int = 1) -> Iterator[None]:
        """Count an input; what it raises is a crash. The time of several is divided by their number."""
        started = time.monotonic()
        try:
            yield
        except Exception:
            self.crash(kind, shown, traceback.format_exc())
        seconds = (time.monotonic() - started) / inputs
        self.counts[kind] += 1
        text = _shorten(shown)
        if seconds > self.slowest.get(kind, (0.0, ""))[0]:
            self.slowest[kind] = (seconds, text)
        if seconds > SLOW:
            self.slow.append(f"{kind}: {seconds:.1f} s: {text}")

    def forget(self, *kinds: str) -> None:
        """Forget how long the first inputs took, all or those of some kinds: they wait for what is opened."""
        for kind in kinds or tuple(self.counts):
            self.slowest.pop(kind, None)
            self.slow = [slow for slow in self.slow if not slow.startswith(f"{kind}: ")]

    def crash(self, kind: str, shown: object, reason: str) -> None:
        self.crashes.append(f"{kind}: {_shorten(shown)}\n{reason}")


def _shorten(shown: object) -> str:
    text = shown if isinstance(shown, str) else repr(shown)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"


def generate(strategy: st.SearchStrategy[Any], count: int, number: int, use: Callable[[Any], None]) -> None:
    """Give `use` so many examples of a strategy, in rounds: hypothesis remembers all of one."""
    for start in range(0, count, ROUND):
        _generate_round(strategy, min(ROUND, count - start), number * 1_000_000 + start, use)


def _generate_round(
    strategy: st.SearchStrategy[Any], count: int, number: int, use: Callable[[Any], None]
) -> None:
    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def run(value: Any) -> None:
        use(value)

    run()


TABLE = load_table()


def read_note(path: str, data: bytes) -> None:
    """All that becomes of a note before it is stored; nothing of its text may be lost."""
    try:
        text, _ = decode(data)
    except NoteError:
        return
    note = parse_note(path, text)
    chunks = split_note(note)
    resolver = LinkResolver([path, *NOTES], {path: note.aliases})
    for link in note.links:
        resolver.resolve(link.target, path, link.kind)
    type_mentions(note, TABLE)
    for name in (note.title, *note.aliases):
        list_keys(name)
    for chunk in chunks:
        analyze(chunk.content)
    body = text[note.body_start :]
    if not note.hidden and body.strip():
        assert "".join(chunk.content[chunk.overlap :] for chunk in chunks) == body


class Indexing:
    """A vault into which notes are written, and indexed a batch at a time."""

    def __init__(self, findings: Findings, where: Settings) -> None:
        self._findings = findings
        self._root = where.vaults[0].root
        self._settings = where
        self._batch: list[Path] = []
        for path, text in NOTES.items():
            self._write(path, text.encode())

    def add(self, kind: str, path: str, data: bytes) -> None:
        """Read a note, and index the batch where it is full."""
        with self._findings.watch(kind, data):
            read_note(path, data)
        # A number, since names that differ only by case are one on some disks.
        folder, _, name = path.rpartition("/")
        self._batch.append(self._write(f"{folder or 'x'}/{len(self._batch)}{name}"[:240], data))
        if len(self._batch) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Index what there is, then delete the batch; its notes go with the next run."""
        with self._findings.watch("runs, a note", f"{len(self._batch)} notes", max(1, len(self._batch))):
            report = run_indexer(self._settings, Options(allow_mass_delete=True), SilentProgress())
            for failure in report.failures:
                if failure.stage not in EXPECTED_STAGES:
                    data = (self._root / failure.file_path).read_bytes()
                    self._findings.crash("index", data, f"{failure.stage}: {failure.error}")
        for file in self._batch:
            file.unlink()
        self._batch = []

    def _write(self, path: str, data: bytes) -> Path:
        file = self._root / path
        if not file.name.endswith(".md"):
            file = file.with_name(f"{file.name[:200]}.md")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return file


class Asking:
    """The real server, asked over its standard streams."""

    def __init__(self, findings: Findings, server: RawServer) -> None:
        self._findings = findings
        self._server = server
        self.peak = 0.0
        self.unclean = 0

    def call(self, kind: str, tool: str, arguments: dict[str, Any]) -> None:
        """Call a tool; its answer is an answer, or an error in words."""
        shown = f"{tool} {json.dumps(arguments)}"
        with self._findings.watch(kind, shown):
            answer = self._server.ask("tools/call", {"name": tool, "arguments": arguments})
            said = (
                json.dumps(answer.get("result", {}).get("content", "")) if "result" in answer else str(answer)
            )
            is_error = "error" in answer or answer["result"].get("isError")
            if is_error and any(fault in said for fault in FAULTS):
                self._findings.crash(kind, shown, said[:1000])
        self.unclean += sum(1 for line in self._server.lines if not _is_json_rpc(line))
        self._server.lines.clear()
        if self._findings.counts[kind] % 100 == 1:
            self.peak = max(self.peak, read_peak(self._server.process.pid))


@dataclass(frozen=True)
class Outcome:
    """The findings with the peaks of memory in MB, and how many lines of stdout were no JSON-RPC."""

    findings: Findings
    indexer_memory: float
    server_memory: float
    unclean: int

    @property
    def is_good(self) -> bool:
        found = self.findings
        memory = max(self.indexer_memory, self.server_memory)
        return not (found.crashes or found.slow or self.unclean) and memory <= MOST_MEMORY


def feed(count: int, number: int, where: Settings, folder: Path) -> Outcome:
    """Feed `count` inputs to the indexer and the server of these settings; `folder` is for the server."""
    counts = {kind: max(1, round(count * share)) for kind, share in SHARES}
    findings = Findings()
    indexing = Indexing(findings, where)
    indexing.flush()  # makes the database
    findings.forget()
    notes = st.tuples(hostile.paths, hostile.strange_notes | hostile.any_bytes)
    generate(notes, counts["notes"], number, lambda note: indexing.add("notes", *note))
    properties = hostile.front_matter.map(lambda text: text.encode("utf-8", "surrogatepass"))
    generate(properties, counts["properties"], number, lambda data: indexing.add("properties", "p.md", data))
    indexing.flush()
    indexer_peak = own_peak()
    with RawServer(make_environment(where, folder), folder) as server:
        server.initialize()
        asking = Asking(findings, server)
        asking.call("tool calls", "list_topics", {})  # connects
        findings.forget("tool calls")
        for kind, strategy in (("queries", hostile.searches()), ("tool calls", hostile.tool_calls())):
            generate(strategy, counts[kind], number, lambda call, kind=kind: asking.call(kind, *call))
        asking.call("tool calls", "list_topics", {})
        peak = max(asking.peak, read_peak(server.process.pid))
    return Outcome(findings, indexer_peak, peak, asking.unclean)


def make_environment(where: Settings, folder: Path) -> dict[str, str]:
    """The settings as variables of a server's environment."""
    given = {
        "VAULT_PATH": where.vaults[0].root,
        "DATABASE_URL": where.database_url,
        "OBSIDIAN_RAG_DATA": where.data_dir,
        "OLLAMA_URL": where.ollama_url,
        "XDG_CONFIG_HOME": folder,
    }
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return kept | {name: str(value) for name, value in given.items() if value is not None}


def fuzz(count: int, number: int, folder: Path) -> Outcome:
    """Feed `count` inputs to a vault and an embedded server in `folder`."""
    vault, home = folder / "vault", folder / "data"
    vault.mkdir()
    # In a process of its own: it remembers all that it was asked.
    double = [sys.executable, str(ROOT / "tests" / "ollama_double.py"), "--port", "0"]
    with subprocess.Popen(double, stdout=subprocess.PIPE, text=True) as ollama:
        assert ollama.stdout is not None
        url = ollama.stdout.readline().strip()
        where = Settings(
            vaults=parse_vaults(str(vault)), data_dir=home, ollama_url=url, ollama_url_is_set=True
        )
        try:
            return feed(count, number, where, folder)
        finally:
            embedded.release(home)
            ollama.terminate()


def _is_json_rpc(line: bytes) -> bool:
    try:
        return bool(json.loads(line)["jsonrpc"] == "2.0")
    except (ValueError, TypeError, KeyError):
        return False


def render(outcome: Outcome, count: int, number: int) -> str:
    """The outcome for a reader."""
    found = outcome.findings
    inputs = ", ".join(f"{n} {kind}" for kind, n in sorted(found.counts.items()))
    lines = [f"{count} inputs asked for, seed {number}: {inputs}"]
    lines += [f"slowest of {kind}: {s:.2f} s: {text}" for kind, (s, text) in sorted(found.slowest.items())]
    lines += [f"CRASH {crash}" for crash in found.crashes] + [f"SLOW {slow}" for slow in found.slow]
    lines += [
        f"crashes: {len(found.crashes)}, slower than {SLOW:g} s: {len(found.slow)}",
        f"peak memory: indexer {outcome.indexer_memory:.0f} MB, server {outcome.server_memory:.0f} MB",
        f"lines on the server's stdout that are no JSON-RPC: {outcome.unclean}",
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Fuzz and print; 0 where nothing was found."""
    parser = argparse.ArgumentParser(description="Feed the program what nobody would write.")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the embedded server of root runs as another account
        outcome = fuzz(options.count, options.seed, Path(folder))
    print(render(outcome, options.count, options.seed))
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
