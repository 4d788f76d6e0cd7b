"""The parts of speed.py about the indexer: first index, runs after it, space, and a slow embedder."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from made_vaults import MadeVault, Plan
from speed_calls import open_session
from speed_lab import ROOT, Lab, ask, index, median_of, middle, open_embedder, read_database_cpu, run_program

NOTES_A_SECOND, CHUNKS_A_SECOND, MOST_MEMORY, MOST_BOUND = 400, 1_500, 300, 1.15
MOST_ONE_NOTE = 1.0  # seconds
MOST_WATCH, LONGEST_WATCH, EDITS = 2.0, 60.0, 8
PER_REQUEST, PER_TEXT = 0.005, 0.002  # of the embedder that takes its time
BATCHES = (8, 16, 32, 64, 128, 256)
PLACES = 15
IDLE = ("stdio.", "mcp_server.serve")  # where a server waits for its client
MOST_TWICE = 10_000  # notes up to which a vault is indexed once more for a part
LEAST_SHOWN = 20  # bytes a chunk
LARGE = 1_000  # notes from which the local model would take too long


def measure_first_index(lab: Lab, plan: Plan, embedder: str) -> None:
    """Everything new, and an embedder that costs next to nothing."""
    vault = lab.working_vault(plan, anew=True)
    url = lab.database(plan)
    lab.make_database(url)
    ask(f"{embedder}/spent", forget=True)
    spent = ask(f"{embedder}/spent")["cpu_seconds"]
    before = read_database_cpu(url)
    cost = index(lab.environment(vault.root, url, embedder), lab.cache / "work")
    spent = ask(f"{embedder}/spent")["cpu_seconds"] - spent
    database = read_database_cpu(url) - before
    report = cost.report
    chunks = report["chunks_written"]
    hub = plan.kind == "hub"
    lab.add("index", plan, "first index", cost.seconds, "s")
    lab.add(
        "index",
        plan,
        "notes a second",
        plan.notes / cost.seconds,
        "",
        bar=NOTES_A_SECOND if hub else None,
        least=True,
    )
    lab.add(
        "index",
        plan,
        "chunks a second",
        chunks / cost.seconds,
        "",
        bar=CHUNKS_A_SECOND if hub else None,
        least=True,
    )
    lab.add("index", plan, "chunks", chunks, "")
    lab.add("index", plan, "notes on disk", vault.bytes / 1e6, "MB")
    lab.add("index", plan, "peak memory of the indexer", cost.peak, "MB", bar=MOST_MEMORY)
    lab.add("index", plan, "CPU of the indexer", cost.cpu, "s")
    lab.add("index", plan, "CPU of the database", database, "s")
    lab.add("index", plan, "CPU of the embedder", spent, "s")
    with psycopg.connect(url, autocommit=True) as conn:
        size = fetch(conn, "SELECT pg_database_size(current_database())")[0][0]
    lab.add("index", plan, "size of the database", size / 1e6, "MB")
    if report["status"] != "ok":
        raise RuntimeError(f"The run ended as {report['status']}: {report['failures'][:3]}")


def measure_again(lab: Lab, plan: Plan, embedder: str) -> None:
    """Runs with nothing or little to do. The vault and its index are in the end as they were."""
    vault = lab.working_vault(plan)
    environment = lab.environment(vault.root, lab.database(plan), embedder)

    def run() -> Any:
        return index(environment, lab.cache / "work")

    run()  # what has just been copied may have to be looked at once more
    quiet = median_of(5, run)
    if quiet.report["notes_unchanged"] != plan.notes:
        raise RuntimeError(f"A run without a change found some: {quiet.report}")
    lab.add("again", plan, "no change", quiet.seconds, "s")
    lab.add("again", plan, "no change, CPU", quiet.cpu, "s")
    lab.add("again", plan, "no change, peak memory", quiet.peak, "MB", bar=MOST_MEMORY)
    with changed_note(vault):
        changed = run()
    if changed.report["notes_indexed"] != 1:
        raise RuntimeError(f"One note was changed, and the run found others: {changed.report}")
    run()
    lab.add("again", plan, "one changed note", changed.seconds, "s", bar=MOST_ONE_NOTE)
    with renamed_folder(vault) as count:
        renamed = run()
    if renamed.report["notes_renamed"] != count or renamed.report["chunks_embedded"]:
        raise RuntimeError(f"{count} notes were renamed, and the run found others: {renamed.report}")
    run()
    lab.add("again", plan, "a renamed folder", renamed.seconds, "s")
    lab.add("again", plan, "notes in it", count, "")


@contextmanager
def changed_note(vault: MadeVault) -> Iterator[None]:
    """One note with a paragraph more, and then without it."""
    note = next(iter(sorted(vault.root.rglob("*.md"))))
    before = note.read_bytes()
    note.write_bytes(before + b"\n## Added\n\nA paragraph that was not there, about nothing at all.\n")
    yield
    note.write_bytes(before)


@contextmanager
def renamed_folder(vault: MadeVault) -> Iterator[int]:
    """A folder of the lower level under another name, and then under its own; how many notes it has."""
    folder = next(f for f in sorted(vault.root.glob("*/*")) if f.is_dir())
    target = folder.with_name(f"{folder.name} renamed")
    folder.rename(target)
    yield len(list(target.glob("*.md")))
    target.rename(folder)


def measure_watch(lab: Lab, plan: Plan, embedder: str) -> None:
    """Seconds from the moment an edit is saved until the note's new text is in the index."""
    vault = lab.working_vault(plan)
    url = lab.database(plan)
    environment = lab.environment(vault.root, url, embedder)
    notes = sorted(vault.root.rglob("*.md"))[:: max(1, plan.notes // EDITS)][:EDITS]
    before = {note: note.read_bytes() for note in notes}
    command = [sys.executable, "-m", "obsidian_rag", "index", "--watch", "--quiet"]
    latest = _latest_run(url)
    with subprocess.Popen(
        command, env=environment, cwd=lab.cache / "work", stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            while _latest_run(url) == latest:
                if process.poll() is not None:
                    assert process.stderr is not None
                    print(f"watch is left out: {process.stderr.read()[-300:]}", file=sys.stderr)
                    return
                time.sleep(0.05)
            took = [_time_edit(url, vault, note, number) for number, note in enumerate(notes)]
        finally:
            process.terminate()
            for note, text in before.items():
                note.write_bytes(text)
    index(environment, lab.cache / "work")
    lab.add("watch", plan, "an edit is in the index, median", middle(took), "s")
    lab.add("watch", plan, "an edit is in the index, worst", max(took), "s", bar=MOST_WATCH)


def _latest_run(url: str) -> Any:
    with psycopg.connect(url, autocommit=True) as conn:
        return fetch(conn, "SELECT max(run_id) FROM index_runs WHERE status IN ('ok', 'partial')")[0][0]


def _time_edit(url: str, vault: MadeVault, note: Path, number: int) -> float:
    path = note.relative_to(vault.root).as_posix()
    word = f"edited{number}x{time.time_ns()}"
    with psycopg.connect(url, autocommit=True) as conn:
        started = time.perf_counter()
        note.write_bytes(note.read_bytes() + f"\n## Edited\n\nWith {word} in it.\n".encode())
        while time.perf_counter() - started < LONGEST_WATCH:
            row = conn.execute(
                "SELECT FROM documents WHERE file_path = %s AND strpos(content, %s) > 0 LIMIT 1", (path, word)
            ).fetchone()
            if row is not None:
                break
            time.sleep(0.02)
        return time.perf_counter() - started


def measure_space(lab: Lab, plan: Plan) -> None:
    """Bytes for each chunk: of each table with what is stored aside, of each index, and of all."""
    with psycopg.connect(lab.database(plan), autocommit=True) as conn:
        chunks = max(1, fetch(conn, "SELECT count(*) FROM documents")[0][0])
        tables = fetch(
            conn,
            "SELECT relname, pg_table_size(oid) FROM pg_class"
            " WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
            " ORDER BY 2 DESC",
        )
        indexes = fetch(
            conn,
            "SELECT c.relname, pg_relation_size(c.oid) FROM pg_class c"
            " WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'i' ORDER BY 2 DESC",
        )
    for kind, rows in (("table", tables), ("index", indexes)):
        for name, size in rows:
            if size / chunks >= LEAST_SHOWN:
                lab.add("space", plan, f"{kind} {name}", size / chunks, "bytes a chunk")
        lab.add("space", plan, f"all of kind {kind}", sum(size for _, size in rows) / chunks, "bytes a chunk")


def measure_bound(lab: Lab, plan: Plan) -> None:
    """A first index, against the time that the embedder alone takes for the same texts in its best batches.

    A large vault has an embedder that takes its time without using the CPU, like a GPU's; a small one, for
    which that would be over before the program has started, the local model, which shares the cores with the
    indexer.
    """
    if plan.notes > MOST_TWICE:
        return
    url = lab.database(plan, "_bound")
    root = lab.vault(plan).root
    folder = lab.cache / "work"
    lab.make_database(url)
    if plan.notes < LARGE:
        name = "the local model"
        seconds = index(lab.environment(root, url, None), folder).seconds
        alone = time_local(lab, read_texts(url))
    else:
        name = f"an embedder of {1 / PER_TEXT:.0f} texts a second"
        with open_embedder("--per-request", str(PER_REQUEST), "--per-text", str(PER_TEXT)) as embedder:
            seconds = index(lab.environment(root, url, embedder), folder).seconds
            alone = time_ollama(embedder, read_texts(url))
    lab.add("bound", plan, f"first index, {name}", seconds, "s")
    lab.add("bound", plan, f"{name} alone", alone, "s")
    lab.add("bound", plan, "ratio", seconds / alone, "", bar=MOST_BOUND)
    lab.drop_database(url)


def measure_profile(lab: Lab, plan: Plan, embedder: str) -> None:
    """Where the time of each of the three waits goes: the places of sampled.py that have the most of it."""
    if plan.notes > MOST_TWICE:
        return
    vault = lab.working_vault(plan)
    url = lab.database(plan, "_profile")
    environment = lab.environment(vault.root, url, embedder)
    folder = lab.cache / "work"
    sampled = [sys.executable, str(ROOT / "benchmarks" / "sampled.py")]
    lab.make_database(url)
    for what in ("first index", "no change"):
        out = folder / f"{plan.name} {what}.json"
        run_program([*sampled, str(out), "index", "--quiet"], environment, folder)
        _add_places(lab, plan, what, out)
    out = folder / f"{plan.name} hybrid.json"
    with open_session([*sampled, str(out), "serve"], environment, folder / "serve") as session:
        for query in [*vault.questions, *vault.titles] * 2:
            session.call("search_notes", {"query": query})
    _add_places(lab, plan, "hybrid", out)
    lab.drop_database(url)


def _add_places(lab: Lab, plan: Plan, what: str, out: Path) -> None:
    places = json.loads(out.read_text())["places"]
    working = {place: samples for place, samples in places.items() if not place.startswith(IDLE)}
    for place, samples in list(working.items())[:PLACES]:
        lab.add("profile", plan, f"{what}: {place}", 100 * samples / sum(working.values()), "%")


def read_texts(url: str) -> list[str]:
    """The different texts of an index as they are given to the embedder."""
    from obsidian_rag.store import join_text

    with psycopg.connect(url, autocommit=True) as conn:
        rows = fetch(
            conn,
            "SELECT DISTINCT ON (content_hash) heading_path, content FROM documents ORDER BY content_hash",
        )
    return [join_text(*row) for row in rows]


def time_ollama(embedder: str, texts: list[str]) -> float:
    """Seconds for all texts, in the batches that are fastest for the first of them."""
    sample = texts[:512]

    def embed(some: list[str], size: int) -> float:
        started = time.perf_counter()
        for first in range(0, len(some), size):
            ask(f"{embedder}/api/embed", {"model": "instant", "input": some[first : first + size]})
        return time.perf_counter() - started

    best = min(BATCHES, key=lambda size: embed(sample, size))
    return embed(texts, best)


def time_local(lab: Lab, texts: list[str]) -> float:
    """Seconds for all texts with the local model, loaded, in its own process; sorted by length or not."""
    code = (
        "import json, sys, time\n"
        "from obsidian_rag.embedding.local import DEFAULT_LOCAL_MODEL, open_local\n"
        "texts = json.load(sys.stdin)\n"
        "embedder = open_local(DEFAULT_LOCAL_MODEL)\n"
        "embedder.embed_documents(texts[:4])\n"
        "times = []\n"
        "for order in (texts, sorted(texts, key=len)):\n"
        "    started = time.perf_counter()\n"
        "    embedder.embed_documents(order)\n"
        "    times.append(time.perf_counter() - started)\n"
        "print(min(times))\n"
    )
    environment = lab.environment(Path("/"), "", None)
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(texts),
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def fetch(conn: psycopg.Connection[Any], statement: str) -> list[tuple[Any, ...]]:
    return conn.execute(statement).fetchall()  # type: ignore[call-overload, no-any-return]
