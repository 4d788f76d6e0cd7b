"""One or several vaults as the indexer sees them: prefixed paths, one reader, one resolver each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from obsidian_rag.config import Vault
from obsidian_rag.errors import VaultError
from obsidian_rag.links import LinkResolver
from obsidian_rag.models import Failure, LinkKind, Resolution, VaultFile
from obsidian_rag.vault import VaultListing, decode, read_note_bytes, walk


@dataclass(frozen=True, slots=True)
class VaultReader:
    """What the walk found. `notes` are those to be indexed; `failures` what could not be walked."""

    listings: tuple[tuple[Vault, VaultListing], ...]
    notes: tuple[VaultFile, ...]
    failures: tuple[Failure, ...]
    warnings: tuple[str, ...]

    def read(self, path: str) -> bytes:
        """The bytes of a note. Raises NoteError."""
        vault = next(v for v, _ in self.listings if path.startswith(v.prefix))
        return read_note_bytes(vault.root, path.removeprefix(vault.prefix))

    def decode(self, data: bytes) -> tuple[str, tuple[str, ...]]:
        """The text of a note and what had to be mended in it. Raises NoteError."""
        return decode(data)

    def is_kept(self, path: str) -> bool:
        """Whether a note that was not seen may still be there: it, or a folder above it, is unreadable."""
        return any(path == failure.file_path for failure in self.failures) or any(
            path.startswith(f"{vault.prefix}{folder}/" if folder else vault.prefix)
            for vault, listing in self.listings
            for folder in listing.unreadable_folders
        )

    def resolve(
        self, links: Sequence[tuple[str, str, LinkKind]], aliases: Mapping[str, Sequence[str]]
    ) -> list[Resolution]:
        """Where links lead, each given as (target, source path, kind); each inside its own vault."""
        resolvers = [(v.prefix, _make_resolver(v.prefix, listing, aliases)) for v, listing in self.listings]
        found = []
        for target, source, kind in links:
            prefix, resolver = next((p, r) for p, r in resolvers if source.startswith(p))
            resolution = resolver.resolve(target, source.removeprefix(prefix), kind)
            if resolution.path is not None and prefix:
                resolution = replace(resolution, path=prefix + resolution.path)
            found.append(resolution)
        return found


def open_vaults(vaults: Sequence[Vault]) -> VaultReader:
    """Walk the vaults. Raises VaultError where one is missing, or none holds a note."""
    listings = tuple((vault, _walk(vault)) for vault in vaults)
    notes, failures, warnings = [], [], []
    for vault, listing in listings:
        notes += [replace(f, path=vault.prefix + f.path) for f in listing.notes if not f.excluded]
        failures += [replace(f, file_path=vault.prefix + f.file_path) for f in listing.failures]
        excluded = sum(1 for f in listing.notes if f.excluded)
        if excluded:
            warnings.append(
                f'{excluded} notes of {vault.root} are left out by its own setting "Excluded files".'
            )
    if not notes and not failures:
        roots = ", ".join(str(vault.root) for vault in vaults)
        raise VaultError(
            f"There is no note (*.md) in {roots}; nothing was changed",
            "Check the path, and that the folder is mounted.",
        )
    return VaultReader(listings, tuple(notes), tuple(failures), tuple(warnings))


def _walk(vault: Vault) -> VaultListing:
    if not vault.root.exists():
        raise VaultError(
            f"The vault {vault.root} does not exist; nothing was changed",
            "Correct the path or VAULT_PATH, or mount the folder.",
        )
    if not vault.root.is_dir():
        raise VaultError(f"The vault {vault.root} is not a folder", "Name the folder that holds the notes.")
    return walk(vault.root)


def _make_resolver(prefix: str, listing: VaultListing, aliases: Mapping[str, Sequence[str]]) -> LinkResolver:
    files = [*(file.path for file in listing.notes), *listing.attachments]
    own = {p.removeprefix(prefix): names for p, names in aliases.items() if p.startswith(prefix)}
    return LinkResolver(files, own)
