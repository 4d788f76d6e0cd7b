"""What goes wrong while indexing: nothing is lost, nobody else pays, and the message names the mend."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import VaultFolder, Workbench, make_url
from ollama_double import Hold

from obsidian_rag import ledger
from obsidian_rag.catalog import load_status
from obsidian_rag.config import parse_vaults
from obsidian_rag.errors import (
    DatabaseUnavailable,
    DatabaseUnsuitable,
    EmbedderUnavailable,
    IndexerBusy,
    IndexMismatch,
    SettingsError,
    VaultError,
)
from obsidian_rag.models import RunReport
from obsidian_rag.postgres import connect
from obsidian_rag.render import render_status


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries without their pauses."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)


def fill(vault: VaultFolder, count: int) -> None:
    """Notes with so much text that few go into one round of embedding."""
    for number in range(count):
        sections = (f"## Part {part}\n\nNote {number} says {part}.\n" for part in range(30))
        vault.write(f"Note {number:02}.md", f"[[Note {number + 1:02}]]\n\n" + "\n".join(sections))


def stored_notes(bench: Workbench) -> list[str]:
    return [path for (path,) in bench.rows("SELECT file_path FROM notes ORDER BY 1")]


def await_first_notes(bench: Workbench) -> None:
    """Notes are written while others are embedded."""
    deadline = time.monotonic() + 60
    while not stored_notes(bench):
        assert time.monotonic() < deadline, "no note was stored"


def assert_whole(bench: Workbench) -> None:
    """Every stored note has all its chunks, and its links say where they lead."""
    assert (
        bench.rows(
            "SELECT file_path FROM notes n WHERE (SELECT count(*) FROM documents d"
            " WHERE d.file_path = n.file_path) <> 31"
        )
        == []
    )
    assert bench.rows("SELECT * FROM documents d WHERE file_path NOT IN (SELECT file_path FROM notes)") == []
    leading = bench.rows(
        "SELECT count(*) FROM note_links WHERE target_type = 'unresolved' AND target_name <> 'Note 12'"
    )
    assert leading == [(0,)]


# --- the embedder ------------------------------------------------------------------------------------


def test_a_stopped_ollama_loses_nothing(bench: Workbench) -> None:
    bench.vault.write("A.md", "# A\n\nText.\n")
    bench.index()
    before = bench.tables()
    bench.vault.write("A.md", "# A\n\nEdited.\n")
    bench.vault.write("B.md", "# B\n\nNew.\n")
    bench.ollama.stop()

    with pytest.raises(EmbedderUnavailable, match="ollama serve"):
        bench.index()

    assert bench.tables() == before
    assert bench.rows("SELECT status FROM last_run") == [("failed",)]
    bench.ollama.start()
    assert bench.index().notes_indexed == 2


def test_an_ollama_that_dies_on_the_way_leaves_whole_notes_and_the_next_run_goes_on(
    bench: Workbench, new_bench: Callable[[VaultFolder], Workbench]
) -> None:
    fill(bench.vault, 12)
    bench.ollama.faults += [None] * 5
    bench.ollama.always = "drop"

    with pytest.raises(EmbedderUnavailable):
        bench.index()

    stored = stored_notes(bench)
    assert 0 < len(stored) < 12
    assert_whole(bench)
    bench.ollama.always = None
    bench.ollama.forget()
    report = bench.index()
    assert (report.notes_unchanged, report.notes_indexed) == (len(stored), 12 - len(stored))
    assert len(bench.ollama.texts) == 31 * (12 - len(stored))
    fresh = new_bench(bench.vault)
    fresh.index()
    assert bench.tables() == fresh.tables()


def test_one_poisoned_text_fails_its_note_alone_which_stays_as_it_was(bench: Workbench) -> None:
    bench.vault.write("A.md", "# A\n\nGood text.\n")
    bench.vault.write("B.md", "# B\n\nOld text.\n")
    bench.index()
    bench.vault.write("A.md", "# A\n\nBetter text.\n")
    bench.vault.write("B.md", "# B\n\nFine.\n\n## Bad\n\nThis is cursed.\n\n## Also fine\n\nFine.\n")
    bench.vault.write("C.md", "# C\n\nNew text.\n")
    bench.ollama.poison.add("cursed")

    report = bench.index()

    assert (report.status, report.notes_failed, report.notes_indexed) == ("partial", 1, 2)
    (failure,) = report.failures
    assert (failure.file_path, failure.stage) == ("B.md", "embed")
    assert failure.error.startswith("lines 5 to 7: ")
    assert "This is cursed." in failure.error
    contents = bench.rows("SELECT file_path, content FROM documents ORDER BY 1, chunk_index")
    assert contents == [
        ("A.md", "# A\n\nBetter text.\n"), ("B.md", "# B\n\nOld text.\n"), ("C.md", "# C\n\nNew text.\n"),
    ]  # fmt: skip
    assert bench.rows("SELECT file_path, stage FROM failures") == [("B.md", "embed")]
    assert bench.index().notes_failed == 1  # it stays told
    bench.ollama.poison.clear()
    assert bench.index().status == "ok"
    assert bench.rows("TABLE failures") == []


def test_a_model_that_is_not_pulled_is_named_with_its_mend(bench: Workbench) -> None:
    from obsidian_rag.errors import ModelMissing

    fill(bench.vault, 1)

    with pytest.raises(ModelMissing, match="ollama pull bge-m3"):
        bench.index({"embed_model": "bge-m3"})


# --- the notes ---------------------------------------------------------------------------------------


def test_a_note_that_the_database_cannot_hold_fails_alone(bench: Workbench) -> None:
    long_path = "/".join(f"{n}" + "x" * 200 for n in range(15)) + "/note.md"  # too long for a key of an index
    noise = "".join(chr(0x4E00 + (n * 7919) % 20000) for n in range(1200))  # which compression cannot shorten
    hard_path = "/".join(noise[n : n + 80] for n in range(0, 1200, 80)) + ".md"
    os.chdir(bench.vault.root)
    for path in (long_path, hard_path):
        file = Path(path)
        file.parent.mkdir(parents=True)
        file.write_text("# Deep\n\nText.\n", "utf-8")
    bench.vault.write("A.md", "# A\n\nText.\n")

    report = bench.index()

    assert (report.status, report.notes_failed) == ("partial", 1)
    (failure,) = report.failures
    assert (failure.file_path, failure.stage) == (hard_path, "store")
    assert "index row size" in failure.error
    assert sorted(stored_notes(bench)) == sorted([long_path, "A.md"])


def test_a_note_that_becomes_unreadable_stays_in_the_index_as_it_was(bench: Workbench) -> None:
    bench.vault.write("A.md", "# A\n\nText.\n")
    bench.vault.write("B.md", "# B\n\nText.\n")
    bench.index()
    before = bench.tables()
    bench.vault.delete("A.md")
    (bench.vault.root / "A.md").symlink_to("nowhere")

    report = bench.index()

    assert (report.status, report.notes_deleted) == ("partial", 0)
    assert [(f.file_path, f.stage) for f in report.failures] == [("A.md", "walk")]
    assert bench.tables() == before


def test_a_note_that_is_no_text_fails_alone(bench: Workbench) -> None:
    bench.vault.write("A.md", "Text.\n")
    bench.vault.write("Picture.md", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)

    report = bench.index()

    assert [(f.file_path, f.stage) for f in report.failures] == [("Picture.md", "read")]
    assert stored_notes(bench) == ["A.md"]


def test_the_counts_of_a_report_add_up_to_the_notes_seen(bench: Workbench) -> None:
    def add_up(report: RunReport) -> int:
        return report.notes_indexed + report.notes_unchanged + report.notes_renamed + report.notes_failed

    bench.vault.write("Same.md", "Same.\n")
    bench.vault.write("Old name.md", "Renamed.\n")
    bench.index()
    bench.vault.move("Old name.md", "New name.md")
    bench.vault.write("New.md", "New.\n")
    bench.vault.write("Picture.MD", bytes(range(256)) * 20)
    bench.vault.write("Cursed.md", "This is cursed.\n")
    bench.ollama.poison.add("cursed")
    (bench.vault.root / "Nowhere.md").symlink_to("nowhere")
    os.mkfifo(bench.vault.root / "Pipe.md")
    (bench.vault.root / os.fsdecode(b"folder \xff")).mkdir()  # which is no note, but is told

    planned = bench.index(dry_run=True)
    report = bench.index()

    assert (report.notes_seen, report.notes_failed, len(report.failures)) == (7, 4, 5)
    assert (report.notes_indexed, report.notes_unchanged, report.notes_renamed) == (1, 1, 1)
    assert planned.notes_seen == add_up(planned) == 7


def test_a_fault_of_the_parser_costs_one_note_and_is_told(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obsidian_rag import intake

    bench.vault.write("A.md", "Text.\n")
    bench.vault.write("B.md", "Text.\n")
    parse_note = intake.parse_note

    def fail_on_b(path: str, text: str) -> object:
        if path == "B.md":
            raise IndexError("a \0 \udc80 fault")
        return parse_note(path, text)

    monkeypatch.setattr(intake, "parse_note", fail_on_b)
    report = bench.index()

    assert [(f.file_path, f.stage) for f in report.failures] == [("B.md", "parse")]
    assert bench.rows("SELECT file_path FROM failures") == [("B.md",)]


def test_times_that_no_calendar_knows_do_not_lose_a_note(bench: Workbench) -> None:
    file = bench.vault.write("A.md", "Text.\n")
    for seconds in (-(2**31), 2**33, 15_000_000_000):
        os.utime(file, (seconds, seconds))
        assert bench.index().status == "ok", seconds
        assert bench.index().notes_unchanged == 1


# --- the vault ---------------------------------------------------------------------------------------


def test_a_vault_that_is_missing_a_file_or_not_named_is_told(bench: Workbench, tmp_path: Path) -> None:
    from obsidian_rag.config import parse_vaults

    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    for name, words in (
        ("missing", "does not exist"),
        ("file", "is not a folder"),
        ("file/below", "cannot be reached"),
        ("loop", "cannot be reached"),
        ("x" * 300, "cannot be reached"),
    ):
        with pytest.raises(VaultError, match=words):
            bench.index({"vaults": parse_vaults(str(tmp_path / name))})
    with pytest.raises(SettingsError, match="No vault is named"):
        bench.index({"vaults": ()})
    assert bench.rows("TABLE index_runs") == []


LAST_RUN = "SELECT status, error FROM last_run"


@pytest.mark.parametrize(
    ("harm", "words"), [("gone", "does not exist"), ("empty", "There is no note"), ("file", "not a folder")]
)
def test_a_run_that_cannot_start_is_in_the_ledger_and_told_to_who_searches(
    bench: Workbench, harm: str, words: str
) -> None:
    bench.vault.write("A.md", "# A\n\nText.\n")
    bench.vault.write("Picture.md", bytes(range(256)) * 20)
    bench.index()
    failures = bench.rows("SELECT file_path FROM failures")
    assert failures == [("Picture.md",)]
    before = bench.tables()
    bench.vault.root.rename(bench.vault.root.with_name("away"))
    if harm == "empty":
        bench.vault.root.mkdir()
    elif harm == "file":
        bench.vault.root.write_text("x")

    with pytest.raises(VaultError, match=words):
        bench.index(dry_run=True)
    assert bench.rows("SELECT count(*) FROM index_runs") == [(1,)]
    with pytest.raises(VaultError, match=words):
        bench.index()

    ((status, error),) = bench.rows(LAST_RUN)
    assert status == "failed"
    assert words in error
    assert bench.tables() == before
    assert bench.rows("SELECT file_path FROM failures") == failures
    assert any("failed" in n and words in n for n in bench.search("text", "keyword").notices)


def test_a_failed_attempt_does_not_hide_which_notes_are_missing(bench: Workbench) -> None:
    bench.vault.write("A.md", "# A\n\nThis is cursed.\n")
    bench.vault.write("B.md", "# B\n\nFine.\n")
    bench.ollama.poison.add("cursed")
    bench.index()
    assert bench.rows("SELECT file_path FROM failures") == [("A.md",)]
    bench.vault.root.rename(bench.vault.root.with_name("away"))
    with pytest.raises(VaultError):
        bench.index()
    with pytest.raises(IndexMismatch):
        bench.index({"vaults": parse_vaults(str(bench.vault.root.with_name("away"))), "embedder": "local"})

    assert bench.rows("SELECT status FROM last_run") == [("failed",)]
    assert bench.rows("SELECT file_path FROM failures") == [("A.md",)]
    notices = bench.search("fine", "keyword").notices
    assert any("1 note could not be indexed" in n for n in notices)


def test_however_many_attempts_fail_the_last_good_run_stays_known(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "RUNS_KEPT", 2)
    bench.vault.write("A.md", "Text.\n")
    good = bench.index().run_id
    bench.vault.root.rename(bench.vault.root.with_name("away"))
    for _ in range(4):
        with pytest.raises(VaultError):
            bench.index()
    rows = bench.rows("SELECT run_id, status FROM index_runs ORDER BY run_id")
    assert rows[0] == (good, "ok")
    assert [status for _, status in rows[1:]] == ["failed", "failed"]


def test_an_attempt_that_cannot_start_leaves_nothing_where_there_is_no_index(
    bench: Workbench, database_url: str
) -> None:
    missing = parse_vaults(str(bench.vault.root / "missing"))
    unreachable = make_url(database_url, port=1)
    for url in (database_url, unreachable):
        with pytest.raises(VaultError, match="does not exist"):
            bench.index({"vaults": missing, "database_url": url})
    empty = Workbench(bench.vault, database_url, bench.ollama)
    assert empty.rows("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace") == []


# --- the database ------------------------------------------------------------------------------------


@pytest.fixture
def new_role(server: str) -> Iterator[Callable[[str], str]]:
    """Makes login roles without any right; the URL of a database for one."""
    made: list[str] = []

    def make(url: str) -> str:
        role = f"role_{len(made)}_{os.getpid()}"
        with psycopg.connect(server, autocommit=True) as conn:
            conn.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'se:cr@t'")
        made.append(role)
        return make_url(url, user=role, password="se:cr@t")

    yield make
    with psycopg.connect(server, autocommit=True) as conn:
        for role in made:
            conn.execute(f"DROP ROLE {role}")


def test_a_role_without_rights_is_told_what_to_ask_for(
    bench: Workbench, new_database: Callable[..., str], new_role: Callable[[str], str]
) -> None:
    fill(bench.vault, 1)
    empty = new_database()
    url = new_role(empty)
    role = psycopg.conninfo.conninfo_to_dict(url)["user"]
    with pytest.raises(DatabaseUnsuitable, match=r"permission denied for schema public.*GRANT CREATE"):
        bench.index({"database_url": url})
    with psycopg.connect(empty, autocommit=True) as conn:
        conn.execute(f"GRANT CREATE ON SCHEMA public TO {role}")
        with pytest.raises(DatabaseUnsuitable, match="superuser run in it: CREATE EXTENSION vector"):
            bench.index({"database_url": url})
        conn.execute("CREATE EXTENSION vector")
        assert bench.index({"database_url": url}).status == "ok"
        conn.execute(f"DROP OWNED BY {role} CASCADE")
    with pytest.raises(DatabaseUnsuitable, match="GRANT rag_indexer"):
        bench.index({"database_url": new_role(bench.database_url)})


def test_the_role_rag_indexer_is_enough_to_index(
    bench: Workbench, new_role: Callable[[str], str], server: str
) -> None:
    fill(bench.vault, 2)
    bench.index()
    bench.vault.write("New.md", "# New\n\nText.\n")
    url = new_role(bench.database_url)
    role = psycopg.conninfo.conninfo_to_dict(url)["user"]
    bench.execute(f"GRANT rag_indexer TO {role}")

    report = bench.index({"database_url": url})

    assert (report.status, report.notes_indexed, report.notes_unchanged) == ("ok", 1, 2)


def test_a_connection_lost_on_the_way_is_told_and_the_next_run_goes_on(bench: Workbench) -> None:
    fill(bench.vault, 12)

    def cut(call: object) -> None:
        await_first_notes(bench)
        bench.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    bench.ollama.faults += [None] * 6 + [cut]

    with pytest.raises(DatabaseUnavailable, match="was lost"):
        bench.index()

    assert 0 < len(stored_notes(bench)) < 12
    assert_whole(bench)
    assert bench.rows("SELECT status FROM last_run") == [("running",)]
    assert bench.index().status == "ok"
    assert bench.rows("SELECT status, error FROM index_runs ORDER BY run_id LIMIT 1") == [
        ("failed", "interrupted")
    ]


# --- other processes ---------------------------------------------------------------------------------


def start(bench: Workbench, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "obsidian_rag", "index", *arguments],
        env=bench.environment,
        cwd=bench.vault.root.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def hold(bench: Workbench) -> Hold:
    """Let the next embedding wait; the test decides when it goes on."""
    held = Hold()
    bench.ollama.faults.append(held)
    return held


def test_a_second_indexer_says_that_another_is_at_work(bench: Workbench) -> None:
    fill(bench.vault, 2)
    held = hold(bench)
    with start(bench) as first:
        assert held.entered.wait(60)
        with pytest.raises(IndexerBusy, match="Another indexer is at work"):
            bench.index()
        held.release.set()
        first.communicate(timeout=60)
    assert first.returncode == 0
    assert bench.index().notes_unchanged == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_run_in_order(bench: Workbench, number: signal.Signals, code: int) -> None:
    import json

    fill(bench.vault, 12)
    bench.ollama.faults += [None] * 5
    held = hold(bench)
    with start(bench, "--json", "--quiet") as process:
        assert held.entered.wait(60)
        await_first_notes(bench)
        process.send_signal(number)
        held.release.set()
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == code
    report = json.loads(stdout)
    assert report["status"] == "failed"
    assert 0 < report["notes_indexed"] < 12
    assert "Traceback" not in stderr
    assert "again" in stderr
    assert bench.rows("SELECT status, error FROM last_run") == [("failed", "stopped by a signal")]
    assert len(stored_notes(bench)) == report["notes_indexed"]
    assert_whole(bench)
    assert bench.index().status == "ok"


def test_a_killed_run_is_closed_by_the_next_one(bench: Workbench) -> None:
    fill(bench.vault, 12)
    bench.ollama.faults += [None] * 5
    held = hold(bench)
    with start(bench) as process:
        assert held.entered.wait(60)
        assert any("under way" in notice for notice in bench.search("says").notices)
        assert not read_status(bench)["cut_short"]
        assert "Last run: running" in render_status(read_status(bench))
        missing = parse_vaults(str(bench.vault.root / "missing"))
        with pytest.raises(VaultError):  # which must not disturb the run at work
            bench.index({"vaults": missing})
        assert bench.rows("SELECT status FROM index_runs") == [("running",)]
        process.kill()
        held.release.set()
        process.communicate(timeout=60)
    await_end_of_sessions(bench)
    assert_whole(bench)
    assert any("was cut short; some notes may be missing" in n for n in bench.search("says").notices)
    assert read_status(bench)["cut_short"]
    assert "Last run: cut short" in render_status(read_status(bench))

    assert bench.index().status == "ok"
    assert bench.rows("SELECT status, error FROM index_runs ORDER BY run_id") == [
        ("failed", "interrupted"), ("ok", None),
    ]  # fmt: skip
    assert not any("cut short" in notice for notice in bench.search("says").notices)
    assert not read_status(bench)["cut_short"]


def test_a_run_at_work_on_an_index_that_is_whole_is_not_told_to_who_searches(bench: Workbench) -> None:
    bench.vault.write("A.md", "# A\n\nText.\n")
    bench.index()
    bench.vault.write("B.md", "# B\n\nMore.\n")
    held = hold(bench)
    with start(bench) as process:
        assert held.entered.wait(60)
        assert bench.search("text", "keyword").notices == ()
        assert read_status(bench)["last_run"]["status"] == "running"
        held.release.set()
        process.communicate(timeout=60)


def read_status(bench: Workbench) -> dict[str, Any]:
    with connect(bench.database_url, read_only=True) as conn:
        return load_status(conn)


def await_end_of_sessions(bench: Workbench) -> None:
    """The server sees the end of a killed client a moment later; its lock is then free."""
    with psycopg.connect(bench.database_url, autocommit=True) as conn:
        conn.execute("SET lock_timeout = '60s'")
        conn.execute("SELECT pg_advisory_lock(%s)", (ledger.INDEXER_LOCK,))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("closed", ["vault", "vault/sub", "."])
def test_a_vault_that_may_not_be_read_is_told(bench: Workbench, closed: str) -> None:
    """As root everything may be read, so another user looks."""
    from obsidian_rag.config import parse_vaults

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        vault = VaultFolder(Path(folder) / "vault")
        vault.write("sub/Closed.md", "Text.\n")
        vault.write("Open.md", "Text.\n")
        (Path(folder) / closed).chmod(0o700)
        child = os.fork()
        if child == 0:
            outcome = 1
            try:
                os.setuid(65534)
                report = bench.index({"vaults": parse_vaults(str(vault.root))}, dry_run=True)
                if [f.file_path for f in report.failures] == ["sub"] and report.notes_indexed == 1:
                    outcome = 40
            except VaultError as exc:
                outcome = 41 if "permission" in str(exc).lower() else 2
            finally:
                os._exit(outcome)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        (Path(folder) / closed).chmod(0o755)
    assert code == (40 if closed == "vault/sub" else 41)
