"""A database that restarts, drops connections, fills up or is changed by hand, in the midst of indexing and
of searching: the answer is right or the error names the fault and its mend, and the next run makes the index
equal to an undisturbed one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from conftest import VaultFolder, Workbench
from fault_bench import (
    NewBench,
    assert_as_undisturbed,
    error_of,
    find_drift,
    find_notes,
    open_server,
    paths_of,
    read_status,
    wait_until,
    write_notes,
)
from ollama_double import Hold, OllamaDouble
from own_postgres import OwnPostgres

from obsidian_rag import embedded
from obsidian_rag.errors import DatabaseError, DatabaseUnavailable
from obsidian_rag.migrate import apply_migrations
from obsidian_rag.postgres import connect
from obsidian_rag.search import pipeline

TERMINATE = """
SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[OwnPostgres]:
    if not embedded.is_installed():
        pytest.skip("the embedded PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp(prefix="obsidian-rag-test-"))  # pytest's own is closed to other accounts
    folder.chmod(0o755)
    try:
        with OwnPostgres(folder / "home") as postgres:
            yield postgres
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def own_bench(
    own_postgres: OwnPostgres, vault: VaultFolder, ollama: OllamaDouble, tmp_path: Path
) -> Callable[[VaultFolder], Workbench]:
    """Makes workbenches whose databases lie in a server that may be restarted."""
    made: list[str] = []

    def make(folder: VaultFolder) -> Workbench:
        made.append(own_postgres.create_database(f"{tmp_path.name}_{len(made)}"[:60]))
        with connect(made[-1]) as conn:
            apply_migrations(conn)
        return Workbench(folder, made[-1], ollama)

    return make


# --- restarts and drops ------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["SIGINT", "SIGQUIT"])
def test_a_restart_in_the_midst_of_a_run_is_told_and_the_next_run_completes(
    own_bench: NewBench, own_postgres: OwnPostgres, vault: VaultFolder, two_a_round: None, how: str
) -> None:
    bench = own_bench(vault)
    write_notes(vault, 8)

    def restart(call: object) -> None:
        deadline = time.monotonic() + 60
        while not find_notes(bench):  # notes are written while others are embedded
            assert time.monotonic() < deadline
        own_postgres.restart(how)

    bench.ollama.faults += [None, None, restart]

    with pytest.raises(DatabaseUnavailable, match=r"was lost.*Run the command again") as caught:
        bench.index()

    assert "***" not in str(caught.value) and "@127.0.0.1" in str(caught.value)
    assert 0 < len(find_notes(bench)) < 8
    assert find_drift(bench) == ()
    assert any("cut short" in notice for notice in bench.search("note 1", "keyword").notices)
    bench.ollama.forget()
    report = bench.index()
    assert (report.status, len(bench.ollama.texts)) == ("ok", 3 * report.notes_indexed)
    assert_as_undisturbed(bench, own_bench)


def test_searches_outlive_restarts_and_say_what_is_wrong_while_it_is_down(
    own_bench: NewBench, own_postgres: OwnPostgres, vault: VaultFolder, tmp_path: Path
) -> None:
    bench = own_bench(vault)
    write_notes(vault, 6)
    bench.index()
    with open_server(bench, tmp_path / "server") as server:
        assert paths_of(server.call("search_notes", query="note 3"))[0] == "Note 03.md"
        for how in ("SIGINT", "SIGQUIT"):
            # A restart between the two halves of a search: what it asks the embedder, and what the database.
            held = Hold()
            bench.ollama.faults.append(held)
            number = server.send(
                "tools/call", {"name": "search_notes", "arguments": {"query": f"of note 4 {how}"}}
            )
            assert held.entered.wait(60)
            own_postgres.restart(how)
            held.release.set()
            assert paths_of(server.read(number)["result"])[0] == "Note 04.md"

            own_postgres.stop(how)
            said = error_of(server.call("search_notes", query="note 3"))
            assert "cannot be reached" in said and "Start PostgreSQL there" in said
            assert "postgres:" not in said
            own_postgres.start()
            assert paths_of(server.call("search_notes", query="note 3"))[0] == "Note 03.md"
        server.end_input()
        assert server.finish() == 0


def test_connections_that_drop_again_and_again_leave_nothing_behind_in_the_server(
    bench: Workbench, tmp_path: Path
) -> None:
    write_notes(bench.vault, 6)
    bench.index()
    with open_server(bench, tmp_path / "server") as server:
        process = psutil.Process(server.process.pid)

        def ask_at_once(count: int = 8) -> None:
            numbers = [
                server.send(
                    "tools/call",
                    {"name": "search_notes", "arguments": {"query": f"note {n % 6}", "mode": "keyword"}},
                )
                for n in range(count)
            ]
            answers = {number: server.read(number)["result"] for number in numbers}
            for n, number in enumerate(numbers):
                assert paths_of(answers[number])[0] == f"Note {n % 6:02}.md"

        ask_at_once()
        files = process.num_fds()
        for _ in range(10):
            bench.rows(TERMINATE)
            server.lines.clear()
            server.call("list_topics")
        ask_at_once()
        sessions = bench.rows(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid()"
        )[0][0]
        assert sessions <= 4
        assert process.num_fds() <= files + 4


# --- a full disk -------------------------------------------------------------------------------------

FILL_UP = """
CREATE FUNCTION fill_up() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT count(*) FROM notes) >= 4 THEN
        RAISE EXCEPTION 'could not extend file "base/5/1": No space left on device'
            USING ERRCODE = 'disk_full', HINT = 'Check free disk space.';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER fill_up BEFORE INSERT ON postings FOR EACH STATEMENT EXECUTE FUNCTION fill_up();
"""


def test_a_full_disk_is_told_with_its_mend_and_nothing_is_torn(
    bench: Workbench, new_bench: NewBench, two_a_round: None
) -> None:
    write_notes(bench.vault, 8)
    bench.execute(FILL_UP)
    with pytest.raises(
        DatabaseUnavailable, match=r"disk is full.*Free space there and run the indexer again"
    ):
        bench.index()
    assert len(find_notes(bench)) == 2  # the round before
    assert find_drift(bench) == ()
    assert any("disk is full" in notice for notice in bench.search("note 1", "keyword").notices)
    bench.execute("DROP FUNCTION fill_up CASCADE")
    bench.ollama.forget()
    report = bench.index()
    assert (report.status, report.notes_unchanged, len(bench.ollama.texts)) == ("ok", 2, 18)
    assert_as_undisturbed(bench, new_bench)


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="only root can mount")
def test_a_disk_that_is_really_full_is_told_and_reading_goes_on(
    own_postgres: OwnPostgres, own_bench: NewBench, vault: VaultFolder, ollama: OllamaDouble
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="obsidian-rag-full-"))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        folder.rmdir()
        pytest.skip("this container may not mount")
    try:
        small = folder / "small"
        small.mkdir()
        if own_postgres.account:
            folder.chmod(0o755)
            os.chown(small, own_postgres.account.uid, own_postgres.account.gid)
        with psycopg.connect(own_postgres.url(), autocommit=True) as conn:
            conn.execute(f"CREATE TABLESPACE small LOCATION '{small}'")
        bench = Workbench(vault, own_postgres.create_database("full", tablespace="small"), ollama)
        write_notes(vault, 4)
        bench.index()
        ballast = folder / "ballast"
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(folder).free - 200_000)
        for number in range(3):
            words = " ".join(f"word{n}of{number}" for n in range(3000))
            vault.write(f"Large {number}.md", f"# Large {number}\n\n{words}\n")

        with pytest.raises(DatabaseError) as caught:
            bench.index()

        assert isinstance(caught.value, DatabaseUnavailable), caught.value
        assert "disk is full" in caught.value.message and "No space left" in caught.value.message
        assert "Free space there" in caught.value.mend
        assert find_notes(bench)[-4:] == [f"Note {n:02}.md" for n in range(4)]
        assert bench.found("note 3", "keyword")[0] == "Note 03.md"
        ballast.unlink()
        assert bench.index().status == "ok"
        assert_as_undisturbed(bench, own_bench)
    finally:
        with psycopg.connect(own_postgres.url(), autocommit=True) as conn:
            conn.execute('DROP DATABASE IF EXISTS "full" WITH (FORCE)')
            conn.execute("DROP TABLESPACE IF EXISTS small")
        subprocess.run(["umount", folder], check=True)
        folder.rmdir()


