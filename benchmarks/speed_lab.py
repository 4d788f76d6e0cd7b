"""What the parts of speed.py share: the vaults, the databases, the embedder, programs with their cost."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

import psutil  # noqa: E402
import psycopg  # noqa: E402
from conftest import make_url  # noqa: E402
from made_vaults import MadeVault, Plan, copy_vault, provide  # noqa: E402
from peaks import read_peak  # noqa: E402
from psycopg import sql  # noqa: E402
from speed_figures import Figure, show  # noqa: E402

from obsidian_rag import embedded  # noqa: E402

SAMPLE_SECONDS = 0.25  # looking at all processes for children costs a few milliseconds


@dataclass(frozen=True)
class Cost:
    """What a program took: seconds, seconds of CPU, and the most memory of it and its children, in MB."""

    seconds: float
    cpu: float
    peak: float
    stdout: str

    @property
    def report(self) -> dict[str, Any]:
        return dict(json.loads(self.stdout))


@dataclass
class Lab:
    """Where everything lies. `server` is a conninfo that may create databases."""

    cache: Path
    server: str
    figures: list[Figure] = field(default_factory=list)

    def add(self, part: str, plan: Plan | None, what: str, value: float, unit: str, **bar: Any) -> float:
        """Take note of a figure, and say it: a run takes long."""
        figure = Figure(part, name_vault(plan), what, value, unit, **bar)
        self.figures.append(figure)
        print(f"{figure.vault:>14} {figure.what}: {show(value)} {unit}", file=sys.stderr, flush=True)
        return value

    def vault(self, plan: Plan) -> MadeVault:
        """The vault as it was made; not to be changed."""
        return provide(self.cache / "vaults", plan)

    def working_vault(self, plan: Plan, *, anew: bool = False) -> MadeVault:
        """A copy of it that is indexed and may be changed."""
        made = self.vault(plan)
        target = self.cache / "work" / plan.name
        if anew and target.exists():
            shutil.rmtree(target)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            return copy_vault(made, target)
        return MadeVault(**{**asdict(made), "root": target})

    def database(self, plan: Plan, purpose: str = "") -> str:
        """The URL of the vault's database, which need not be there."""
        return make_url(self.server, dbname=f"speed_{plan.kind}_{plan.notes}{purpose}")

    def make_database(self, url: str) -> None:
        """An empty one in its place."""
        self.drop_database(url)
        with psycopg.connect(self.server, autocommit=True) as conn:
            conn.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(_name(url)))

    def drop_database(self, url: str) -> None:
        with psycopg.connect(self.server, autocommit=True) as conn:
            conn.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(_name(url)))

    def has_index(self, url: str) -> bool:
        """Whether there is an index there whose last run came to its end."""
        with contextlib.suppress(psycopg.Error), psycopg.connect(url) as conn:
            row = conn.execute("SELECT status FROM index_runs ORDER BY run_id DESC LIMIT 1").fetchone()
            return row is not None and row[0] in ("ok", "partial")
        return False

    def environment(self, vault: Path, database: str, embedder: str | None) -> dict[str, str]:
        """That of the program; `embedder` is a URL, None for the local model."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        chosen = (
            {"EMBEDDER": "ollama", "OLLAMA_URL": embedder, "EMBED_MODEL": "instant"}
            if embedder
            else {"EMBEDDER": "local"}
        )
        return (
            kept
            | chosen
            | {
                "VAULT_PATH": str(vault),
                "DATABASE_URL": database,
                "PYTHONPATH": str(ROOT),
                "OBSIDIAN_RAG_DATA": str(self.cache / "data"),
                "XDG_CONFIG_HOME": str(self.cache / "config"),
            }
        )


def name_vault(plan: Plan | None) -> str:
    return "" if plan is None else f"hub {plan.notes:,}" if plan.kind == "hub" else f"{plan.notes:,}"


def _name(url: str) -> sql.Identifier:
    return sql.Identifier(url.rsplit("/", 1)[-1])


@contextmanager
def open_server(cache: Path) -> Iterator[str]:
    """TEST_DATABASE_URL, or an embedded server below the cache folder, as a person would have it."""
    url = os.environ.get("TEST_DATABASE_URL")
    if url:
        yield url
        return
    home = cache / "server"
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o755)  # the server's account must reach it
    try:
        yield embedded.acquire(home)
    finally:
        embedded.release(home)


@contextmanager
def open_embedder(*arguments: str) -> Iterator[str]:
    """The URL of an embedder that answers at once, or after the time that the arguments say."""
    command = [sys.executable, str(ROOT / "benchmarks" / "instant_embedder.py"), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def read_database_cpu(url: str) -> float:
    """Seconds of CPU that the server and all its processes, ended ones too, have taken; 0 where it is not on
    this machine or may not be looked at.
    """
    with psycopg.connect(url, autocommit=True) as conn, contextlib.suppress(psutil.Error):
        server = psutil.Process(conn.info.backend_pid).parent()
        if server is None or not server.name().startswith("postgres"):
            return 0.0
        times = server.cpu_times()
        total = times.user + times.system + times.children_user + times.children_system
        for child in server.children():
            with contextlib.suppress(psutil.Error):
                total += child.cpu_times().user + child.cpu_times().system
        return float(total)
    return 0.0


class _Watch(threading.Thread):
    """Looks at a process and its children again and again for the most memory that they had."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self.peak = 0.0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            self.peak = max(self.peak, read_memory(self._pid))
            self.ended.wait(SAMPLE_SECONDS)


def read_memory(pid: int) -> float:
    """The most of a process so far, plus what its children have now, in MB; 0 where it has ended."""
    with contextlib.suppress(psutil.Error, OSError, IndexError):
        children = 0.0
        for child in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                children += child.memory_info().rss / 1e6
        return read_peak(pid) + children
    return 0.0


def run_program(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, *, may_fail: bool = False
) -> Cost:
    """Run a program to its end. Raises RuntimeError with what it said where it failed."""
    folder.mkdir(parents=True, exist_ok=True)
    before = os.times()
    started = time.perf_counter()
    with subprocess.Popen(
        command, env=dict(environment), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        watch = _Watch(process.pid)
        watch.start()
        try:
            out, err = process.communicate()
        except BaseException:
            process.kill()
            raise
        seconds = time.perf_counter() - started
        watch.ended.set()
        watch.join()
    after = os.times()
    if process.returncode and not may_fail:
        raise RuntimeError(f"{command[:6]} ended with {process.returncode}: {err[-2000:]}{out[-2000:]}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Cost(seconds, cpu, watch.peak, out)


def index(environment: Mapping[str, str], folder: Path) -> Cost:
    """One run of the indexer."""
    return run_program(
        [sys.executable, "-m", "obsidian_rag", "index", "--quiet", "--json"], environment, folder
    )


def median_of(times: int, measure: Callable[[], Cost]) -> Cost:
    """The middle one, by seconds, of so many."""
    costs = sorted((measure() for _ in range(times)), key=lambda cost: cost.seconds)
    return costs[len(costs) // 2]


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def middle(values: Sequence[float]) -> float:
    return statistics.median(values)


def ask(url: str, body: dict[str, Any] | None = None, *, forget: bool = False) -> Any:
    """The JSON that a server answers."""
    data = json.dumps(body).encode() if body is not None else b"" if forget else None
    with urllib.request.urlopen(urllib.request.Request(url, data)) as answer:
        return json.load(answer)
