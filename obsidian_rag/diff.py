"""What has to be done so that the index equals the vault: new, changed, renamed, adopted, deleted notes."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from obsidian_rag.errors import NoteError
from obsidian_rag.models import Failure, VaultFile
from obsidian_rag.store import StoredNote

# A file system may round times to two seconds; a note written within that of being indexed is read again.
TIME_GRAIN_NS = 2_000_000_000
FIRST_SCHEMA_HASHES = {32: "md5", 40: "sha1", 64: "sha256"}


@dataclass(frozen=True, slots=True)
class Change:
    """One note to be written. `old_path` is where a renamed note was.

    "adopted" is a note with unchanged bytes whose chunks another program made: they stay as they are.
    "reread" is one with unchanged bytes of which the index holds what an older parser found, or not all.
    """

    kind: Literal["new", "changed", "reread", "renamed", "adopted"]
    file: VaultFile
    old_path: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The difference between a vault and its index. `touched` have the same bytes under new times."""

    changes: tuple[Change, ...]
    deleted: tuple[str, ...]
    unchanged: int
    touched: tuple[VaultFile, ...]
    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class IndexState:
    """What the index holds: its notes, and the file hashes of notes that the first schema left."""

    notes: Mapping[str, StoredNote] = field(default_factory=dict)
    adoptable: Mapping[str, str] = field(default_factory=dict)

    def hash_of(self, path: str) -> str | None:
        """The file hash of a note, None where the index does not hold it."""
        stored = self.notes.get(path)
        return stored.file_hash if stored else self.adoptable.get(path)

    def has_foreign_chunks(self, path: str) -> bool:
        """Whether a note's chunks were made by another program."""
        return path in self.adoptable or self.notes[path].adopted


def compare_vault(
    files: Sequence[VaultFile],
    keep: Callable[[str], bool],
    state: IndexState,
    read: Callable[[str], bytes],
    parser_version: int,
    full: bool,
) -> Plan:
    """Compare the notes on disk with those in the index.

    `keep` tells of a path whose note must not count as deleted, although it was not seen. `read` gives a
    note's bytes or raises NoteError, which becomes a Failure. With `full` nothing counts as unchanged; what
    was adopted still keeps its chunks, whose text cannot be told to be that of ours.
    """
    present = {file.path for file in files}
    missing = sorted(p for p in {*state.notes, *state.adoptable} if p not in present and not keep(p))
    vanished = _index_vanished(missing, state)
    changes: list[Change] = []
    touched: list[VaultFile] = []
    failures: list[Failure] = []
    unchanged = 0
    for file in files:
        stored = state.notes.get(file.path)
        current = stored is not None and not full and stored.parser_version == parser_version
        if stored and current and _same_times(file, stored):
            unchanged += 1
            continue
        try:
            data = read(file.path)
        except NoteError as exc:
            failures.append(Failure(file.path, "read", str(exc)))
            continue
        known_hash = state.hash_of(file.path)
        if known_hash is None:
            old_path = _take_vanished(vanished, data)
            if old_path is None:
                changes.append(Change("new", file))
            else:
                foreign = state.has_foreign_chunks(old_path)
                changes.append(Change("adopted" if foreign else "renamed", file, old_path))
        elif not _same_bytes(data, known_hash):
            changes.append(Change("changed", file))
        elif current:
            unchanged += 1
            touched.append(file)
        else:
            changes.append(Change("adopted" if state.has_foreign_chunks(file.path) else "reread", file))
    renamed = {change.old_path for change in changes if change.old_path}
    deleted = tuple(p for p in missing if p not in renamed)
    return Plan(tuple(changes), deleted, unchanged, tuple(touched), tuple(failures))


def hash_bytes(data: bytes) -> str:
    """The file hash the index keeps: SHA-256, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _same_times(file: VaultFile, stored: StoredNote) -> bool:
    times = (stored.size, stored.mtime_ns, stored.ctime_ns)
    settled = max(file.mtime_ns, file.ctime_ns) + TIME_GRAIN_NS < _nanoseconds(stored.indexed_at)
    return settled and times == (file.size, file.mtime_ns, file.ctime_ns)


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1e9)


def _same_bytes(data: bytes, stored_hash: str) -> bool:
    """Whether a stored hash is that of the data; the first schema may hold any of three, told by length."""
    algorithm = FIRST_SCHEMA_HASHES.get(len(stored_hash))
    if algorithm is None:
        return False
    return hashlib.new(algorithm, data, usedforsecurity=False).hexdigest() == stored_hash.lower()


def _index_vanished(missing: Sequence[str], state: IndexState) -> dict[str, list[str]]:
    """Paths that are gone by the hash of what they held, the last first so that pop() takes them in order."""
    vanished: defaultdict[str, list[str]] = defaultdict(list)
    for path in reversed(missing):
        vanished[(state.hash_of(path) or "").lower()].append(path)
    return vanished


def _take_vanished(vanished: dict[str, list[str]], data: bytes) -> str | None:
    for length in {len(known) for known, paths in vanished.items() if paths}:
        algorithm = FIRST_SCHEMA_HASHES.get(length)
        if algorithm is None:
            continue
        paths = vanished.get(hashlib.new(algorithm, data, usedforsecurity=False).hexdigest())
        if paths:
            return paths.pop()
    return None
