"""The files of a vault: which are notes, which only link targets, and their bytes.

Nothing here writes: the vault is the person's.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from obsidian_rag.encodings import decode
from obsidian_rag.errors import NoteError, VaultError
from obsidian_rag.ignore_rules import IgnoreRules, read_ignore_rules
from obsidian_rag.models import Failure, VaultFile

__all__ = ["MAX_NOTE_BYTES", "VaultListing", "decode", "read_note_bytes", "walk"]

MAX_NOTE_BYTES = 16 * 1024 * 1024
_READ_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class VaultListing:
    """The files of a vault, by path. `attachments` are all files that are no notes, as links lead to them.

    `failures` are notes and folders that could not be looked at. What lies below `unreadable_folders` was not
    seen and must not be taken for deleted; broken links that may have led to a folder are among them, and
    what `vanished`: files and folders that were listed and gone a moment later. `empty_folders` hold nothing
    at all. `excludes_known` is unset where the vault's list of excluded files cannot be read.
    """

    notes: tuple[VaultFile, ...] = ()
    attachments: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    unreadable_folders: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    empty_folders: tuple[str, ...] = ()
    excludes_known: bool = True


@dataclass(slots=True)
class _Walk:
    root: Path
    rules: IgnoreRules
    # Real paths of the vault and of the folders outside that links led to.
    trees: list[str]
    folders: list[str] = field(default_factory=lambda: [""])
    notes: list[VaultFile] = field(default_factory=list)
    attachments: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    vanished: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)


def walk(root: Path) -> VaultListing:
    """All files of a vault, sorted by path. Raises VaultError where `root` is no readable folder."""
    if not root.is_dir():
        raise VaultError(f"The vault {root} is not a folder", "Set VAULT_PATH to the folder of the vault.")
    rules, failures = read_ignore_rules(root)
    state = _Walk(root, rules or IgnoreRules(), [os.path.realpath(root)])
    state.failures += failures
    while state.folders:
        _walk_folder(state, state.folders.pop())
    return VaultListing(
        tuple(sorted(state.notes, key=lambda note: note.path)),
        tuple(sorted(state.attachments)),
        tuple(sorted((*state.failures, *state.rules.slow), key=lambda failure: failure.file_path)),
        tuple(sorted(state.unreadable)),
        tuple(sorted(state.vanished)),
        tuple(sorted(state.empty)),
        excludes_known=rules is not None and not rules.slow,
    )


def _walk_folder(state: _Walk, folder: str) -> None:
    try:
        with os.scandir(state.root / folder) as entries:
            # In the order of their names, so that of two links to one folder it is always the same one.
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        if folder == "":
            raise VaultError(
                f"The vault {state.root} cannot be read: {error.strerror}", "Check the folder's permissions."
            ) from error
        if isinstance(error, FileNotFoundError):
            state.vanished.append(folder)  # deleted a moment ago, or the whole share is going
            return
        state.unreadable.append(folder)
        message = f"The folder cannot be read: {error.strerror}. Check its permissions."
        state.failures.append(Failure(folder, "walk", message))
        return
    if not found and folder:
        state.empty.append(folder)
    for entry in found:
        if not entry.name.startswith("."):
            _add_entry(state, entry, f"{folder}/{entry.name}" if folder else entry.name)


def _add_entry(state: _Walk, entry: os.DirEntry[str], path: str) -> None:
    is_note = entry.name.lower().endswith(".md")
    try:
        if entry.is_symlink() and not _follow_link(state, entry, path, is_note):
            return
        if entry.is_dir():
            if _has_storable_name(state, path, "folder"):
                state.folders.append(path)
        elif not is_note:
            # A name that cannot be stored cannot be written in a link either.
            if _is_utf8(path) and entry.is_file():
                state.attachments.append(path)
        elif _has_storable_name(state, path, "note"):
            _add_note(state, entry.stat(), path)
    except FileNotFoundError:
        state.vanished.append(path)
    except OSError as error:
        message = f"The file cannot be looked at: {error.strerror}. Check it and its folder's permissions."
        state.failures.append(Failure(_make_printable(path), "walk", message))


def _follow_link(state: _Walk, entry: os.DirEntry[str], path: str, is_note: bool) -> bool:
    """Whether a symbolic link leads to something of its own; a note that leads nowhere is a failure."""
    try:
        mode = entry.stat().st_mode
    except OSError as error:
        if is_note:
            message = f"The symbolic link leads nowhere: {error.strerror}. Mend or delete the link."
            state.failures.append(Failure(_make_printable(path), "walk", message))
        elif error.errno != errno.ELOOP and _is_utf8(path):
            # It may have led to a folder of notes, on a drive that is not connected at the moment.
            state.unreadable.append(path)
        return False
    if stat.S_ISDIR(mode):
        target = os.path.realpath(entry.path)
        if any(_overlap(target, tree) for tree in state.trees):
            return False  # a loop, or a second way to the same notes
        if _is_utf8(path):
            state.trees.append(target)
    return True


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other.rstrip('/')}/") or f"{other}/".startswith(f"{one.rstrip('/')}/")


def _add_note(state: _Walk, status: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        message = "It is not a regular file (a pipe, socket or device). Move it out of the vault."
        state.failures.append(Failure(path, "walk", message))
        return
    excluded = state.rules.exclude(path)
    state.notes.append(VaultFile(path, status.st_size, status.st_mtime_ns, status.st_ctime_ns, excluded))


def _has_storable_name(state: _Walk, path: str, what: str) -> bool:
    if _is_utf8(path):
        return True
    message = f"The {what}'s name is not valid UTF-8, so the index cannot hold it. Rename it."
    state.failures.append(Failure(_make_printable(path), "walk", message))
    return False


def _is_utf8(path: str) -> bool:
    # Bytes of a name that are not UTF-8 come from the operating system as lone surrogates.
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _make_printable(path: str) -> str:
    return os.fsencode(path).decode("utf-8", errors="backslashreplace")


def read_note_bytes(root: Path, path: str) -> bytes:
    """The bytes of the note at `path` below `root`. Raises NoteError.

    Opened without waiting, so that a pipe cannot hold the run up; read again where it changed meanwhile.
    """
    try:
        for _ in range(_READ_ATTEMPTS):
            data = _read_once(_find_spelling(root, path))
            if data is not None:
                return data
    except OSError as error:
        mend = {
            errno.EACCES: "Check its permissions.",
            errno.EPERM: "Check its permissions.",
            errno.ENOENT: "Run the indexer again.",
        }.get(error.errno or 0, "Check the file and the disk it is on.")
        raise NoteError(f"{path} cannot be read: {error.strerror}", mend) from error
    raise NoteError(f"{path} kept changing while it was read", "Run the indexer again.")


def _read_once(file: Path) -> bytes | None:
    """The bytes, or None where the file changed while it was read."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise NoteError(f"{file.name} is not a regular file", "Move it out of the vault.")
        if before.st_size > MAX_NOTE_BYTES:
            raise NoteError(
                f"{file.name} has {before.st_size:,} bytes; a note has at most {MAX_NOTE_BYTES:,}",
                "Split it, or give it another ending than .md.",
            )
        data = stream.read(MAX_NOTE_BYTES + 1)
        after = os.fstat(descriptor)
    unchanged = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    return data if unchanged and len(data) == after.st_size else None


def _find_spelling(root: Path, path: str) -> Path:
    """The path as it opens: a name may have changed between its composed and decomposed spelling."""
    file = root / path
    if path.isascii() or file.exists():
        return file
    for form in ("NFC", "NFD"):
        other = root / unicodedata.normalize(form, path)
        if other.exists():
            return other
    return file