# --- one note, one state -----------------------------------------------------------------------------

PAUSE = """
CREATE FUNCTION wait_there() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(42);
    RETURN NULL;
END $$;
CREATE TRIGGER wait_there AFTER INSERT ON postings FOR EACH STATEMENT EXECUTE FUNCTION wait_there();
"""


def test_a_note_is_replaced_at_once_and_a_kill_in_between_leaves_the_old_one(
    bench: Workbench, new_bench: NewBench
) -> None:
    write_notes(bench.vault, 3)
    bench.index()
    before = bench.tables()
    bench.execute(PAUSE)
    bench.vault.write("Note 01.md", "# New\n\nNote 1 is another one.\n")
    outcome: list[BaseException] = []

    def run() -> None:
        try:
            bench.index()
        except DatabaseUnavailable as exc:
            outcome.append(exc)

    with psycopg.connect(bench.database_url, autocommit=True) as conn:
        conn.execute("SELECT pg_advisory_lock(42)")
        thread = threading.Thread(target=run)
        thread.start()
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 42 AND NOT granted"
        wait_until(
            lambda: conn.execute(waiting).fetchone() == (1,), "the indexer has deleted and not committed"
        )
        # Every row of the old note is deleted and its new ones are written, for nobody but the indexer.
        assert bench.tables() == before
        for mode in ("keyword", "vector", "hybrid"):
            assert "Note 01.md" in bench.found("note 1 says", mode)
        conn.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE objid = 42 AND NOT granted")
        thread.join(60)
    assert len(outcome) == 1
    assert bench.tables() == before
    bench.execute("DROP FUNCTION wait_there CASCADE")
    bench.index()
    assert_as_undisturbed(bench, new_bench)


