"""Kill the indexer at random moments and look at what it left, each time.

usage: python benchmarks/kills.py [--kills 200] [--seed 1] [--notes 300]

A vault of a few hundred notes is edited, renamed, moved, deleted from and added to; a run of the indexer is
started and killed (SIGKILL) at a random moment; only kills that hit a run at work count. After each kill:

- no note is lost: each that was in the index and is still on disk is there, under its old or its new name;
- no note is mixed: its row, its chunks and its links are those of one state that the file once had;
- no row is an orphan, and no two tables disagree;
- every vector is that of its chunk's text, made anew by the double that stands in for Ollama.

Every tenth kill hits a first run, into an empty database. After each of these, after every twentieth other
kill, and at the end, a run comes to its end, and tables and indexes must equal those of an undisturbed run
into an empty database. The database is TEST_DATABASE_URL, or an embedded server of its own.
Prints figures; exit code 1 where anything was found.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

import numpy as np  # noqa: E402
from conftest import VaultFolder, Workbench, create_database, drop_database  # noqa: E402
from fault_bench import await_end_of_indexers, find_drift  # noqa: E402
from ollama_double import OllamaDouble, embed  # noqa: E402

from obsidian_rag import embedded  # noqa: E402
from obsidian_rag.chunks import split_note  # noqa: E402
from obsidian_rag.diff import hash_bytes  # noqa: E402
from obsidian_rag.migrate import apply_migrations  # noqa: E402
from obsidian_rag.notes import parse_note  # noqa: E402
from obsidian_rag.postgres import connect  # noqa: E402
from obsidian_rag.store import join_text  # noqa: E402

DIMENSIONS = 64
ROUND = 20  # kills between two runs that come to their end
FIRST = 10  # every such kill hits a first run
INDEXES = """
SELECT c.relname, indisvalid AND indisready, pg_get_indexdef(indexrelid)
FROM pg_index i JOIN pg_class c ON c.oid = indexrelid
WHERE c.relnamespace = 'public'::regnamespace ORDER BY 1
"""
WORDS = [
    "pump",
    "garden",
    "bread",
    "river",
    "stone",
    "letter",
    "window",
    "music",
    "engine",
    "cloud",
    "harbour",
]
FOLDERS = ["", "Projects", "Projects/Deep", "People", "Archive"]
TEMPLATE = "\n## Tasks\n\n- [ ] water the plants\n- [ ] write the diary\n"


class Gardener:
    """Somebody who changes a vault at random. `states` has the hashes of every state a path ever had."""

    def __init__(self, vault: VaultFolder, chance: random.Random) -> None:
        self.vault = vault
        self.chance = chance
        self.states: dict[str, set[str]] = {}
        self.made = 0

    def notes(self) -> list[str]:
        return sorted(p.relative_to(self.vault.root).as_posix() for p in self.vault.root.rglob("*.md"))

    def grow(self, count: int) -> None:
        for _ in range(count):
            self.made += 1
            folder = self.chance.choice(FOLDERS)
            self.write(f"{folder}/Note {self.made}.md".lstrip("/"), self._text())

    def change(self) -> None:
        """A day's work: a sixth of the notes is edited, a few come, go, are renamed or moved."""
        notes = self.notes()
        for path in self.chance.sample(notes, len(notes) // 6):
            text = self.vault.read(path)
            self.write(path, f"{text}\n{self._section()}" if self.chance.random() < 0.5 else self._text())
        for path in self.chance.sample(notes, 4):
            folder = self.chance.choice(FOLDERS)
            new = f"{folder}/Renamed {self.made} {path.rsplit('/', 1)[-1][-20:]}".lstrip("/")
            self.made += 1
            self.vault.move(path, new)
            self._remember(new)
        for path in self.chance.sample(self.notes(), self.chance.randrange(3)):
            self.vault.delete(path)
        self.grow(self.chance.randrange(4))

    def write(self, path: str, text: str) -> None:
        self.vault.write(path, text)
        self._remember(path)

    def _remember(self, path: str) -> None:
        digest = hash_bytes((self.vault.root / path).read_bytes())
        self.states.setdefault(path, set()).add(digest)

    def _text(self) -> str:
        alias = (
            f"---\naliases: [Alias {self.chance.randrange(400)}]\n---\n" if self.chance.random() < 0.3 else ""
        )
        sections = "".join(self._section() for _ in range(self.chance.randrange(1, 8)))
        return f"{alias}{sections}{TEMPLATE if self.chance.random() < 0.4 else ''}"

    def _section(self) -> str:
        words = " ".join(self.chance.choices(WORDS, k=self.chance.randrange(3, 30)))
        link = f"[[Note {self.chance.randrange(1, 400)}]] [[Alias {self.chance.randrange(400)}]]"
        return f"\n## {self.chance.choice(WORDS)} {self.chance.randrange(10**6)}\n\n{words}. See {link}.\n"


@dataclass
class Findings:
    """What was looked at, and what was wrong with it."""

    faults: list[str] = field(default_factory=list)
    stages: Counter[str] = field(default_factory=Counter)
    notes: int = 0
    chunks: int = 0
    vectors: int = 0
    equal: int = 0


@dataclass
class Inspector:
    """Compares the index with what the vault was and is. Texts that were looked at are not made anew."""

    bench: Workbench
    gardener: Gardener
    findings: Findings
    vectors: dict[str, np.ndarray] = field(default_factory=dict)
    cuts: dict[tuple[str, str], list[tuple[int, str, str]]] = field(default_factory=dict)
    links: dict[tuple[str, str], int] = field(default_factory=dict)

    def look(self, when: str, before: set[str]) -> set[str]:
        """Look at everything; `before` is what the index held before the run. Returns what it holds now."""
        held = self._look_at_notes(when)
        self._look_for_losses(when, before, held)
        for drift in find_drift(self.bench):
            self._fault(when, str(drift))
        return held

    def _look_at_notes(self, when: str) -> set[str]:
        chunks: dict[str, list[tuple[int, str, str, str]]] = {}
        for path, index, heading_path, content, file_hash, embedding in self.bench.rows(
            "SELECT file_path, chunk_index, heading_path, content, file_hash, embedding::text FROM documents"
            " ORDER BY file_path, chunk_index"
        ):
            chunks.setdefault(path, []).append((index, heading_path, content, file_hash))
            self._look_at_vector(when, f"{path} {index}", join_text(heading_path, content), embedding)
        links = dict(self.bench.rows("SELECT source_path, count(*) FROM note_links GROUP BY 1"))
        notes = self.bench.rows("SELECT file_path, file_hash, content FROM notes")
        for path, file_hash, content in notes:
            self.findings.notes += 1
            if file_hash not in self.gardener.states.get(path, ()):
                self._fault(when, f"{path} is of a state that the file never had")
            found = chunks.pop(path, [])
            self.findings.chunks += len(found)
            if [row[:3] for row in found] != self._cut(path, file_hash, content):
                self._fault(when, f"the chunks of {path} are not those of its text")
            if any(row[3] != file_hash for row in found):
                self._fault(when, f"chunks of {path} are of another state than its row")
            if links.pop(path, 0) != self.links[path, file_hash]:
                self._fault(when, f"the links of {path} are not those of its text")
        for path in (*chunks, *links):
            self._fault(when, f"rows of {path}, which is not in the index")
        return {path for path, _, _ in notes}

    def _cut(self, path: str, file_hash: str, content: str) -> list[tuple[int, str, str]]:
        if (path, file_hash) not in self.cuts:
            note = parse_note(path, content)
            self.links[path, file_hash] = len(note.links)
            self.cuts[path, file_hash] = [
                (c.chunk_index, " > ".join(h for h in c.heading_path if h), c.content)
                for c in split_note(note)
            ]
        return self.cuts[path, file_hash]

    def _look_at_vector(self, when: str, where: str, text: str, stored: str) -> None:
        self.findings.vectors += 1
        if text not in self.vectors:
            self.vectors[text] = np.array(embed(text, DIMENSIONS))
        found = np.array([float(number) for number in stored.strip("[]").split(",")])
        if float(found @ self.vectors[text]) < 0.99999:
            self._fault(when, f"the vector of {where} is not that of its text")

    def _look_for_losses(self, when: str, before: set[str], held: set[str]) -> None:
        on_disk = set(self.gardener.notes())
        for path in (before & on_disk) - held:
            self._fault(when, f"{path} was in the index, is on disk, and is gone from the index")
        # A renamed note is there under its old name or its new one.
        hashes = {row[0] for row in self.bench.rows("SELECT file_hash FROM notes")}
        moved = on_disk - before
        for path in moved - held:
            digest = hash_bytes((self.bench.vault.root / path).read_bytes())
            earlier = [old for old in before - on_disk if digest in self.gardener.states.get(old, ())]
            if earlier and digest not in hashes and not set(earlier) & held:
                self._fault(when, f"{path}, which was {earlier[0]}, is there under neither name")

    def _fault(self, when: str, what: str) -> None:
        self.findings.faults.append(f"{when}: {what}")


def start(bench: Workbench) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "obsidian_rag", "index", "--quiet"],
        env=bench.environment | {"PYTHONPATH": str(ROOT)},
        cwd=bench.vault.root.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def time_run(bench: Workbench) -> float:
    """Seconds that a run takes in a process of its own."""
    started = time.monotonic()
    with start(bench) as process:
        process.communicate()
    return time.monotonic() - started


