"""What `status` tells of the vault and the tables, and what a search says of an index that fell behind."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import VaultFolder, Workbench

from obsidian_rag import freshness
from obsidian_rag.cli import cli
from obsidian_rag.config import parse_vaults
from obsidian_rag.drift import load_full_status
from obsidian_rag.errors import IndexMismatch
from obsidian_rag.freshness import EditWatch, find_newest_edit
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.render import render_status, show_age
from obsidian_rag.search.pipeline import search
from obsidian_rag.search.query import make_request


@pytest.fixture
def indexed(bench: Workbench) -> Workbench:
    bench.vault.write("A.md", "# A\n\nTo [[B]].\n")
    bench.vault.write("B.md", "# B\n\nText.\n")
    bench.index()
    return bench


def read_status(bench: Workbench, **settings: Any) -> tuple[dict[str, Any], str]:
    """The status as JSON and as text."""
    asked = replace(bench.settings, **settings)
    reader = IndexReader(asked, lambda text: None)
    try:
        status = reader.run(lambda conn: load_full_status(conn, asked))
    finally:
        reader.close()
    return json.loads(json.dumps(status)), render_status(status)


def test_the_status_of_an_index_in_order_says_so(indexed: Workbench) -> None:
    status, text = read_status(indexed)
    assert status["drift"] == []
    assert (status["disk"]["notes"], status["disk"]["missing"]) == (2, 0)
    assert 0 <= status["last_good_run"]["age_seconds"] < 600
    assert "On disk:  2 notes: all are in the index as they are" in text
    assert "Tables:   agree with one another" in text
    assert "Last good run: " in text


def test_the_status_tells_times_by_the_clock_on_the_wall_and_in_json_exactly(
    indexed: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        status, text = read_status(indexed)
    finally:
        monkeypatch.undo()
        time.tzset()
    started = datetime.fromisoformat(status["last_run"]["started_at"])
    assert started.tzinfo is not None
    there = started.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert re.search(rf"Last run: ok, started {there:%Y-%m-%d %H:%M}, \d+ (seconds|minutes) ago\n", text)
    assert re.search(r"Last good run: \d{4}-\d\d-\d\d \d\d:\d\d, \d+ (seconds|minutes) ago\n", text)
    assert "T" not in "".join(re.findall(r"\d\S+\d", text))


def test_the_status_counts_and_names_notes_that_are_not_in_the_index(indexed: Workbench) -> None:
    for number in range(7):
        indexed.vault.write(f"New {number}.md", f"{number}\n")
    indexed.vault.write("B.md", "# B\n\nOther text.\n")
    indexed.vault.delete("A.md")
    status, text = read_status(indexed)
    disk = status["disk"]
    assert (disk["missing"], disk["changed"], disk["gone"], disk["renamed"]) == (7, 1, 1, 0)
    assert disk["examples"]["missing"] == [f"New {n}.md" for n in range(5)]
    assert (
        "8 notes: 7 are not in the index (New 0.md, New 1.md, New 2.md, New 3.md, New 4.md, …);"
        " 1 changed since (B.md); 1 of the index is no longer there (A.md)" in text
    )
    assert "Run: obsidian-rag index" in text
    indexed.index()
    assert read_status(indexed)[0]["disk"]["missing"] == 0


def test_notes_that_an_update_reads_anew_are_not_called_changed(indexed: Workbench) -> None:
    indexed.execute("UPDATE notes SET parser_version = parser_version - 1")
    status, text = read_status(indexed)

    assert (status["disk"]["reread"], status["disk"]["changed"]) == (2, 0)
    assert "2 are to be read anew (A.md, B.md)" in text and "Run: obsidian-rag index" in text
    report = indexed.index()
    assert (report.notes_indexed, report.chunks_embedded) == (2, 0)
    assert read_status(indexed)[0]["disk"]["reread"] == 0


def test_notes_that_failed_are_not_counted_as_forgotten(indexed: Workbench) -> None:
    indexed.vault.write("Bad.md", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)
    indexed.index()
    status, text = read_status(indexed)
    assert (status["disk"]["missing"], status["disk"]["failed"]) == (0, 1)
    assert "FAILED Bad.md (read)" in text


def test_the_status_tells_drift_between_tables_with_its_mend(indexed: Workbench) -> None:
    indexed.execute("DELETE FROM postings WHERE note_id = (SELECT id FROM notes WHERE file_path = 'B.md')")
    status, text = read_status(indexed)
    assert {found["what"] for found in status["drift"]} == {
        "chunks that no word finds", "sums of words that are wrong",
    }  # fmt: skip
    assert "DRIFT chunks that no word finds: 1. Run: obsidian-rag index --full" in text


def test_a_vault_that_cannot_be_looked_at_leaves_the_rest_of_the_status(
    indexed: Workbench, tmp_path: Path
) -> None:
    root = indexed.vault.root
    VaultFolder(tmp_path / "other").write("C.md", "c")
    status, text = read_status(indexed, vaults=parse_vaults(str(tmp_path / "other")))
    assert "holds the index of" in status["disk"]["error"]
    assert "On disk:  cannot be compared: " in text
    root.rename(root.with_name("away"))
    status, text = read_status(indexed)
    assert "does not exist" in status["disk"]["error"]
    assert status["notes"] == 2
    assert "agree" in text


def test_the_vaults_of_the_index_stand_in_for_settings_that_name_none(bench: Workbench) -> None:
    work = VaultFolder(bench.vault.root.parent / "work")
    work.write("W.md", "w")
    bench.vault.write("A.md", "a")
    assert read_status(bench, vaults=())[0]["disk"]["error"].startswith("No vault is named")
    bench.index({"vaults": parse_vaults(os.pathsep.join([str(bench.vault.root), str(work.root)]))})
    work.write("New.md", "new")
    disk = read_status(bench, vaults=())[0]["disk"]
    assert disk["examples"]["missing"] == ["work/New.md"]


def test_the_status_of_a_first_run_that_was_killed_knows_no_good_one(indexed: Workbench) -> None:
    indexed.execute("UPDATE index_runs SET status = 'running', finished_at = NULL")
    status, text = read_status(indexed)
    assert status["last_good_run"] is None
    assert "Last run: cut short" in text
    assert "Last good run: none yet" in text


def test_the_command_prints_the_whole_status(indexed: Workbench) -> None:
    done = CliRunner().invoke(cli, ["status", "--json"], env=indexed.environment)
    assert done.exit_code == 0, done.output
    status = json.loads(done.stdout)
    assert status["disk"]["vaults"] == [str(indexed.vault.root)]
    assert status["drift"] == []


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 seconds"), (119, "119 seconds"), (120, "2 minutes"), (7200, "2 hours"), (864000, "10 days")],
)
def test_an_age_is_shown_in_its_largest_unit(seconds: float, shown: str) -> None:
    assert show_age(seconds) == shown


# --- what a search says ------------------------------------------------------------------------------


def age_index(bench: Workbench, hours: float) -> None:
    """Let the last run have been so many hours ago, and the notes have been written before it."""
    bench.execute(
        "UPDATE index_runs SET started_at = now() - %s * interval '1 hour' - interval '1 minute',"
        " finished_at = now() - %s * interval '1 hour'",
        hours,
        hours,
    )


def edit_notices(bench: Workbench, **settings: Any) -> list[str]:
    reader = IndexReader(replace(bench.settings, **settings), lambda text: None)
    try:
        notices = search(reader, make_request("text", "keyword")).notices
    finally:
        reader.close()
    return [notice for notice in notices if "edited" in notice]


def test_edits_are_told_once_a_run_is_overdue_and_until_it_was_made(indexed: Workbench) -> None:
    age_index(indexed, 20)
    assert edit_notices(indexed) == []  # tonight's run will bring them in
    age_index(indexed, 50)
    (notice,) = edit_notices(indexed)
    assert "50 hours ago" in notice
    assert "Run: obsidian-rag index" in notice
    assert edit_notices(indexed, vaults=()) == [notice]  # where the index says that its vault is
    indexed.index()
    age_index(indexed, 0)
    assert edit_notices(indexed) == []


def test_an_old_index_of_notes_that_nobody_edited_is_not_stale(
    indexed: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    age_index(indexed, 50)
    ((started,),) = indexed.rows("SELECT extract(epoch FROM started_at)::float8 FROM index_runs")
    monkeypatch.setattr(freshness, "find_newest_edit", lambda roots: started - 1)
    assert edit_notices(indexed) == []
    monkeypatch.setattr(freshness, "find_newest_edit", lambda roots: started + 1)
    assert len(edit_notices(indexed)) == 1


def test_a_vault_that_is_not_on_this_machine_is_no_notice(indexed: Workbench) -> None:
    age_index(indexed, 50)
    assert edit_notices(indexed, vaults=parse_vaults("/nowhere/at/all")) == []


def test_the_newest_edit_is_that_of_a_note_and_not_to_come(vault: VaultFolder) -> None:
    assert find_newest_edit([vault.root]) is None
    notes = [vault.write("A.md", "a"), vault.write("Sub/B.MD", "b")]
    newest = max(max(note.stat().st_mtime, note.stat().st_ctime) for note in notes)
    for other in (".obsidian/workspace.md", ".hidden.md", "Sub/picture.png"):
        vault.write(other, "x")
    (vault.root / "Dead.md").symlink_to("nowhere")
    assert find_newest_edit([vault.root, vault.root / "none"]) == newest
    assert find_newest_edit([vault.root], clock=lambda: newest - 1e9) is None
    os.utime(notes[0], (newest + 1e6, newest + 1e6))
    later = find_newest_edit([vault.root])
    assert later is not None
    assert later < newest + 1e6


def test_a_vault_that_hangs_holds_no_search_up_and_is_looked_at_once_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release, looks = threading.Event(), []

    def hang(roots: Sequence[Path]) -> float:
        looks.append(roots)
        release.wait(60)
        return 7.0

    monkeypatch.setattr(freshness, "find_newest_edit", hang)
    watch = EditWatch(patience=0.01)
    assert [watch.find_newest([Path("/x")]) for _ in range(3)] == [None, None, None]
    assert len(looks) == 1
    release.set()
    (walker,) = [thread for thread in threading.enumerate() if thread.name == "edit-watch"]
    walker.join(60)
    assert watch.find_newest([Path("/x")]) == 7.0
    assert len(looks) == 1  # which holds for a while


def test_an_index_of_another_embedder_is_told_by_who_searches_it(indexed: Workbench) -> None:
    reader = IndexReader(replace(indexed.settings, embed_model="bge-m3"), lambda text: None)
    try:
        notices = search(reader, make_request("text")).notices
        with pytest.raises(IndexMismatch, match="cannot be mixed"):
            search(reader, make_request("text", "vector"))
    finally:
        reader.close()
    assert any("bge-m3" in notice and "--reembed" in notice for notice in notices)
