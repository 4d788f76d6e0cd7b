"""Call one server many times at once, while the notes change and the database restarts.

usage: python benchmarks/soak.py [--calls 20000] [--callers 8] [--servers 2] [--restarts 3] [--seed 1]

One server over stdio answers `calls` mixed tool calls of `callers` at once; `servers` more, each with one
caller, work beside it until it is done. Meanwhile the indexer runs in a loop over notes that are edited,
renamed, deleted and written between its runs, and the database is restarted, in order and as by a crash.

Every answer is checked against what is known of the notes: those that stay as they are must be answered
exactly, those that change by an edition that the index may have held during the call, whole. An error is
right where it was asked for, or, while the database restarts, where it names the database. Beside that the
memory, the open files and the threads of the servers are watched, and the connections they hold.

Prints figures; exit code 1 where an answer was wrong, a connection or a file leaked or memory grew.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

import psutil  # noqa: E402
import psycopg  # noqa: E402
from conftest import VaultFolder, Workbench  # noqa: E402
from ollama_double import OllamaDouble  # noqa: E402
from own_postgres import OwnPostgres  # noqa: E402
from soak_calls import NAMES_THE_DATABASE, Caller, Client, DatabaseAway, WrongAnswer  # noqa: E402
from soak_notes import Truth  # noqa: E402

WARM = 0.1  # of all calls, after which memory is expected to stay as it is
MOST_GROWTH = 20.0  # MB from then to the end
MOST_FILES = 4  # more than then
CONNECTIONS = 4  # that a server keeps


@dataclass(frozen=True)
class Sample:
    """What a server takes at a moment: MB, open files, threads; and connections of all servers."""

    calls: int
    memory: float
    files: int
    threads: int
    connections: int


@dataclass
class Findings:
    """What came of it."""

    calls: int = 0
    faults: list[str] = field(default_factory=list)
    away: int = 0
    restarts: list[tuple[float, float]] = field(default_factory=list)
    runs: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)
    latencies: dict[str, list[float]] = field(default_factory=dict)
    beside: int = 0  # calls of the other servers


class Soak:
    """One soak: the servers and their callers, the indexer, the restarts and the watch."""

    def __init__(
        self, bench: Workbench, postgres: OwnPostgres, truth: Truth, options: argparse.Namespace
    ) -> None:
        self.bench = bench
        self.postgres = postgres
        self.truth = truth
        self.options = options
        self.findings = Findings()
        self.ended = asyncio.Event()

    async def run(self, folder: Path) -> Findings:
        environment = self.bench.environment | {"PYTHONPATH": str(ROOT)}
        clients = [
            await Client.start(environment, folder / f"server{n}") for n in range(1 + self.options.servers)
        ]
        beside = [
            asyncio.create_task(self._call_beside(client, n)) for n, client in enumerate(clients[1:], 100)
        ]
        others = [
            asyncio.create_task(self._index(environment, folder)),
            asyncio.create_task(self._watch(clients)),
            asyncio.create_task(self._restart()),
        ]
        await asyncio.gather(*(self._call(clients[0], n) for n in range(self.options.callers)))
        self.ended.set()
        await asyncio.gather(*beside, *others)
        await self._end(clients)
        return self.findings

    async def _call(self, client: Client, number: int) -> None:
        caller = self._caller(client, number)
        while self.findings.calls < self.options.calls:
            self.findings.calls += 1
            await self._checked(caller.call_once)
            if self.findings.calls % 1000 == 0:
                print(
                    f"{self.findings.calls} calls, {len(self.findings.faults)} faults, runs"
                    f" {dict(self.findings.runs)}, {self.findings.samples[-1:]}",
                    file=sys.stderr,
                    flush=True,
                )

    async def _call_beside(self, client: Client, number: int) -> None:
        caller = self._caller(client, number)
        while not self.ended.is_set():
            self.findings.beside += 1
            await self._checked(caller.call_once)

    def _caller(self, client: Client, number: int) -> Caller:
        chance = random.Random(f"{self.options.seed} {number}")
        return Caller(client, self.truth, chance, self.findings.latencies)

    async def _checked(self, call: Callable[[], Awaitable[None]]) -> None:
        try:
            await call()
        except WrongAnswer as exc:
            self.findings.faults.append(f"wrong answer: {exc}")
        except DatabaseAway as exc:
            self.findings.away += 1
            if not any(exc.started < end and exc.ended > start for start, end in self.findings.restarts):
                self.findings.faults.append(f"an error while the database was there: {exc}")
            await asyncio.sleep(0.1)
        except TimeoutError:
            self.findings.faults.append("no answer within two minutes")
        except (KeyError, IndexError, TypeError, ValueError) as exc:
            self.findings.faults.append(f"an answer of another shape: {type(exc).__name__}: {exc}")

    async def _index(self, environment: Mapping[str, str], folder: Path) -> None:
        while not self.ended.is_set():
            self.truth.edition += 1
            self.truth.write_edition()
            started = time.monotonic()
            self.truth.begun.append((started, self.truth.edition))
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "obsidian_rag", "index", "--quiet",
                env=dict(environment), cwd=folder,
                stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            _, said = await process.communicate()
            ended = time.monotonic()
            if process.returncode == 0:
                self.truth.done.append((ended, self.truth.edition))
                self.findings.runs["complete"] += 1
                continue
            text = said.decode(errors="replace")
            self.findings.runs["while the database restarted"] += 1
            overlap = any(started < end and ended > start for start, end in self.findings.restarts)
            if not (overlap and any(words in text for words in NAMES_THE_DATABASE)):
                self.findings.faults.append(f"the indexer ended with {process.returncode}: {text[-300:]}")

    async def _restart(self) -> None:
        for number in range(self.options.restarts):
            wanted = self.options.calls * (number + 1) // (self.options.restarts + 1)
            while self.findings.calls < wanted:
                await asyncio.sleep(0.05)
            place = len(self.findings.restarts)
            self.findings.restarts.append((time.monotonic(), float("inf")))
            await asyncio.to_thread(self.postgres.restart, ("SIGINT", "SIGQUIT")[number % 2])
            self.findings.restarts[place] = (self.findings.restarts[place][0], time.monotonic())

    async def _watch(self, clients: list[Client]) -> None:
        process = psutil.Process(clients[0].process.pid)
        while not self.ended.is_set():
            try:
                connections = await asyncio.to_thread(self._count_connections)
            except psycopg.Error:
                connections = -1  # it restarts
            if connections >= 0:
                with process.oneshot():
                    self.findings.samples.append(
                        Sample(
                            self.findings.calls,
                            process.memory_info().rss / 1e6,
                            process.num_fds(),
                            process.num_threads(),
                            connections,
                        )
                    )
            await asyncio.sleep(1)

    def _count_connections(self) -> int:
        rows = self.bench.rows(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return int(rows[0][0])

    async def _end(self, clients: list[Client]) -> None:
        await asyncio.sleep(1)
        idle = self._count_connections()
        if idle > CONNECTIONS * len(clients):
            self.findings.faults.append(f"{idle} connections of {len(clients)} servers when nobody calls")
        for client in clients:
            code = await client.end()
            if code or client.foreign_lines:
                self.findings.faults.append(
                    f"a server ended with {code}; {client.foreign_lines} lines of its stdout were no answers"
                )
        left = self._count_connections()
        if left:
            self.findings.faults.append(f"{left} connections are left after the servers' end")


def judge(findings: Findings, calls: int) -> tuple[Sample, Sample, Sample]:
    """The server warm, half way and at the end; growth becomes a fault."""
    end = findings.samples[-1]
    warm = next((sample for sample in findings.samples if sample.calls >= WARM * calls), end)
    middle = next((sample for sample in findings.samples if sample.calls >= calls / 2), end)
    if end.memory > warm.memory + MOST_GROWTH:
        findings.faults.append(f"memory grew from {warm.memory:.0f} to {end.memory:.0f} MB")
    if end.files > warm.files + MOST_FILES:
        findings.faults.append(f"open files grew from {warm.files} to {end.files}")
    return warm, middle, end


def report(findings: Findings, options: argparse.Namespace, seconds: float) -> None:
    samples = judge(findings, options.calls)
    print(
        f"{findings.calls} calls of {options.callers} callers to one server, {findings.beside} to"
        f" {options.servers} others, seed {options.seed}, {seconds:.0f} s"
    )
    print(f"runs of the indexer: {dict(findings.runs)}")
    downtime = ", ".join(f"{end - start:.1f} s" for start, end in findings.restarts)
    print(
        f"restarts of the database: {len(findings.restarts)} ({downtime}), {findings.away} errors naming it"
    )
    for name, sample in zip(("warm", "middle", "end"), samples, strict=True):
        print(
            f"{name:7} after {sample.calls:6} calls: {sample.memory:6.1f} MB, {sample.files} files,"
            f" {sample.threads} threads, {sample.connections} connections"
        )
    most = max(sample.memory for sample in findings.samples)
    print(f"most memory {most:.1f} MB, most connections {max(s.connections for s in findings.samples)}")
    for kind, values in sorted(findings.latencies.items()):
        cuts = statistics.quantiles(values, n=20, method="inclusive") if len(values) > 1 else values * 19
        print(f"{kind:16} {len(values):6} calls, p50 {cuts[9] * 1000:.0f} ms, p95 {cuts[18] * 1000:.0f} ms")
    print(f"{len(findings.faults)} faults")
    for fault in findings.faults[:30]:
        print(f"    {fault}")


def soak(options: argparse.Namespace) -> Findings:
    """Soak a server of a vault and a database made for it; what came of it."""
    folder = Path(tempfile.mkdtemp(prefix="obsidian-rag-soak-"))
    folder.chmod(0o755)  # the database's account must reach its data
    try:
        with OwnPostgres(folder / "postgres") as postgres, OllamaDouble() as ollama:
            vault = VaultFolder(folder / "vault")
            vault.root.mkdir()
            bench = Workbench(vault, postgres.create_database("soak"), ollama)
            truth = Truth(vault, random.Random(options.seed))
            truth.write_all()
            truth.begun.append((time.monotonic(), 0))
            bench.index()
            truth.done.append((time.monotonic(), 0))
            return asyncio.run(Soak(bench, postgres, truth, options).run(folder))
    finally:
        shutil.rmtree(folder)


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Call a server many times while everything changes.")
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Print what came of it; 0 where nothing was wrong."""
    options = read_options(arguments)
    started = time.monotonic()
    findings = soak(options)
    report(findings, options, time.monotonic() - started)
    return 1 if findings.faults else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    sys.exit(main())