def kill_first(inspector: Inspector, when: str, server: str, usual: float) -> tuple[str | None, float]:
    """Kill a first run, into an empty database, as `kill_one` does; then let the next one come to its end."""
    with new_bench(server, inspector.bench.vault, inspector.bench.ollama) as bench:
        stage, usual = kill_one(bench, inspector.gardener.chance, usual)
        first = replace(inspector, bench=bench)
        first.look(when, set())
        if stage is not None:
            finish(first, when, server)
            stage = f"{stage}, of a first run"
    return stage, usual


def kill_one(bench: Workbench, chance: random.Random, usual: float) -> tuple[str | None, float]:
    """Start a run and kill it at a random moment: where it stood, None where it was not at work; and the time
    that a run takes by now.

    Half of the moments are counted from the start, half from an answer of the embedder, where notes are
    being written.
    """
    moment = chance.uniform(0.0, 1.05) * usual
    latest = bench.rows("SELECT coalesce(max(run_id), 0) FROM index_runs")[0][0]
    started = time.monotonic()
    with start(bench) as process:
        if chance.random() < 0.5:
            wanted = chance.randrange(1, 6)
            bench.ollama.forget()
            while len(bench.ollama.embed_calls) < wanted and process.poll() is None:
                time.sleep(0.002)
            moment = chance.uniform(0.0, 0.15)
            started_counting = time.monotonic()
        else:
            started_counting = started
        try:
            process.communicate(timeout=max(0.0, moment - (time.monotonic() - started_counting)))
            usual = 0.8 * usual + 0.2 * (time.monotonic() - started)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
    await_end_of_indexers(bench)
    row = bench.rows("SELECT run_id, status FROM index_runs ORDER BY run_id DESC LIMIT 1")
    if not row or row[0][0] <= latest or row[0][1] != "running":
        return None, usual
    return find_stage(bench), usual


