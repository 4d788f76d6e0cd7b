"""The part of speed.py about others on the same files: qmd, by words alone, and ripgrep as the floor.

qmd comes by name from npm into a folder of its own, and so does the Node.js that it wants where the one at
hand is older. It is given a home of its own, no model and nothing to embed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from made_vaults import Plan
from speed_calls import Session, keyword_queries, open_session, serve_command
from speed_lab import Cost, Lab, index, median_of, percentile, read_database_cpu, run_program

QMD, NODE = "@tobilu/qmd@2.8.3", "node@22"
LEAST_NODE = 22
MOST_RATIO = 1.0
RUNS = 5


def install_peer(folder: Path) -> list[str] | None:
    """The command that starts qmd; None, said why, where it cannot be had."""
    if shutil.which("npm") is None:
        return _go_without("npm is not installed")
    program = folder / "qmd" / "node_modules" / "@tobilu" / "qmd" / "dist" / "cli" / "qmd.js"
    try:
        node = _find_node(folder)
        if not program.exists():
            # Its scripts would build a language model's runtime, which words alone do not need.
            _install(folder / "qmd", QMD, "--ignore-scripts")
        subprocess.run([node, program, "--version"], check=True, capture_output=True, timeout=60)
    except (subprocess.SubprocessError, OSError) as exc:
        return _go_without(str(exc))
    return [node, str(program)]


def _find_node(folder: Path) -> str:
    node = shutil.which("node")
    if node:
        said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
        if int(said.lstrip("v").split(".")[0]) >= LEAST_NODE:
            return node
    own = folder / "node" / "node_modules" / "node" / "bin" / "node"
    if not own.exists():
        _install(folder / "node", NODE)
    return str(own)


def _install(folder: Path, *arguments: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=600)


def _go_without(why: str) -> None:
    print(f"The peer is left out: {why}", flush=True)


def measure_peer(lab: Lab, plan: Plan, embedder: str, folder: Path) -> None:
    """First index, a run without a change and words over MCP, by turns with ours; ripgrep beside them."""
    qmd = install_peer(folder)
    if qmd:
        home = lab.cache / "work" / "qmd-home"
        both = _Both(lab, plan, embedder, qmd, home, _make_home(home))
        both.measure_runs()
        both.measure_words()
        shutil.rmtree(home)
    measure_floor(lab, plan)


@dataclass(frozen=True)
class _Both:
    """The peer, with its command, home and environment, beside ours."""

    lab: Lab
    plan: Plan
    embedder: str
    qmd: list[str]
    home: Path
    theirs: dict[str, str]

    @property
    def ours(self) -> dict[str, str]:
        root = self.lab.working_vault(self.plan).root
        return self.lab.environment(root, self.lab.database(self.plan), self.embedder)

    def measure_runs(self) -> None:
        """First index, and the middle one of some runs without a change."""
        root = self.lab.working_vault(self.plan).root
        other = self._run_qmd("collection", "add", str(root), "--name", "notes")
        own = self._index_anew()
        self._add("first index", "s", own.seconds, other.seconds)
        self._add("first index, peak memory", "MB", own.peak, other.peak)
        self._add("first index, CPU", "s", own.cpu, other.cpu, bar=None)
        other = median_of(RUNS, lambda: self._run_qmd("update"))
        own = median_of(RUNS, lambda: index(self.ours, self.lab.cache / "work"))
        self._add("no change", "s", own.seconds, other.seconds)
        self._add("no change, CPU", "s", own.cpu, other.cpu, bar=None)
        size = sum(file.stat().st_size for file in (self.home / "cache").rglob("*") if file.is_file())
        self.lab.add("peer", self.plan, "size of qmd's database", size / 1e6, "MB")

    def measure_words(self) -> None:
        """The same words to both, one after the other."""
        with (
            open_session([*self.qmd, "mcp"], self.theirs, self.home / "mcp") as peer,
            open_session(serve_command(), self.ours, self.lab.cache / "work" / "serve") as server,
        ):
            for n in range(3):
                _ask_both(server, peer, f"warming up {n}")
            everything: list[tuple[float, float]] = []
            for kind, queries in keyword_queries(self.lab.vault(self.plan)).items():
                took = [_ask_both(server, peer, query) for query in queries]
                everything += took
                own, other = zip(*took, strict=True)
                for name, share in (("p50", 0.5), ("p95", 0.95)):
                    values = percentile(own, share), percentile(other, share)
                    self._add(f"{kind}, {name}", "ms", *values, bar=None)
            own, other = zip(*everything, strict=True)
            self._add("all words, p50", "ms", percentile(own, 0.5), percentile(other, 0.5))

    def _run_qmd(self, *arguments: str) -> Cost:
        return run_program([*self.qmd, *arguments], self.theirs, self.home)

    def _index_anew(self) -> Cost:
        """A first index into a database beside the one that is searched, with the CPU of the database."""
        url = self.lab.database(self.plan, "_peer")
        self.lab.make_database(url)
        try:
            before = read_database_cpu(url)
            cost = index(self.ours | {"DATABASE_URL": url}, self.lab.cache / "work")
            return replace(cost, cpu=cost.cpu + read_database_cpu(url) - before)
        finally:
            self.lab.drop_database(url)

    def _add(self, name: str, unit: str, own: float, other: float, bar: float | None = MOST_RATIO) -> None:
        self.lab.add("peer", self.plan, f"{name}, ours", own, unit)
        self.lab.add("peer", self.plan, f"{name}, qmd", other, unit)
        self.lab.add("peer", self.plan, f"{name}, ratio", own / other, "", bar=bar)


def _make_home(home: Path) -> dict[str, str]:
    """An empty home, and the environment in which qmd uses nothing outside it."""
    if home.exists():
        shutil.rmtree(home)
    home.mkdir(parents=True)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_DATA_HOME": str(home / "data"),
    }


def _ask_both(ours: Session, peer: Session, query: str) -> tuple[float, float]:
    """Milliseconds of ours and of the peer."""
    words: dict[str, Any] = {"searches": [{"type": "lex", "query": query}], "limit": 10, "rerank": False}
    own, _ = ours.call("search_notes", {"query": query, "mode": "keyword"})
    other, _ = peer.call("query", words)
    return own, other


def measure_floor(lab: Lab, plan: Plan) -> None:
    """`rg -il` for the same words: what it takes to look at every file, with no order in the answer."""
    program = shutil.which("rg")
    if program is None:
        print("ripgrep is left out: rg is not installed", flush=True)
        return
    vault = lab.working_vault(plan)
    took = []
    for queries in keyword_queries(vault).values():
        for query in queries:
            started = time.perf_counter()
            done = subprocess.run(
                [program, "-il", "-e", "|".join(query.split()), str(vault.root)],
                capture_output=True,
                check=False,
            )
            took.append((time.perf_counter() - started) * 1000)
            if done.returncode > 1:
                raise RuntimeError(done.stderr.decode())
    lab.add("peer", plan, "rg -il, p50", percentile(took, 0.5), "ms")
