"""`index --watch`: notes are edited, moved and taken away while the real program watches them."""

from __future__ import annotations

import json
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
import pytest
from conftest import VaultFolder, Workbench
from fault_bench import wait_until
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from raw_server import ROOT
from terminals import Terminal
from watchfiles import Change

from obsidian_rag import ledger
from obsidian_rag.config import Settings, Vault
from obsidian_rag.errors import DatabaseUnsuitable, EmbedderUnavailable, IndexerBusy, SettingsError
from obsidian_rag.index_watch import summarize
from obsidian_rag.models import RunReport
from obsidian_rag.vault_changes import VaultChanges, concerns
from obsidian_rag.watching import FULL_SECONDS, JUMP_SECONDS, MOST_PAUSE, Attempts, Rhythm, watch_vaults

PATIENCE = 120  # seconds until a test gives up


class Watcher:
    """The program `obsidian-rag index --watch --json`, with the reports it prints."""

    def __init__(self, bench: Workbench, folder: Path, *options: str) -> None:
        self._errors = (folder / "watch-stderr.txt").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "obsidian_rag", "index", "--watch", "--json", *options],
            env=bench.environment | {"PYTHONPATH": str(ROOT)},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._reports: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()

    @property
    def stderr(self) -> str:
        return Path(self._errors.name).read_text(encoding="utf-8")

    def next_report(self) -> dict[str, Any]:
        """The report of the next run."""
        try:
            return self._reports.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"No run within {PATIENCE} s: {self.stderr}") from None

    def next_change(self) -> dict[str, Any]:
        """The report of the next run that changed something."""
        while True:
            report = self.next_report()
            if report["status"] != "failed" and sum(
                report[f"notes_{step}"] for step in ("indexed", "renamed", "deleted")
            ):
                return report

    def wait_for(self, words: str) -> None:
        wait_until(lambda: words in self.stderr, f"it says: {words}")

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._reports.put(json.loads(line))


@pytest.fixture
def watched(bench: Workbench) -> Workbench:
    bench.vault.write("Garden/Roses.md", "# Roses\n\nPrune in March.\n")
    bench.vault.write("Garden/Beds.md", "# Beds\n\nNext to the [[Roses]].\n")
    return bench


@pytest.fixture
def watcher(watched: Workbench, tmp_path: Path) -> Iterator[Watcher]:
    """A watcher that has made its first run."""
    with Watcher(watched, tmp_path) as watcher:
        assert watcher.next_report()["notes_indexed"] == 2
        yield watcher


def test_an_edit_is_found_by_a_search(watched: Workbench, watcher: Watcher) -> None:
    watched.vault.write("Garden/Roses.md", "# Roses\n\nThe gardener came from Valparaiso.\n")
    report = watcher.next_change()
    assert (report["notes_indexed"], report["notes_unchanged"]) == (1, 1)
    assert watched.found("Valparaiso", "keyword") == ["Garden/Roses.md"]
    watcher.wait_for("Notes: 1 indexed; 1 text embedded")


def test_a_new_and_a_deleted_note_are_seen(watched: Workbench, watcher: Watcher) -> None:
    watched.vault.write("New/Deep/Tulips.MD", "Bulbs in autumn.\n")
    assert watcher.next_change()["notes_indexed"] == 1
    watched.vault.delete("New/Deep/Tulips.MD")
    assert watcher.next_change()["notes_deleted"] == 1


def test_a_renamed_folder_keeps_its_vectors_and_is_watched_further(
    watched: Workbench, watcher: Watcher
) -> None:
    watched.vault.move("Garden", "Yard")
    report = watcher.next_change()
    assert (report["notes_renamed"], report["notes_deleted"], report["chunks_embedded"]) == (2, 0, 0)
    watched.vault.write("Yard/Roses.md", "# Roses\n\nNow of Bukhara.\n")
    assert watcher.next_change()["notes_indexed"] == 1
    assert watched.found("Bukhara", "keyword") == ["Yard/Roses.md"]