def test_an_answer_is_of_one_state_though_the_note_is_replaced_between_its_statements(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.vault.write("Note.md", "".join(f"## Part {n}\n\nThe old text says {n}.\n\n" for n in range(3)))
    bench.index()
    find_priors = pipeline.find_priors

    def replace_note(*arguments: Any) -> Any:
        bench.vault.write("Note.md", "".join(f"## Part {n}\n\nA new one tells {n}.\n\n" for n in range(3)))
        assert bench.index().notes_indexed == 1
        return find_priors(*arguments)

    monkeypatch.setattr(pipeline, "find_priors", replace_note)
    hits = bench.search("old text says 1").results
    assert len(hits) == 3, "the passage and its neighbours"
    assert all("The old text says" in hit.content for hit in hits)
    monkeypatch.undo()
    assert all("A new one tells" in hit.content for hit in bench.search("old text says 1").results)


def test_an_indexer_and_three_servers_at_once_never_show_half_a_note(
    bench: Workbench, tmp_path: Path
) -> None:
    """Every passage of a note says which edit it belongs to; those of one answer are of one edit."""

    def write(edit: int) -> None:
        for note in range(4):
            parts = "".join(
                f"## Part {part}\n\nNote {note} in edition x{edit}x. {'Filling. ' * (edit % 3)}\n\n"
                for part in range(3 + edit % 3)
            )
            bench.vault.write(f"Note {note}.md", parts)

    write(0)
    bench.index()
    ended = threading.Event()

    def ask(number: int) -> int:
        asked = 0
        with open_server(bench, tmp_path / f"server{number}") as server:
            while not ended.is_set() or asked < 3:
                note = asked % 4
                found = server.call("search_notes", query=f"note {note} edition", mode="keyword")
                assert paths_of(found), found
                by_note: dict[str, set[str]] = {}
                for hit in found["structuredContent"]["results"]:
                    assert hit["content"], hit
                    by_note.setdefault(hit["file_path"], set()).add(hit["content"].split("x")[1])
                assert all(len(editions) == 1 for editions in by_note.values()), by_note
                text = server.call("get_note", file_path=f"Note {note}")["structuredContent"]["content"]
                assert len(set(text.split("x")[1::2])) == 1, text
                asked += 1
                ended.wait(0.05)  # so that the indexer comes to its turn on a machine of two cores
            server.end_input()
            assert server.finish() == 0
        return asked

    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(ask, number) for number in range(3)]
        try:
            for edit in range(1, 6):
                write(edit)
                assert bench.index().notes_indexed == 4
        finally:
            ended.set()
        assert all(done.result() >= 3 for done in asking)


