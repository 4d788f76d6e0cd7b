"""Checks of what is there before any index: the settings and the vault."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from obsidian_rag import config
from obsidian_rag.config import Settings, is_folder, mask_password
from obsidian_rag.counts import count
from obsidian_rag.doctor.examination import Examination, Patient
from obsidian_rag.doctor.report import Finding, fail, ok, skip, warn
from obsidian_rag.drift import EXAMPLES
from obsidian_rag.vaults import open_vaults

SPECIAL_NAMES = {"vaults": "VAULT_PATH", "data_dir": "OBSIDIAN_RAG_DATA"}
NAME_VAULT = "Run: obsidian-rag init, or set VAULT_PATH to the vault's folder."


def check_settings(patient: Patient) -> list[Finding]:
    """Each setting that has another value than its default, and what looks like a setting and is none."""
    found = [ok(value, name) for name, value in _list_values(patient.settings)]
    found += [
        warn(text, "Correct the name, or move the file.", "unknown") for text in patient.settings.notices
    ]
    return found or [ok("every setting has its default")]


def _list_values(settings: Settings) -> Iterator[tuple[str, str]]:
    for known in fields(Settings):
        value = getattr(settings, known.name)
        name = SPECIAL_NAMES.get(known.name, known.name.upper())
        if name not in config.NAMES or value == known.default:
            continue
        if known.name == "vaults":
            value = os.pathsep.join(vault.place for vault in settings.vaults)
        yield name, mask_password(str(value))


def check_settings_files(patient: Patient) -> list[Finding]:
    """Whether others on this machine can read a password in a settings file."""
    files = (config.settings_file(), patient.surroundings.folder / ".env")
    open_files = [file for file in files if _shows_a_password(file)]
    if open_files:
        return [
            warn(
                f"{file} holds a password and others may read it", f"Run: chmod 600 {shlex.quote(str(file))}"
            )
            for file in open_files
        ]
    there = [str(file) for file in files if file.is_file()]
    return [ok(f"{', '.join(there)}: no password that others may read" if there else "there is none")]


def _shows_a_password(file: Path) -> bool:
    if not file.is_file() or not stat.S_IMODE(file.stat().st_mode) & (stat.S_IRGRP | stat.S_IROTH):
        return False
    text = file.read_text(encoding="utf-8", errors="replace")
    return any(mask_password(line) != line for line in text.splitlines())


def check_folder(patient: Patient) -> list[Finding]:
    """Whether each vault is a folder that can be read."""
    vaults = patient.settings.vaults
    if not vaults:
        return [
            warn(
                "VAULT_PATH is not set; the notes are looked for where the index was made from",
                NAME_VAULT,
            )
        ]
    return [_check_folder(vault.root, vault.place) for vault in vaults]


def _check_folder(root: Path, place: str) -> Finding:
    if not os.path.lexists(root):
        return fail(f"The vault {place} does not exist", "Correct VAULT_PATH, or mount the folder.")
    if not is_folder(root):
        return fail(f"The vault {place} is not a folder", "Set VAULT_PATH to the folder of the notes.")
    if not os.access(root, os.R_OK | os.X_OK):
        return fail(f"The vault {place} may not be read", f"Run: chmod u+rx {shlex.quote(place)}")
    is_marked = is_folder(root / ".obsidian")
    return ok(place if is_marked else f"{place} (it has no .obsidian folder, so Obsidian never opened it)")


def check_notes(patient: Patient) -> list[Finding]:
    """Walk the vault: whether there are notes, and whether all of them can be looked at."""
    if not patient.settings.vaults:
        return [skip("VAULT_PATH is not set", NAME_VAULT)]
    patient.reader = reader = open_vaults(patient.settings.vaults)
    excluded = sum(1 for _, listing in reader.listings for note in listing.notes if note.excluded)
    left_out = f', {excluded} more left out by the vault\'s own "Excluded files"' if excluded else ""
    found = [ok(f"{count(len(reader.notes), 'note')}{left_out}")]
    if reader.failures:
        named = "; ".join(f"{f.file_path}: {f.error}" for f in reader.failures[:EXAMPLES])
        found.append(
            warn(
                f"{count(len(reader.failures), 'file or folder', 'files or folders')} cannot be looked at:"
                f" {named}",
                "Check their permissions, then run: obsidian-rag index",
            )
        )
    return found


CHECKS = (
    Examination("settings", "settings", check_settings),
    Examination("settings", "settings files", check_settings_files),
    Examination("vault", "folder", check_folder),
    Examination("vault", "notes", check_notes, ("folder",), patience=60),
)
