"""Walking a vault, reading its files, decoding their bytes."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from small_vault import make_vault

from obsidian_rag import ignore_rules
from obsidian_rag import vault as module
from obsidian_rag.errors import NoteError, VaultError
from obsidian_rag.vault import decode, read_note_bytes, walk


def write(root: Path, *paths: str) -> None:
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x", encoding="utf-8")


def notes(root: Path) -> list[str]:
    return [file.path for file in walk(root).notes]


needs_permissions = pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")


def test_files_are_listed_by_path_with_size_and_times(tmp_path: Path) -> None:
    write(tmp_path, "b.md", "a/c.md", "a.md", "a b.md", "p.png", "z/v.canvas", "a/b.base")
    listing = walk(tmp_path)
    assert [file.path for file in listing.notes] == ["a b.md", "a.md", "a/c.md", "b.md"]
    assert listing.attachments == ("a/b.base", "p.png", "z/v.canvas")
    status = (tmp_path / "b.md").stat()
    found = listing.notes[-1]
    assert (found.size, found.mtime_ns, found.ctime_ns) == (1, status.st_mtime_ns, status.st_ctime_ns)
    assert (listing.failures, listing.unreadable_folders) == ((), ())


def test_any_name_the_file_system_allows_is_a_note(tmp_path: Path) -> None:
    names = [
        "line\nend.md",
        "tab\t.md",
        "quote\"'.md",
        "back\\slash.md",
        "%20.md",
        "-.md",
        "😀.md",
        " .md",
        "a..md",
    ]
    names += ["あ" * 80 + ".md", "CON.md", "#h.md", "[x].md", "a|b.md"]
    write(tmp_path, *names)
    assert notes(tmp_path) == sorted(names)
    assert all(read_note_bytes(tmp_path, name) == b"x" for name in names)


def test_a_vault_that_is_missing_or_a_file_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    for root in (tmp_path / "missing", tmp_path / "a.md"):
        with pytest.raises(VaultError, match="is not a folder"):
            walk(root)


def test_an_empty_vault_is_empty(tmp_path: Path) -> None:
    assert walk(tmp_path) == module.VaultListing()


@needs_permissions
def test_an_unreadable_folder_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "closed/b.md")
    (tmp_path / "closed").chmod(0)
    try:
        listing = walk(tmp_path)
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert [file.path for file in listing.notes] == ["a.md"]
    assert listing.unreadable_folders == ("closed",)
    assert listing.failures[0].error.startswith("The folder cannot be read: Permission denied")


def test_a_folder_that_fails_to_open_is_named_and_the_rest_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.md", "closed/b.md")
    monkeypatch.setattr(os, "scandir", refuse(os.scandir, tmp_path / "closed"))
    listing = walk(tmp_path)
    assert [file.path for file in listing.notes] == ["a.md"]
    assert listing.unreadable_folders == ("closed",)
    assert [(f.file_path, f.stage) for f in listing.failures] == [("closed", "walk")]


def test_a_vault_that_fails_to_open_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "scandir", refuse(os.scandir, tmp_path))
    with pytest.raises(VaultError, match="Permission denied"):
        walk(tmp_path)


def test_a_folder_that_is_deleted_during_the_walk_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.md", "gone/b.md", "z/c.md")
    original = os.scandir

    def scan(path: Path) -> object:
        if Path(path) == tmp_path / "z":
            (tmp_path / "gone" / "b.md").unlink()
            (tmp_path / "gone").rmdir()
        return original(path)

    monkeypatch.setattr(os, "scandir", scan)
    listing = walk(tmp_path)
    assert [file.path for file in listing.notes] == ["a.md", "z/c.md"]
    assert (listing.failures, listing.unreadable_folders) == ((), ())
    assert listing.vanished == ("gone",)


def refuse(scandir: Callable[[Path], object], folder: Path) -> Callable[[Path], object]:
    """`scandir` as the operating system would refuse it for one folder."""

    def scan(path: Path) -> object:
        if Path(path) == folder:
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    return scan


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS allows no such names")
def test_names_that_are_not_utf_8_are_failures(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    for name in (b"b\xff.md", b"c\xff.png"):
        with open(os.path.join(os.fsencode(tmp_path), name), "wb"):  # noqa: PTH118, PTH123
            pass
    os.mkdir(os.path.join(os.fsencode(tmp_path), b"d\xfe"))  # noqa: PTH102, PTH118
    listing = walk(tmp_path)
    assert [file.path for file in listing.notes] == ["a.md"]
    assert listing.attachments == ()
    assert [(f.file_path, f.stage) for f in listing.failures] == [("b\\xff.md", "walk"), ("d\\xfe", "walk")]
    assert all("Rename it." in failure.error for failure in listing.failures)


def test_links_to_files_and_to_folders_outside_are_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "vault", tmp_path / "outside"
    write(root, "a.md")
    write(outside, "n/b.md", "c.txt")
    (root / "link.md").symlink_to(root / "a.md")
    (root / "text.md").symlink_to(outside / "c.txt")
    (root / "folder").symlink_to(outside)
    listing = walk(root)
    assert [file.path for file in listing.notes] == ["a.md", "folder/n/b.md", "link.md", "text.md"]
    assert listing.attachments == ("folder/c.txt",)
    assert listing.failures == ()


def test_loops_and_second_ways_to_the_same_notes_are_ignored(tmp_path: Path) -> None:
    root, outside = tmp_path / "vault", tmp_path / "outside"
    write(root, "a.md", "inner/b.md")
    write(outside, "c.md", "deep/d.md")
    (root / "self").symlink_to(root)
    (root / "up").symlink_to(tmp_path)
    (root / "inner" / "again").symlink_to(root / "inner")
    (root / "one").symlink_to(outside)
    (root / "two").symlink_to(outside)
    (root / "three").symlink_to(outside / "deep")
    (outside / "back").symlink_to(root)
    (outside / "round").symlink_to(outside)
    listing = walk(root)
    assert [file.path for file in listing.notes] == ["a.md", "inner/b.md", "one/c.md", "one/deep/d.md"]
    assert listing.failures == ()


def test_a_vault_may_itself_be_reached_through_a_link(tmp_path: Path) -> None:
    write(tmp_path / "real", "a.md")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert notes(tmp_path / "link") == ["a.md"]


def test_notes_that_lead_nowhere_are_failures(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    (tmp_path / "gone.md").symlink_to(tmp_path / "nothing")
    (tmp_path / "round.md").symlink_to(tmp_path / "round.md")
    (tmp_path / "round").symlink_to(tmp_path / "round")
    listing = walk(tmp_path)
    assert [file.path for file in listing.notes] == ["a.md"]
    assert [failure.file_path for failure in listing.failures] == ["gone.md", "round.md"]
    assert listing.failures[0].error.startswith("The symbolic link leads nowhere: No such file")
    assert (listing.attachments, listing.unreadable_folders) == ((), ())


def test_notes_on_a_drive_that_is_not_connected_are_not_taken_for_deleted(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    (tmp_path / "drive").symlink_to(tmp_path / "not" / "mounted")
    listing = walk(tmp_path)
    assert listing.unreadable_folders == ("drive",)
    assert (listing.failures, listing.attachments) == ((), ())


def test_pipes_are_failures_and_never_opened(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "link.md").symlink_to(tmp_path / "pipe.md")
    listing = walk(tmp_path)
    assert [file.path for file in listing.notes] == ["a.md"]
    assert [failure.file_path for failure in listing.failures] == ["link.md", "pipe.md"]
    with pytest.raises(NoteError, match="not a regular file"):
        read_note_bytes(tmp_path, "pipe.md")


def test_sockets_and_devices_are_failures_and_the_whole_disk_is_no_folder_of_a_vault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = "é" * 126 + ".md"
    assert len(os.fsencode(longest)) == 255
    write(tmp_path, "a.md", longest)
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    (tmp_path / "zero.md").symlink_to("/dev/zero")
    (tmp_path / "disk").symlink_to("/")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.md")
        listing = walk(tmp_path)
    assert [file.path for file in listing.notes] == ["a.md", longest]
    assert [failure.file_path for failure in listing.failures] == ["socket.md", "zero.md"]
    for name in ("zero.md", "socket.md"):
        with pytest.raises(NoteError):
            read_note_bytes(tmp_path, name)


def test_excluded_files_stay_listed_and_marked(tmp_path: Path) -> None:
    settings = '\ufeff{"userIgnoreFilters": ["Private/", "/\\\\.DRAFT\\\\.md$/"]}'
    files = {".obsidian/app.json": settings, "private/a.md": "", "b.draft.md": "", "c.md": "[[a]]"}
    vault = make_vault(tmp_path, files)
    assert {file.path: file.excluded for file in vault.listing.notes} == {
        "b.draft.md": True,
        "c.md": False,
        "private/a.md": True,
    }
    assert vault.paths("c.md") == ["private/a.md"]


def test_an_expression_that_never_ends_is_given_up_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ignore_rules, "PATIENCE", 0.05)
    filters = [f"/^(a|aa|{letter})+$/" for letter in "bcdefgh"] + ["Private/", "/[.]draft/"]
    write(tmp_path, "b.draft.md", "Private/c.md", "d.md", ".obsidian/app.json")
    (tmp_path / ".obsidian" / "app.json").write_text(json.dumps({"userIgnoreFilters": filters}))
    excluded = {file.path for file in walk(tmp_path).notes if file.excluded}
    assert excluded == {"b.draft.md", "Private/c.md"}

    write(tmp_path, *(f"{'a' * length}!.md" for length in range(60, 70)))
    listing = walk(tmp_path)
    assert len(listing.failures) == ignore_rules.MOST_SLOW
    assert "the filter /^(a|aa|b)+$/ takes too long for the note aaaa" in listing.failures[0].error
    assert not listing.excludes_known
    assert "Private/c.md" in {file.path for file in listing.notes if file.excluded}


@pytest.mark.parametrize("settings", ["{", "[]", '{"userIgnoreFilters": null}', '{"userIgnoreFilters": 3}'])
def test_settings_that_name_no_filters_exclude_nothing(tmp_path: Path, settings: str) -> None:
    vault = make_vault(tmp_path, {".obsidian/app.json": settings, "a.md": ""})
    assert [file.excluded for file in vault.listing.notes] == [False]
    assert [f.file_path for f in vault.listing.failures] == (
        [".obsidian/app.json"] if settings == "{" else []
    )


def test_the_settings_folder_may_have_another_name(tmp_path: Path) -> None:
    make_vault(tmp_path, {".mine/app.json": '{"userIgnoreFilters": ["a"]}', "a.md": "", ".git/x": ""})
    assert [file.excluded for file in walk(tmp_path).notes] == [True]


def test_a_note_that_vanished_or_is_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "d.md").mkdir()
    with pytest.raises(NoteError, match=r"gone\.md cannot be read: No such file"):
        read_note_bytes(tmp_path, "gone.md")
    with pytest.raises(NoteError, match=r"d\.md"):
        read_note_bytes(tmp_path, "d.md")


def test_a_note_over_the_bound_is_an_error(tmp_path: Path) -> None:
    with (tmp_path / "big.md").open("wb") as stream:
        stream.truncate(module.MAX_NOTE_BYTES + 1)
    with pytest.raises(NoteError, match="a note has at most"):
        read_note_bytes(tmp_path, "big.md")


def test_a_note_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"old")
    original = os.fstat
    changes = [b"new and longer"]

    def change_once(descriptor: int) -> os.stat_result:
        status = original(descriptor)
        if changes:
            file.write_bytes(changes.pop())
        return status

    monkeypatch.setattr(os, "fstat", change_once)
    assert read_note_bytes(tmp_path, "a.md") == b"new and longer"
    assert changes == []


def test_a_note_that_never_stays_the_same_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"x")
    original = os.fstat

    def grow_after(descriptor: int) -> os.stat_result:
        status = original(descriptor)
        with file.open("ab") as stream:
            stream.write(b"x")
        return status

    monkeypatch.setattr(os, "fstat", grow_after)
    with pytest.raises(NoteError, match="kept changing"):
        read_note_bytes(tmp_path, "a.md")


def test_a_name_is_opened_in_whichever_spelling_the_disk_has(tmp_path: Path) -> None:
    (tmp_path / "Cafe\u0301.md").write_bytes(b"x")
    assert read_note_bytes(tmp_path, "Caf\u00e9.md") == b"x"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"a\r\nb\rc\n", "a\nb\nc\n"),
        (b"\xef\xbb\xbfa", "a"),
        ("a\u2028b\x85c\x0bd".encode(), "a\u2028b\x85c\x0bd"),
        ("\ufffd".encode(), "\ufffd"),
    ],
)
def test_utf_8_is_decoded_without_warning(data: bytes, text: str) -> None:
    assert decode(data) == (text, ())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_unicode_encodings_are_read_and_named(encoding: str) -> None:
    text, warnings = decode("Grüße\r\naus Köln".encode(encoding))
    assert text == "Grüße\naus Köln"
    assert encoding.upper() in warnings[0]
    assert "Convert it to UTF-8" in warnings[0]


def test_a_few_bad_bytes_are_replaced_and_their_line_is_named() -> None:
    text, warnings = decode("own \ufffd\nf\xfcr".encode("utf-8").replace("\xfc".encode(), b"\xfc"))
    assert text == "own \ufffd\nf\ufffdr"
    (warning,) = warnings
    assert "bytes in 1 places cannot be read, the first in line 2" in warning


def test_nul_characters_are_replaced_and_their_line_is_named() -> None:
    text, warnings = decode(b"one line\r\nnul \0 here and \0 there")
    assert text == "one line\nnul \ufffd here and \ufffd there"
    assert "NUL characters in 2 places, the first in line 2" in warnings[0]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\0" * 100, "nothing but NUL bytes"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "not text"),
        (b"\x01\x02\x03\x04" * 10, "not text"),
        ("中文笔记里面的一段比较长的文字".encode("gb18030"), "not UTF-8"),
        ("こんにちは世界のみなさん".encode("shift_jis"), "not UTF-8"),
    ],
)
def test_what_is_no_text_or_mostly_unreadable_is_an_error(data: bytes, reason: str) -> None:
    with pytest.raises(NoteError, match=reason):
        decode(data)