def test_of_two_indexers_that_start_together_one_works_and_the_other_says_so(
    bench: Workbench, new_bench: NewBench
) -> None:
    write_notes(bench.vault, 6)
    held = Hold()
    bench.ollama.faults.append(held)
    command = [sys.executable, "-m", "obsidian_rag", "index"]
    both = [
        subprocess.Popen(
            command, env=bench.environment, cwd=bench.vault.root.parent, stderr=subprocess.PIPE, text=True
        )
        for _ in "ab"
    ]
    wait_until(lambda: any(process.poll() is not None for process in both), "one of them gives up")
    loser = next(process for process in both if process.poll() is not None)
    assert held.entered.wait(60)
    held.release.set()
    said = {process.pid: process.communicate(timeout=120)[1] for process in both}
    assert sorted(process.returncode for process in both) == [0, 2]
    assert "Another indexer is at work" in said[loser.pid]
    assert "Wait until it has finished" in said[loser.pid]
    assert_as_undisturbed(bench, new_bench)


# --- rows that somebody deleted ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("harm", "lost"),
    [
        ("DELETE FROM documents WHERE file_path = 'Note 01.md' AND chunk_index = 0", 1),
        ("DELETE FROM documents WHERE file_path = 'Note 01.md' AND chunk_index = 1", 1),
        ("DELETE FROM documents WHERE file_path = 'Note 01.md' AND chunk_index = 2", 1),
        ("DELETE FROM documents WHERE file_path = 'Note 01.md'", 3),
        ("DELETE FROM documents WHERE chunk_index = 1", 4),
        ("TRUNCATE documents", 12),
        ("DELETE FROM documents WHERE file_path = 'Note 01.md'; TRUNCATE keyword_stats", 3),
    ],
)
def test_chunks_deleted_by_hand_are_noticed_and_mended_by_a_plain_run(
    bench: Workbench, harm: str, lost: int
) -> None:
    write_notes(bench.vault, 4)
    bench.vault.write("\N{SMILING FACE WITH OPEN MOUTH}.md", "\N{SMILING FACE WITH OPEN MOUTH}\n")
    bench.index()
    before = bench.tables()
    bench.execute("DELETE FROM documents WHERE file_path NOT LIKE 'Note%'")  # a chunk without any word
    bench.execute(harm)
    lost += 1
    told = read_status(bench, full=True)
    assert told["drift"] and told["disk"]["reread"]

    bench.ollama.forget()
    report = bench.index()

    assert report.status == "ok"
    assert len(bench.ollama.texts) == lost, "only what was lost is embedded"
    if "keyword_stats" in harm:
        bench.index(full=True)  # sums that are wrong are counted again
    assert bench.tables() == before
    assert find_drift(bench) == ()
    assert bench.index().notes_unchanged == 5