def find_stage(bench: Workbench) -> str:
    """How far a killed run came, by the notes that it stored."""
    stored = bench.rows(
        "SELECT count(*) FROM notes WHERE indexed_at > (SELECT started_at FROM index_runs"
        " ORDER BY run_id DESC LIMIT 1)"
    )[0][0]
    return "before the first note was stored" if not stored else "after some notes were stored"


def run(kills: int, seed: int, count: int, server: str) -> Findings:
    """Kill so many runs; what was found."""
    chance = random.Random(seed)
    findings = Findings()
    with tempfile.TemporaryDirectory() as folder, OllamaDouble(dimensions=DIMENSIONS) as ollama:
        vault = VaultFolder(Path(folder) / "vault")
        vault.root.mkdir()
        with new_bench(server, vault, ollama) as bench:
            gardener = Gardener(vault, chance)
            gardener.grow(count)
            inspector = Inspector(bench, gardener, findings)
            usual_first = time_run(bench)
            held = inspector.look("first run", set())
            gardener.change()
            usual = time_run(bench)
            done = 0
            while done < kills:
                if done % FIRST == FIRST - 1:
                    stage, usual_first = kill_first(inspector, f"kill {done + 1}", server, usual_first)
                else:
                    gardener.change()
                    stage, usual = kill_one(bench, chance, usual)
                    held = inspector.look(f"kill {done + 1}", held)
                if stage is None:
                    continue
                done += 1
                findings.stages[stage] += 1
                if done % ROUND == 0 or done == kills:
                    held = finish(inspector, f"kill {done}", server)
                    print(f"{done} kills, {len(findings.faults)} faults", file=sys.stderr, flush=True)
    return findings


