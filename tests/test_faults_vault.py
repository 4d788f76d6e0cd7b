"""A vault that vanishes, changes or cannot be read while it is indexed: nothing is deleted that may come
back, nothing is embedded again, and the vault itself is only ever read.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import VaultFolder, Workbench
from fault_bench import (
    NewBench,
    assert_as_undisturbed,
    find_notes,
    open_server,
    read_status,
    write_notes,
)
from ollama_double import Hold

from obsidian_rag import vault
from obsidian_rag.config import parse_vaults
from obsidian_rag.errors import VaultError
from obsidian_rag.models import RunReport
from obsidian_rag.render import render_status


@contextmanager
def while_embedding(bench: Workbench, after: int = 1) -> Iterator[Callable[[], RunReport | BaseException]]:
    """A run in a thread that waits for the embedder meanwhile; what is given ends it: report or error."""
    held = Hold()
    bench.ollama.faults += [None] * after + [held]
    outcome: list[RunReport | BaseException] = []

    def run() -> None:
        try:
            outcome.append(bench.index())
        except BaseException as exc:
            outcome.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    assert held.entered.wait(60)

    def finish() -> RunReport | BaseException:
        held.release.set()
        thread.join(120)
        return outcome[0]

    try:
        yield finish
    finally:
        held.release.set()
        thread.join(120)


# --- vanishing ---------------------------------------------------------------------------------------


def leave(root: Path) -> None:
    root.rename(root.with_name("away"))


def leave_an_empty_mount_point(root: Path) -> None:
    leave(root)
    root.mkdir()


@pytest.mark.parametrize("vanish", [leave, leave_an_empty_mount_point])
def test_a_vault_that_vanishes_while_its_notes_are_read_loses_none(
    bench: Workbench, new_bench: NewBench, two_a_round: None, vanish: Callable[[Path], None]
) -> None:
    write_notes(bench.vault, 8)
    bench.index()
    before = bench.tables()
    write_notes(bench.vault, 8, "tells")
    bench.vault.delete("Note 07.md")
    root = bench.vault.root

    with while_embedding(bench) as finish:
        vanish(root)
        outcome = finish()

    assert isinstance(outcome, VaultError), outcome
    assert "vanished" in outcome.message and "Mount it again" in outcome.mend
    assert find_notes(bench) == [f"Note {number:02}.md" for number in range(8)]
    stored = bench.rows("SELECT count(*) FROM documents WHERE content LIKE '%%says%%'")[0][0]
    assert 0 < stored < 16, "some edits were read before it vanished"
    assert bench.rows("SELECT status, error LIKE '%%vanished%%' FROM last_run") == [("failed", True)]
    assert bench.tables()["notes"] != before["notes"]

    if root.exists():
        root.rmdir()
    root.with_name("away").rename(root)
    bench.ollama.forget()
    assert bench.index().status == "ok"
    assert_as_undisturbed(bench, new_bench)


def test_a_vault_that_vanishes_while_it_is_walked_is_an_error(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("a", "b", "c"):
        bench.vault.write(f"{folder}/Note {folder}.md", f"# {folder}\n\nText.\n")
    bench.index()
    before = bench.tables()
    original = os.scandir
    away = bench.vault.root.with_name("away")

    def scan(path: Path) -> Any:
        if Path(path) == bench.vault.root / "b":
            bench.vault.root.rename(away)
            bench.vault.root.mkdir()
        return original(path)

    monkeypatch.setattr(os, "scandir", scan)
    with pytest.raises(VaultError, match="vanished while it was read"):
        bench.index()
    monkeypatch.undo()
    assert bench.tables() == before


def test_what_vanishes_during_the_walk_is_deleted_only_by_a_later_run(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("a/One.md", "b/Two.md", "Three.md"):
        bench.vault.write(path, f"# {path}\n\nText.\n")
    bench.index()
    original = os.scandir

    def scan(path: Path) -> Any:
        if path == bench.vault.root / "b":
            (bench.vault.root / "b" / "Two.md").unlink()
            (bench.vault.root / "b").rmdir()
        return original(path)

    monkeypatch.setattr(os, "scandir", scan)
    report = bench.index()
    monkeypatch.undo()

    assert (report.status, report.notes_deleted) == ("ok", 0)
    assert any("1 file or folder" in w and "stays until the next run" in w for w in report.warnings)
    assert bench.index().notes_deleted == 1
    assert find_notes(bench) == ["Three.md", "a/One.md"]


def test_one_of_several_vaults_that_is_not_mounted_loses_no_note(bench: Workbench, tmp_path: Path) -> None:
    other = VaultFolder(tmp_path / "share")
    write_notes(other, 3)
    write_notes(bench.vault, 9)
    both = {"vaults": parse_vaults(f"{bench.vault.root}{os.pathsep}{other.root}")}
    bench.index(both)
    before = bench.tables()
    leave_an_empty_mount_point(other.root)

    with pytest.raises(
        VaultError, match=r"no note in .*share, of which the index holds 3; nothing was changed"
    ):
        bench.index(both)

    assert bench.tables() == before
    other.root.rmdir()
    other.root.with_name("away").rename(other.root)
    bench.ollama.forget()
    assert bench.index(both).notes_unchanged == 12
    assert bench.ollama.texts == []
    for path in other.root.iterdir():
        path.unlink()
    assert bench.index(both, allow_mass_delete=True).notes_deleted == 3


def test_an_empty_folder_that_held_many_notes_is_a_drive_that_is_not_mounted(bench: Workbench) -> None:
    for number in range(25):
        bench.vault.write(f"Drive/Note {number}.md", f"Drive says {number}.\n")
        bench.vault.write(f"Home/Note {number}.md", f"Home says {number}.\n")
    bench.vault.write("Home/Note 25.md", "Home says it too.\n")
    bench.index()
    before = bench.tables()
    drive = bench.vault.root / "Drive"
    leave_an_empty_mount_point(drive)
    away = bench.vault.root.parent / "drive"
    drive.with_name("away").rename(away)
    bench.vault.write("Home/New.md", "New.\n")

    report = bench.index()

    assert (report.status, report.notes_deleted, report.notes_indexed) == ("partial", 0, 1)
    (failure,) = report.failures
    assert (failure.file_path, "25 notes of it, which stay" in failure.error) == ("Drive", True)
    assert read_status(bench, full=True)["disk"]["gone"] == 0
    drive.rmdir()
    away.rename(drive)
    bench.vault.delete("Home/New.md")
    bench.ollama.forget()
    assert bench.index().status == "ok"
    assert (bench.tables(), bench.ollama.texts) == (before, [])

    # Notes that were moved out of the folder, or deleted with it, are not held back.
    for file in drive.iterdir():
        file.rename(bench.vault.root / "Home" / f"Moved {file.name}")
    report = bench.index()
    assert (report.status, report.notes_renamed) == ("ok", 25)
    drive.rmdir()
    for file in (bench.vault.root / "Home").glob("Moved*"):
        file.unlink()
    assert bench.index().notes_deleted == 25


def mount(folder: Path, *options: str) -> bool:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", *options, "tmpfs", folder], capture_output=True, check=False
    )
    return done.returncode == 0


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="only root can mount")
def test_a_real_mount_that_goes_and_comes_costs_nothing(bench: Workbench) -> None:
    root = bench.vault.root
    if not mount(root):
        pytest.skip("this container may not mount")
    mounted = True
    try:
        write_notes(bench.vault, 5)
        kept = root.with_name("kept")
        shutil.copytree(root, kept)
        bench.index()
        before = bench.tables()
        subprocess.run(["umount", root], check=True)
        mounted = False
        with pytest.raises(VaultError, match=r"There is no note.*mounted"):
            bench.index()
        assert bench.tables() == before
        mounted = mount(root)
        shutil.copytree(kept, root, dirs_exist_ok=True)
        bench.ollama.forget()
        assert bench.index().notes_unchanged == 5
        assert bench.ollama.texts == []
        assert bench.tables() == before
    finally:
        if mounted:
            subprocess.run(["umount", root], check=True)


def test_a_vault_that_may_not_be_read_half_way_keeps_its_notes(
    bench: Workbench, new_bench: NewBench, two_a_round: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root everything may be read: the operating system's answer is what is put in its place."""
    write_notes(bench.vault, 20)  # some are read ahead of those that are embedded, but not so many
    bench.index()
    write_notes(bench.vault, 20, "tells")
    closed = threading.Event()
    original = os.open

    def refuse(path: Any, *arguments: Any, **others: Any) -> int:
        if closed.is_set() and Path(os.fspath(path)).is_relative_to(bench.vault.root):
            raise PermissionError(13, "Permission denied")
        return original(path, *arguments, **others)

    monkeypatch.setattr(os, "open", refuse)
    with while_embedding(bench) as finish:
        closed.set()
        report = finish()
    monkeypatch.undo()

    assert isinstance(report, RunReport)
    assert report.status == "partial" and 0 < report.notes_failed < 20
    assert all("Permission denied. Check its permissions" in f.error for f in report.failures)
    assert len(find_notes(bench)) == 20
    assert any("could not be indexed" in n for n in bench.search("note 15", "keyword").notices)
    assert bench.index().status == "ok"
    assert_as_undisturbed(bench, new_bench)


