"""Where a note of an index lies: the address by which Obsidian opens it, and that of its file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from obsidian_rag import ledger
from obsidian_rag.config import Settings, Vault
from obsidian_rag.drift import find_vaults
from obsidian_rag.errors import SettingsError
from obsidian_rag.picture import make_url
from obsidian_rag.postgres import Connection


@dataclass(frozen=True, slots=True)
class Places:
    """The vaults of an index; none where they are not known."""

    vaults: Sequence[Vault] = ()

    def find_app_url(self, file_path: str) -> str | None:
        """`obsidian://open?…`, where the vault is known."""
        return make_url(file_path, [vault.place for vault in self.vaults]) if self.vaults else None

    def find_file_url(self, file_path: str) -> str | None:
        """`file://…` of a note that is on this disk."""
        for vault in self.vaults:
            file = vault.root / file_path.removeprefix(vault.prefix)
            if file_path.startswith(vault.prefix) and file.is_file():
                return file.as_uri()
        return None


def load_places(conn: Connection, settings: Settings) -> Places:
    """The vaults of the settings, else those that the index was made of."""
    with suppress(SettingsError):
        return Places(find_vaults(settings, ledger.load_settings_row(conn)))
    return Places()