def finish(inspector: Inspector, when: str, server: str) -> set[str]:
    """Let a run come to its end and compare the index with that of an undisturbed one."""
    report = inspector.bench.index()
    if report.status != "ok":
        inspector.findings.faults.append(f"{when}: the next run ended as {report.status}: {report.failures}")
    with new_bench(server, inspector.bench.vault, inspector.bench.ollama) as undisturbed:
        undisturbed.index()
        mine, wanted = list_contents(inspector.bench), list_contents(undisturbed)
    differing = [name for name in wanted if mine[name] != wanted[name]]
    inspector.findings.equal += not differing
    for name in differing:
        inspector.findings.faults.append(f"{when}: {name} differs from that of an undisturbed run")
    held = inspector.look(f"{when}, completed", set())
    if held != set(inspector.gardener.notes()):
        inspector.findings.faults.append(f"{when}: the notes in the index are not those on disk")
    return held


def list_contents(bench: Workbench) -> dict[str, list[tuple[object, ...]]]:
    """The tables, and the indexes with whether they are in use."""
    return bench.tables() | {"the list of indexes": bench.rows(INDEXES)}


@contextmanager
def new_bench(server: str, vault: VaultFolder, ollama: OllamaDouble) -> Iterator[Workbench]:
    """A workbench with a database of its own."""
    url = create_database(server)
    try:
        with connect(url) as conn:
            apply_migrations(conn)
        yield Workbench(vault, url, ollama)
    finally:
        drop_database(server, url)


def main(arguments: list[str] | None = None) -> int:
    """Print what was found; 0 where nothing was."""
    parser = argparse.ArgumentParser(description="Kill the indexer at random moments.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--notes", type=int, default=300)
    options = parser.parse_args(arguments)
    started = time.monotonic()
    url = os.environ.get("TEST_DATABASE_URL")
    if url:
        findings = run(options.kills, options.seed, options.notes, url)
    else:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)  # the server's account must reach it
            home = Path(folder) / "home"
            findings = run(options.kills, options.seed, options.notes, embedded.acquire(home))
            embedded.release(home)
    print(f"{options.kills} kills, seed {options.seed}, {time.monotonic() - started:.0f} s")
    for stage, number in findings.stages.most_common():
        print(f"{number:7} {stage}")
    print(f"{findings.notes:7} notes looked at, each one state of its file")
    print(f"{findings.chunks:7} chunks compared with those of the note's text")
    print(f"{findings.vectors:7} vectors made anew from the chunk's text")
    print(f"{findings.equal:7} times equal to an undisturbed run")
    print(f"{len(findings.faults):7} faults")
    for fault in findings.faults[:50]:
        print(f"        {fault}")
    return 1 if findings.faults else 0


if __name__ == "__main__":
    sys.exit(main())
