"""The vaults that Obsidian knows on this machine, from its own list of them. Reads, never writes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from obsidian_rag.config import is_folder


@dataclass(frozen=True, slots=True)
class KnownVault:
    """A vault in Obsidian's list; `opened` is when it was last opened, in milliseconds since 1970."""

    root: Path
    opened: float
    exists: bool


def list_files(home: Path, variables: Mapping[str, str], platform: str) -> list[Path]:
    """Where Obsidian keeps its list: on macOS, and on Linux by how it was installed."""
    if platform == "darwin":
        return [home / "Library/Application Support/obsidian/obsidian.json"]
    own = Path(variables.get("XDG_CONFIG_HOME") or home / ".config")
    return [
        own / "obsidian/obsidian.json",
        home / ".var/app/md.obsidian.Obsidian/config/obsidian/obsidian.json",  # Flatpak
        home / "snap/obsidian/current/.config/obsidian/obsidian.json",
    ]


def find_known_vaults(home: Path, variables: Mapping[str, str], platform: str) -> tuple[KnownVault, ...]:
    """The vaults that Obsidian knows, each once, the one opened last first. A list that cannot be read is
    passed over: the vault can be named by hand.
    """
    found: dict[Path, KnownVault] = {}
    for file in list_files(home, variables, platform):
        for vault in _read_list(file):
            known = found.get(vault.root)
            if known is None or known.opened < vault.opened:
                found[vault.root] = vault
    return tuple(sorted(found.values(), key=lambda vault: (-vault.opened, str(vault.root))))


def _read_list(file: Path) -> Iterator[KnownVault]:
    entries: object = None
    with suppress(OSError, ValueError, RecursionError):
        document = json.loads(file.read_bytes())
        entries = document.get("vaults") if isinstance(document, dict) else None
    for entry in entries.values() if isinstance(entries, dict) else ():
        path = entry.get("path") if isinstance(entry, dict) else None
        if not isinstance(path, str) or "\0" in path or not Path(path).is_absolute():
            continue
        opened = entry.get("ts")
        at = float(opened) if isinstance(opened, int | float) else 0.0
        yield KnownVault(Path(path), at, is_folder(Path(path)))