# --- changing ----------------------------------------------------------------------------------------


def test_notes_that_change_while_they_are_read_end_as_they_are_on_disk(
    bench: Workbench, new_bench: NewBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each look at a file, somebody edits, renames, deletes or makes notes."""
    write_notes(bench.vault, 12)
    chance = random.Random(7)
    original = vault._read_once
    left = [20]

    def read(file: Path) -> bytes | None:
        data = original(file)
        notes = sorted(bench.vault.root.glob("*.md"))
        if left[0] and len(notes) > 4:
            left[0] -= 1
            note = chance.choice(notes)
            step = chance.randrange(4)
            if step == 0:
                note.write_text(f"Edited {left[0]}. [[Note 03]]\n", "utf-8")
            elif step == 1:
                note.rename(note.with_name(f"Renamed {left[0]}.md"))
            elif step == 2:
                note.unlink()
            else:
                bench.vault.write(f"Made {left[0]}.md", f"Made {left[0]}.\n")
        return data

    monkeypatch.setattr(vault, "_read_once", read)
    bench.index()
    write_notes(bench.vault, 12, "tells")
    left[0] = 20
    bench.index()
    monkeypatch.undo()

    assert bench.index().status == "ok"
    assert_as_undisturbed(bench, new_bench)


def test_clocks_that_jump_hide_no_edit(bench: Workbench, new_bench: NewBench) -> None:
    file = bench.vault.write("A.md", "# A\n\nText 1.\n")
    bench.index()
    number = 1
    for jump in ("365 days", "-365 days", "2 hours", "-2 hours"):
        # The last run by a clock that was ahead, or behind; then an edit that keeps the size and the time.
        bench.execute("UPDATE notes SET indexed_at = now() + %s::interval", jump)
        status = file.stat()
        number += 1
        bench.vault.write("A.md", f"# A\n\nText {number}.\n")
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert bench.index().notes_indexed == 1, jump
    for seconds in (0, 4_000_000_000):  # a file of 1970, and one of 2096
        os.utime(file, (seconds, seconds))
        assert bench.index().notes_unchanged == 1
        number += 1
        bench.vault.write("A.md", f"# A\n\nText {number}.\n")
        os.utime(file, (seconds, seconds))
        assert bench.index().notes_indexed == 1, seconds
    assert_as_undisturbed(bench, new_bench)


def test_a_last_run_in_the_future_is_told_since_its_age_tells_nothing(bench: Workbench) -> None:
    bench.vault.write("A.md", "# A\n\nText.\n")
    bench.index()
    ahead = timedelta(days=40)
    bench.execute(
        "UPDATE index_runs SET started_at = started_at + %s, finished_at = finished_at + %s", ahead, ahead
    )

    notices = bench.search("text", "keyword").notices

    assert any("40.0 days in the future" in n and "obsidian-rag index" in n for n in notices)
    assert "40 days in the future" in render_status(read_status(bench))
    assert bench.index().notes_unchanged == 1
    assert bench.search("text", "keyword").notices == ()


# --- the vault's own settings ------------------------------------------------------------------------

EXCLUDING = '{"userIgnoreFilters": ["Private/"]}'


@pytest.mark.parametrize("harm", ["", "{", "gone link", "folder", "pipe", "closed"])
def test_while_the_excluded_files_cannot_be_told_no_note_becomes_visible(
    bench: Workbench, new_bench: NewBench, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync that is at it, or a disk that fails: edits come in, what may be excluded stays out."""
    bench.vault.write("Private/Diary.md", "# Diary\n\nA secret.\n")
    bench.vault.write("Open.md", "# Open\n\nPublic.\n")
    bench.vault.write("Old name.md", "# Other\n\nSomething else.\n")
    settings = bench.vault.write(".obsidian/app.json", EXCLUDING)
    bench.index()
    assert find_notes(bench) == ["Old name.md", "Open.md"]
    settings.unlink()
    if harm == "gone link":
        settings.symlink_to("nowhere")
    elif harm == "folder":
        settings.mkdir()
    elif harm == "pipe":
        os.mkfifo(settings)
    elif harm == "closed":
        original = Path.lstat

        def refuse(path: Path) -> os.stat_result:
            if path == settings:
                raise PermissionError(13, "Permission denied", str(path))
            return original(path)

        monkeypatch.setattr(Path, "lstat", refuse)
    else:
        settings.write_text(harm)
    bench.vault.write("Open.md", "# Open\n\nPublic, and edited.\n")
    bench.vault.move("Old name.md", "New name.md")
    bench.ollama.forget()

    report = bench.index()

    assert (report.status, report.notes_indexed, report.notes_deleted) == ("partial", 1, 0)
    assert [f.file_path for f in report.failures] == [".obsidian/app.json"]
    assert any("2 notes of" in w and "left out until it can be told" in w for w in report.warnings)
    assert find_notes(bench) == ["Old name.md", "Open.md"]
    assert not any("secret" in text.lower() for text in bench.ollama.texts)
    assert "Private/Diary.md" not in bench.found("secret diary")
    assert any("could not be indexed" in notice for notice in bench.search("public").notices)
    assert read_status(bench, full=True)["disk"]["missing"] == 0

    monkeypatch.undo()
    settings.rmdir() if harm == "folder" else settings.unlink(missing_ok=True)
    settings.write_text(EXCLUDING)
    report = bench.index()
    assert (report.status, report.notes_renamed) == ("ok", 1)
    assert_as_undisturbed(bench, new_bench)


def test_a_first_run_that_cannot_tell_the_excluded_files_says_so_and_indexes_nothing(
    bench: Workbench,
) -> None:
    bench.vault.write("Private/Diary.md", "# Diary\n\nA secret.\n")
    bench.vault.write(".obsidian/app.json", "{")
    report = bench.index()
    assert (report.status, report.notes_indexed) == ("partial", 0)
    assert "Mend them in Obsidian" in report.failures[0].error
    assert bench.ollama.texts == []


def test_filters_that_only_javascript_knows_exclude_as_well(bench: Workbench) -> None:
    bench.vault.write("2024/Diary.md", "A secret.\n")
    bench.vault.write("Open.md", "Public.\n")
    bench.vault.write(".obsidian/app.json", '{"userIgnoreFilters": ["/(?<=^\\\\d+\\\\/)diary/"]}')
    assert bench.index().status == "ok"
    assert find_notes(bench) == ["Open.md"]


# --- only read ---------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="by the kernel's own watch, which Linux has")
def test_nothing_is_ever_written_into_a_vault(bench: Workbench, tmp_path: Path) -> None:
    """Every command and the server, watched by the kernel: no file is made, opened to be written, changed in
    its modes, moved or deleted."""
    write_notes(bench.vault, 3)
    bench.vault.write(".obsidian/app.json", "{}")
    bench.vault.write("sub/Deep.md", "# Deep\n\nText.\n")
    with watch(bench.vault.root) as events:
        for options in ({"dry_run": True}, {}, {"full": True}, {"reembed": True}):
            assert bench.index(**options).status == "ok"
        assert read_status(bench, full=True)["disk"]["missing"] == 0
        done = subprocess.run(
            [sys.executable, "-m", "obsidian_rag", "doctor"],
            env=bench.environment,
            cwd=tmp_path,
            capture_output=True,
            timeout=120,
        )
        assert done.returncode in (0, 1), done.stderr
        with open_server(bench, tmp_path / "server") as server:
            assert server.call("search_notes", query="note")["structuredContent"]["results"]
            server.end_input()
            assert server.finish() == 0
        assert events() == []
        bench.vault.write("Note 00.md", "Now somebody writes.\n")
        assert events(), "the watch sees what is written"


@contextmanager
def watch(root: Path) -> Iterator[Callable[[], list[str]]]:
    """Names of what was written below a folder since, by inotify."""
    import ctypes
    import struct

    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK)
    # IN_MODIFY, IN_ATTRIB, IN_CLOSE_WRITE, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE, IN_DELETE_SELF
    mask = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400
    for folder in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        assert libc.inotify_add_watch(descriptor, os.fsencode(folder), mask) >= 0

    def read() -> list[str]:
        names = []
        try:
            while data := os.read(descriptor, 65536):
                place = 0
                while place < len(data):
                    _, _, _, length = struct.unpack_from("iIII", data, place)
                    names.append(data[place + 16 : place + 16 + length].rstrip(b"\0").decode())
                    place += 16 + length
        except BlockingIOError:
            pass
        return names

    try:
        yield read
    finally:
        os.close(descriptor)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_vault_in_which_the_indexer_may_not_write_is_indexed_as_any_other(bench: Workbench) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        closed = VaultFolder(Path(folder) / "vault")
        write_notes(closed, 3)
        for path in (closed.root, *closed.root.iterdir()):
            path.chmod(0o555 if path.is_dir() else 0o444)
        other = replace(bench.settings, vaults=parse_vaults(str(closed.root)))
        child = os.fork()
        if child == 0:
            outcome = 1
            try:
                os.setuid(65534)
                report = bench.index({"vaults": other.vaults})
                outcome = 40 if (report.status, report.notes_indexed) == ("ok", 3) else 2
            finally:
                os._exit(outcome)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 40
    assert len(find_notes(bench)) == 3
