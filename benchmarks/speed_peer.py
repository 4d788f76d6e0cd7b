"""The part of speed.py about others on the same files: qmd, by words alone, and ripgrep as the floor.

qmd comes by name from npm into a folder of its own, and so does the Node.js that it wants where the one at
hand is older. It is given a home of its own, no model and nothing to embed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from made_vaults import Plan
from speed_calls import Session, keyword_queries, open_session, serve_command
from speed_lab import Cost, Lab, index, median_of, percentile, run_program

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
    command = install_peer(folder)
    vault = lab.working_vault(plan)
    home = lab.cache / "work" / "qmd-home"
    theirs = _make_home(home) if command else {}
    ours = lab.environment(vault.root, lab.database(plan), embedder)
    if command:
        qmd = command

        def add(name: str, unit: str, own: float, other: float) -> None:
            lab.add("peer", plan, f"{name}, ours", own, unit)
            lab.add("peer", plan, f"{name}, qmd", other, unit)
            lab.add("peer", plan, f"{name}, ratio", own / other, "", bar=MOST_RATIO)

        other = run_program([*qmd, "collection", "add", str(vault.root), "--name", "notes"], theirs, home)
        own = _index_anew(lab, plan, embedder)
        add("first index", "s", own.seconds, other.seconds)
        add("first index, peak memory", "MB", own.peak, other.peak)
        other = median_of(RUNS, lambda: run_program([*qmd, "update"], theirs, home))
        own = median_of(RUNS, lambda: index(ours, lab.cache / "work"))
        add("no change", "s", own.seconds, other.seconds)
        size = sum(file.stat().st_size for file in (home / "cache").rglob("*") if file.is_file())
        lab.add("peer", plan, "size of qmd's database", size / 1e6, "MB")
        with (
            open_session([*qmd, "mcp"], theirs, home / "mcp") as peer,
            open_session(serve_command(), ours, lab.cache / "work" / "serve") as server,
        ):
            for n in range(3):
                _ask_both(server, peer, f"warming up {n}")
            everything: list[tuple[float, float]] = []
            for kind, queries in keyword_queries(vault).items():
                took = [_ask_both(server, peer, query) for query in queries]
                everything += took
                own_times, other_times = zip(*took, strict=True)
                for name, share in (("p50", 0.5), ("p95", 0.95)):
                    lab.add("peer", plan, f"{kind}, {name}, ours", percentile(own_times, share), "ms")
                    lab.add("peer", plan, f"{kind}, {name}, qmd", percentile(other_times, share), "ms")
            own_times, other_times = zip(*everything, strict=True)
            add("all words, p50", "ms", percentile(own_times, 0.5), percentile(other_times, 0.5))
        shutil.rmtree(home)
    measure_floor(lab, plan)


def _index_anew(lab: Lab, plan: Plan, embedder: str) -> Cost:
    """A first index into a database beside the one that is searched."""
    url = lab.database(plan, "_peer")
    lab.make_database(url)
    try:
        environment = lab.environment(lab.working_vault(plan).root, url, embedder)
        return index(environment, lab.cache / "work")
    finally:
        lab.drop_database(url)


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
