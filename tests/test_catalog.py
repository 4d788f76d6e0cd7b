"""Notes by the paths people write, topics, and the state of the index."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from conftest import VaultFolder, Workbench

from obsidian_rag.catalog import (
    Place,
    find_nearest,
    find_note,
    find_place,
    list_topics,
    load_note,
    load_status,
)
from obsidian_rag.config import parse_vaults
from obsidian_rag.errors import NoteNotFound, QueryError, SettingsError
from obsidian_rag.indexing import Options, run_indexer
from obsidian_rag.postgres import Connection, connect
from obsidian_rag.progress import SilentProgress
from obsidian_rag.render import render_status


@pytest.fixture
def conn(bench: Workbench) -> Iterator[Connection]:
    write = bench.vault.write
    write("Projects/Garden/index.md", "---\naliases: [the patch, Beet]\n---\n# Garden\n")
    write("Projects/Shed/index.md", "# Shed\n")
    write("Cafe\u0301 Größe.md", "# Coffee\n")  # decomposed, as a Mac stores it
    write("Projects/Ann.md", "# Ann\n")
    write("ann.md", "# ann\n")
    write("50% off_.md", "percent\n")
    bench.index()
    with connect(bench.database_url, read_only=True) as found:
        yield found


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("Projects/Shed/index.md", "Projects/Shed/index.md"),
        ("Projects/Shed/index", "Projects/Shed/index.md"),
        ("projects/shed/INDEX.md", "Projects/Shed/index.md"),
        ("./Projects/Shed/index.md", "Projects/Shed/index.md"),
        ("/Projects/Shed/index.md", "Projects/Shed/index.md"),
        (" Shed/index ", "Projects/Shed/index.md"),
        ("[[Shed/index#Roof|the roof]]", "Projects/Shed/index.md"),
        ("![[Shed/index]]", "Projects/Shed/index.md"),
        ("the patch", "Projects/Garden/index.md"),
        ("BEET", "Projects/Garden/index.md"),
        ("Café Größe", "Cafe\u0301 Größe.md"),
        ("CAFÉ GRÖSSE.md".replace("SS", "ß"), "Cafe\u0301 Größe.md"),
        ("ann", "ann.md"),
        ("Projects/ann", "Projects/Ann.md"),
        ("50% off_", "50% off_.md"),
    ],
)
def test_a_note_is_found_by_a_path_as_people_write_it(conn: Connection, asked: str, found: str) -> None:
    assert find_note(conn, asked) == found


def test_a_path_with_the_vaults_own_folder_is_taken_too(conn: Connection, bench: Workbench) -> None:
    root = str(bench.vault.root)
    assert find_note(conn, f"{root}/Projects/Shed/index.md") == "Projects/Shed/index.md"
    with pytest.raises(NoteNotFound):
        find_note(conn, f"{root}x/Projects/Shed/index.md")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("vault/Projects/Shed/index.md", "Projects/Shed/index.md"),
        ("VAULT/shed/index", "Projects/Shed/index.md"),
        ("obsidian://open?vault=vault&file=Projects%2FShed%2Findex", "Projects/Shed/index.md"),
        ("obsidian://open?path=Projects/Shed/index.md", "Projects/Shed/index.md"),
        ("note://Projects/Shed/index.md", "Projects/Shed/index.md"),
        ("note://50%25%20off_.md", "50% off_.md"),
        ("Projects%2FShed%2Findex.md", "Projects/Shed/index.md"),
        ("Projects\\Shed\\index.md", "Projects/Shed/index.md"),
        ("Projects/Shed/index.md#Roof", "Projects/Shed/index.md"),
        ("Projects/Shed/index.md > Shed > Roof, lines 3-9", "Projects/Shed/index.md"),
        ("Projects/Shed/index.md, lines 3-9", "Projects/Shed/index.md"),
    ],
)
def test_a_note_is_found_by_a_path_as_programs_write_it(conn: Connection, asked: str, found: str) -> None:
    assert find_note(conn, asked) == found


@pytest.mark.parametrize(
    "asked", ["note://[x", "a://", "://", "%", "%00", "%ff%fe", "note://%00", "\\", "x#.md#"]
)
def test_what_only_looks_like_such_a_path_is_no_note(conn: Connection, asked: str) -> None:
    with pytest.raises(NoteNotFound):
        find_note(conn, asked)


def test_a_url_of_one_of_several_vaults_means_the_note_of_that_vault(bench: Workbench) -> None:
    work = VaultFolder(bench.vault.root.parent / "work")
    for folder in (bench.vault, work):
        folder.write("Inbox.md", "text\n")
    both = os.pathsep.join([str(bench.vault.root), str(work.root)])
    run_indexer(replace(bench.settings, vaults=parse_vaults(both)), Options(), SilentProgress())
    with connect(bench.database_url, read_only=True) as conn:
        assert find_note(conn, "obsidian://open?vault=work&file=Inbox") == "work/Inbox.md"
        assert find_note(conn, f"{work.root}/Inbox.md") == "work/Inbox.md"
        with pytest.raises(NoteNotFound, match=r"vault/Inbox\.md, work/Inbox\.md"):
            find_note(conn, "Inbox")


def test_an_error_repeats_no_more_of_a_long_path_than_tells_it(conn: Connection) -> None:
    with pytest.raises(NoteNotFound) as caught:
        find_note(conn, "x/" * 2000)
    assert len(str(caught.value)) < 400


def test_a_note_that_is_there_but_not_indexed_is_told_apart_from_none(bench: Workbench) -> None:
    bench.vault.write(".obsidian/app.json", '{"userIgnoreFilters": ["private/"]}')
    bench.vault.write("private/Secret.md", "hidden\n")
    bench.vault.write("A.md", "See [[Secret]].\n")
    bench.vault.write("Picture.md", bytes(range(256)) * 40)
    bench.index()
    with connect(bench.database_url, read_only=True) as conn:
        with pytest.raises(NoteNotFound, match="could not be indexed"):
            find_note(conn, "Picture")
        with pytest.raises(NoteNotFound, match="Excluded files"):
            find_note(conn, "private/Secret.md")


def test_a_path_of_several_notes_names_them(conn: Connection) -> None:
    with pytest.raises(NoteNotFound) as caught:
        find_note(conn, "index")
    assert caught.value.nearest == ("Projects/Garden/index.md", "Projects/Shed/index.md")
    assert "Projects/Garden/index.md, Projects/Shed/index.md" in str(caught.value)


def test_a_part_of_a_name_is_not_taken_for_it(conn: Connection) -> None:
    for asked in ("ed/index", "inde", "%", "50_ off%", "index.mdx"):
        with pytest.raises(NoteNotFound):
            find_note(conn, asked)


@pytest.mark.parametrize("asked", ["", " ", "/", "./", "[[]]x\0", "\udc80", "a" * 5000])
def test_what_cannot_be_a_path_is_refused(conn: Connection, asked: str) -> None:
    with pytest.raises(QueryError, match="Name a note by its path"):
        find_note(conn, asked)


def test_the_nearest_paths_come_nearest_first() -> None:
    paths = ["Golf/rotella-application-plan.md", "Home/Snapraid.md", "Home/Snap.md", "Raid.md", "Other.md"]
    assert find_nearest("Snapraids", paths)[0] == "Home/Snapraid.md"
    assert find_nearest("Elsewhere/Snapraid.md", paths)[0] == "Home/Snapraid.md"
    assert find_nearest("rotella", paths) == ("Golf/rotella-application-plan.md",)
    assert find_nearest("zzz", paths) == ()
    assert len(find_nearest("a", [f"a{n}.md" for n in range(100)])) <= 5


def test_a_note_is_loaded_with_what_is_known_of_it(conn: Connection) -> None:
    note = load_note(conn, "the patch")
    assert note.content == "---\naliases: [the patch, Beet]\n---\n# Garden\n"
    assert (note.title, note.aliases) == ("index", ("the patch", "Beet"))
    shown = note.to_json()
    assert json.loads(json.dumps(shown)) == shown | {"aliases": ["the patch", "Beet"], "tags": []}
    assert shown["indexed_at"].endswith("+00:00") or "T" in shown["indexed_at"]


def test_topics_count_notes_and_chunks_by_top_level_folder(conn: Connection) -> None:
    topics = list_topics(conn)
    assert [(t.name, t.notes, t.chunks) for t in topics.topics] == [("", 3, 3), ("Projects", 3, 3)]
    assert topics.notices == ()


def test_topics_of_several_vaults_are_the_folders_of_each(
    bench: Workbench,
) -> None:
    work = VaultFolder(bench.vault.root.parent / "work")
    work.write("Meetings/2025/a.md", "a")
    work.write("Inbox.md", "i")
    bench.vault.write("Cooking/b.md", "b")
    both = os.pathsep.join([str(bench.vault.root), str(work.root)])
    run_indexer(replace(bench.settings, vaults=parse_vaults(both)), Options(), SilentProgress())

    with connect(bench.database_url, read_only=True) as conn:
        topics = list_topics(conn)

    assert [(t.name, t.notes) for t in topics.topics] == [
        ("vault/Cooking", 1),
        ("work", 1),
        ("work/Meetings", 1),
    ]


def test_the_status_can_be_printed_as_json(conn: Connection, bench: Workbench) -> None:
    status = json.loads(json.dumps(load_status(conn)))
    assert (status["notes"], status["chunks"], status["failures"]) == (6, 6, [])
    assert status["last_run"]["status"] == "ok"
    assert status["settings"]["vaults"] == [str(bench.vault.root)]
    assert status["cut_short"] is False
    assert (status["notes_with_warnings"], status["warnings"]) == (0, [])


def test_the_status_shows_warnings_of_notes_long_after_the_run_that_found_them(bench: Workbench) -> None:
    for number in range(22):
        bench.vault.write(f"Note {number:02}.md", "---\ntags: [unclosed\n---\nText.\n")
    bench.vault.write("Good.md", "Text.\n")
    found = bench.index().warnings
    assert bench.index().warnings == ()

    with connect(bench.database_url, read_only=True) as conn:
        status = json.loads(json.dumps(load_status(conn)))

    assert status["notes_with_warnings"] == 22
    assert [note["file_path"] for note in status["warnings"]] == [f"Note {n:02}.md" for n in range(20)]
    text = render_status(status)
    assert "22 notes have warnings; the first 20:" in text
    assert f"warning: {found[0]}" in text.splitlines()
    assert "Good.md" not in text


def test_the_status_before_the_first_run_that_succeeds_says_that_nothing_is_indexed(bench: Workbench) -> None:
    bench.vault.write("A.md", "Text.\n")
    for attempt in (lambda: None, lambda: bench.index({"fts_config": "klingon"})):
        with suppress(SettingsError):
            attempt()
        with connect(bench.database_url, read_only=True) as conn:
            text = render_status(load_status(conn))
        assert "Nothing is indexed yet. Run: obsidian-rag init" in text
        assert "None" not in text
    assert "Last run: failed" in text
    assert "klingon" in text


PLACES = [
    ("Projects/Shed/index.md#Roof", "Projects/Shed/index.md", "Roof"),
    ("Shed/index#Roof", "Projects/Shed/index.md", "Roof"),
    ("the patch#Beds#North", "Projects/Garden/index.md", "Beds#North"),
    ("[[Shed/index#Roof|the roof]]", "Projects/Shed/index.md", "Roof"),
    ("![[Shed/index#Roof]]", "Projects/Shed/index.md", "Roof"),
    ("[[Shed/index#Roof\\|in a table]]", "Projects/Shed/index.md", "Roof"),
    ("[[Shed/index|the shed]]", "Projects/Shed/index.md", None),
    ("[[Shed/index#^tiles]]", "Projects/Shed/index.md", "^tiles"),
    ("Shed/index#Roof#^tiles", "Projects/Shed/index.md", "^tiles"),
    ("Projects/Shed/index.md^tiles", "Projects/Shed/index.md", "^tiles"),
    ("Projects/Shed/index.md > Shed > Roof, lines 5-7", "Projects/Shed/index.md", "Shed > Roof"),
    ("Projects/Shed/index.md#Roof, lines 5-7", "Projects/Shed/index.md", "Roof"),
    ("Projects/Shed/index.md, lines 5-7", "Projects/Shed/index.md", None),
    ("Projects/Shed/index.md#", "Projects/Shed/index.md", None),
    ("note://Projects/Shed/index.md#Roof%20side", "Projects/Shed/index.md", "Roof side"),
    ("obsidian://open?vault=V&file=Projects%2FShed%2Findex%23Roof", "Projects/Shed/index.md", "Roof"),
    ("Projects/Shed/index.md%23Roof", "Projects/Shed/index.md", "Roof"),
    ("Fugue in C#.md", "Fugue in C#.md", None),
    ("fugue in c#", "Fugue in C#.md", None),
    ("Fugue in C##Subject", "Fugue in C#.md", "Subject"),
    ("[[Fugue in C##Subject]]", "Fugue in C#.md", "Subject"),
]


def test_a_heading_or_a_block_behind_a_name_is_kept(bench: Workbench) -> None:
    bench.vault.write("Projects/Garden/index.md", "---\naliases: [the patch]\n---\n# Garden\n")
    bench.vault.write("Projects/Shed/index.md", "# Shed\n")
    bench.vault.write("Fugue in C#.md", "# Subject\n")
    bench.index()
    with connect(bench.database_url, read_only=True) as conn:
        for asked, path, heading in PLACES:
            assert (asked, find_place(conn, asked)) == (asked, Place(path, heading))
            assert find_note(conn, asked) == path


def test_a_note_that_no_word_of_a_path_is_near_is_to_be_searched_for(conn: Connection) -> None:
    with pytest.raises(NoteNotFound, match=r"search_notes, .*obsidian-rag search"):
        find_note(conn, "Qqqqqqqq#Zzzzzz")