def test_a_burst_of_changes_is_one_run_or_few(watched: Workbench, watcher: Watcher, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.mkdir()
    for number in range(60):
        (ready / f"Note {number}.md").write_text(f"Number {number}.\n")
    shutil.copytree(ready, watched.vault.root / "Arrived")
    sizes = []
    while sum(sizes) < 60:
        sizes.append(watcher.next_change()["notes_indexed"])
    assert sum(sizes) == 60
    assert len(sizes) < 10


def test_files_that_the_vault_comes_to_exclude_leave_the_index(watched: Workbench, watcher: Watcher) -> None:
    watched.vault.write(".obsidian/app.json", json.dumps({"userIgnoreFilters": ["Garden/Beds"]}))
    assert watcher.next_change()["notes_deleted"] == 1
    assert watched.rows("SELECT file_path FROM notes") == [("Garden/Roses.md",)]


def test_a_vault_that_vanishes_is_waited_for_and_loses_nothing(
    watched: Workbench, watcher: Watcher, tmp_path: Path
) -> None:
    root = watched.vault.root
    root.rename(tmp_path / "elsewhere")
    watcher.wait_for(f"{root} is not there: the index stays as it is until it comes back.")
    assert len(watched.rows("SELECT FROM notes")) == 2
    (tmp_path / "elsewhere" / "Garden" / "Roses.md").write_text("Back from Ushuaia.\n")
    (tmp_path / "elsewhere").rename(root)
    watcher.wait_for(f"{root} is there again.")
    report = watcher.next_change()
    assert (report["notes_indexed"], report["notes_unchanged"], report["notes_deleted"]) == (1, 1, 0)


def test_an_empty_mount_point_in_the_place_of_a_vault_loses_nothing(
    watched: Workbench, watcher: Watcher, tmp_path: Path
) -> None:
    """As an unmounted share looks."""
    root = watched.vault.root
    root.rename(tmp_path / "elsewhere")
    root.mkdir()
    watcher.wait_for("There is no note")
    assert len(watched.rows("SELECT FROM notes")) == 2
    root.rmdir()
    (tmp_path / "elsewhere").rename(root)
    watcher.wait_for("up to date again")
    watched.vault.write("Garden/Roses.md", "Back from Ushuaia.\n")
    assert watcher.next_change()["notes_deleted"] == 0


def test_another_indexer_is_waited_for(watched: Workbench, watcher: Watcher) -> None:
    with psycopg.connect(watched.database_url, autocommit=True) as conn:
        assert ledger.take_indexer_lock(conn)
        watched.vault.write("Garden/Roses.md", "From Samarkand.\n")
        watcher.wait_for("Another indexer is at work")
        assert watched.rows("SELECT count(*) FROM documents WHERE content LIKE '%%Samarkand%%'") == [(0,)]
    assert watcher.next_change()["notes_indexed"] == 1


def test_an_indexer_beside_it_finds_the_lock_free(watched: Workbench, watcher: Watcher) -> None:
    watcher.wait_for("Watching for changes")
    assert watched.index().status == "ok"


def allow_connections(server: str, bench: Workbench, allowed: bool) -> None:
    name = sql.Identifier(str(conninfo_to_dict(bench.database_url)["dbname"]))
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}").format(name, sql.Literal(allowed)))


def test_a_database_that_takes_no_connection_is_waited_for(
    watched: Workbench, watcher: Watcher, server: str
) -> None:
    allow_connections(server, watched, False)
    watched.vault.write("Garden/Roses.md", "From Samarkand.\n")
    failed = watcher.next_report()
    assert failed["status"] == "failed"
    assert "cannot be reached" in failed["error"]
    watcher.wait_for("This is tried again until it succeeds.")
    allow_connections(server, watched, True)
    assert watcher.next_change()["notes_indexed"] == 1
    watcher.wait_for("The index is up to date again.")


def test_an_embedder_that_is_down_is_waited_for(watched: Workbench, watcher: Watcher) -> None:
    watched.ollama.stop()
    watched.vault.write("Garden/Roses.md", "From Samarkand.\n")
    watcher.wait_for("ollama serve")
    watched.ollama.start()
    assert watcher.next_change()["notes_indexed"] == 1
    assert watched.found("Samarkand") != []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(watcher: Watcher, number: signal.Signals) -> None:
    watcher.wait_for("Watching for changes")
    assert watcher.end(number) == 128 + number
    assert "Traceback" not in watcher.stderr


def test_ctrl_c_at_a_terminal_is_how_watching_ends(watched: Workbench, tmp_path: Path) -> None:
    with Terminal(["index", "--watch"], watched.environment, tmp_path) as terminal:
        terminal.wait_for("Watching for changes")
        terminal.type("\x03")
        assert terminal.finish() == 130
    assert "Stopped watching." in terminal.text and "Error" not in terminal.text


def test_what_needs_a_person_ends_it_with_a_line_of_json(watched: Workbench, tmp_path: Path) -> None:
    watched.index()
    with Watcher(watched, tmp_path, "--fts-config", "nonsense") as watcher:
        report = watcher.next_report()
        assert report["status"] == "failed"
        assert "nonsense" in report["error"]
        assert watcher.process.wait(PATIENCE) == 2


def test_options_hold_for_the_first_run_only(watched: Workbench, tmp_path: Path) -> None:
    watched.index()
    with Watcher(watched, tmp_path, "--full") as watcher:
        assert watcher.next_report()["notes_indexed"] == 2
        watched.vault.write("Garden/Roses.md", "From Samarkand.\n")
        assert watcher.next_change()["notes_indexed"] == 1


def test_it_cannot_be_a_dry_run(watched: Workbench, tmp_path: Path) -> None:
    with Watcher(watched, tmp_path, "--dry-run") as watcher:
        assert "--dry-run" in watcher.next_report()["error"]
        assert watcher.process.wait(PATIENCE) == 2


@pytest.mark.parametrize(
    ("change", "path", "expected"),
    [
        (Change.modified, "/v/a.md", True),
        (Change.deleted, "/v/b/A.MD", True),
        (Change.modified, "/v/.obsidian/app.json", True),
        (Change.added, "/v/.config/app.json", True),
        (Change.modified, "/v/.obsidian/workspace.json", False),
        (Change.added, "/v/.git/index.lock", False),
        (Change.added, "/v/.trash/a.md", False),
        (Change.added, "/v/b/.#a.md", False),
        (Change.modified, "/v/b/picture.png", False),
        (Change.added, "/v/b/picture.png", True),
        (Change.deleted, "/v/folder", True),
        (Change.added, "/v/Release 1.2", True),
        (Change.modified, "/elsewhere/a.md", True),
    ],
)
def test_only_what_the_index_depends_on_makes_a_run(change: Change, path: str, expected: bool) -> None:
    assert concerns(change, path, [Path("/v")]) is expected


def test_a_vault_below_a_folder_with_a_dot_is_watched() -> None:
    assert concerns(Change.modified, "/home/.notes/v/a.md", [Path("/home/.notes/v")])


def test_a_vault_named_by_a_symbolic_link_is_watched(tmp_path: Path) -> None:
    (tmp_path / ".real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / ".real")
    with VaultChanges([Vault(link)]) as changes:
        changes.forget()
        (tmp_path / ".real" / "a.md").write_text("Words.\n")
        wait_until(lambda: changes.wait(1), "the change is told")


def test_what_the_system_does_not_tell_of_is_looked_for(
    vault: VaultFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr("watchfiles.watch", fail)
    monkeypatch.setattr("obsidian_rag.watching.BLIND_SECONDS", 0.05)
    said: list[str] = []
    with pytest.raises(SettingsError, match="enough"):
        watch_vaults(
            Settings(vaults=(Vault(vault.root),)),
            fail_with(None, None, None, SettingsError("enough")),
            said.append,
        )
    assert len(said) == 1
    assert "OS file watch limit reached" in said[0]
    assert "fs.inotify.max_user_watches" in said[0]


def test_all_is_compared_every_hour_and_watched_anew_after_sleep() -> None:
    wall, steady = 1_000_000.0, 0.0
    rhythm = Rhythm(lambda: wall, lambda: steady)
    steady += FULL_SECONDS - 1
    wall += FULL_SECONDS - 1
    assert not rhythm.is_due(FULL_SECONDS)
    steady += 1
    wall += 1
    assert rhythm.is_due(FULL_SECONDS)
    assert not rhythm.has_jumped()
    rhythm.start_anew()
    assert not rhythm.is_due(FULL_SECONDS)
    wall += JUMP_SECONDS + 1
    assert rhythm.has_jumped()
    rhythm.start_anew()
    assert not rhythm.has_jumped()


def fail_with(*errors: Exception | None) -> Callable[[], None]:
    """Work that fails with each of these in turn; None is no failure."""
    waiting = list(errors)

    def work() -> None:
        error = waiting.pop(0)
        if error is not None:
            raise error

    return work


def test_what_may_pass_is_tried_again_after_growing_pauses_and_said_once() -> None:
    said: list[str] = []
    down = EmbedderUnavailable("Nothing answers", "Start it.")
    attempts = Attempts(fail_with(*[down] * 9, None), said.append)
    pauses = []
    for _ in range(10):
        attempts.make()
        pauses.append(attempts.pause)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 32, MOST_PAUSE, MOST_PAUSE, None]
    assert said == [
        "Nothing answers. Start it. This is tried again until it succeeds.",
        "The index is up to date again.",
    ]


def test_a_busy_index_is_asked_again_soon() -> None:
    attempts = Attempts(fail_with(*[IndexerBusy("Another indexer is at work")] * 9), lambda text: None)
    for _ in range(9):
        attempts.make()
    assert attempts.pause == 4


def test_what_needs_a_person_is_raised() -> None:
    attempts = Attempts(fail_with(DatabaseUnsuitable("Too old")), lambda text: None)
    with pytest.raises(DatabaseUnsuitable):
        attempts.make()


def test_without_a_vault_it_says_so() -> None:
    with pytest.raises(Exception, match="No vault is named"):
        watch_vaults(Settings(), fail_with(), lambda text: None)


def test_a_run_is_told_in_a_line_and_nothing_of_one_that_changed_nothing() -> None:
    report = RunReport(1, "ok", notes_indexed=2, notes_deleted=1, chunks_embedded=3, seconds=0.84)
    assert summarize(report) == "Notes: 2 indexed, 1 deleted; 3 texts embedded, 0.8 s."
    assert summarize(RunReport(1, "ok", notes_seen=9, notes_unchanged=9)) == ""


def test_a_new_folder_of_settings_is_looked_into(tmp_path: Path) -> None:
    """What was in it before it was watched is not told of."""
    (tmp_path / ".obsidian").mkdir()
    (tmp_path / ".hidden.md").touch()
    assert concerns(Change.added, str(tmp_path / ".obsidian"), [tmp_path])
    assert not concerns(Change.added, str(tmp_path / ".hidden.md"), [tmp_path])
    assert not concerns(Change.modified, str(tmp_path / ".obsidian"), [tmp_path])
