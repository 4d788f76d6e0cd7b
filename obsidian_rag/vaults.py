"""One or several vaults as the indexer sees them: prefixed paths, one reader, one resolver each."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from obsidian_rag.config import Vault
from obsidian_rag.counts import choose, count
from obsidian_rag.errors import VaultError
from obsidian_rag.links import LinkResolver
from obsidian_rag.models import Failure, LinkKind, Resolution, VaultFile
from obsidian_rag.vault import VaultListing, decode, read_note_bytes, walk

LATEST_NS = 2**63 - 1
PROBED_NOTES = 50


@dataclass(frozen=True, slots=True)
class VaultReader:
    """What the walk found. `notes` are those to be indexed; `failures` what could not be walked. `withheld`
    are prefixes of vaults of which notes were left out because it cannot be told which are excluded.
    """

    listings: tuple[tuple[Vault, VaultListing], ...]
    notes: tuple[VaultFile, ...]
    failures: tuple[Failure, ...]
    warnings: tuple[str, ...]
    withheld: tuple[str, ...] = ()

    def read(self, path: str) -> bytes:
        """The bytes of a note. Raises NoteError."""
        vault = next(v for v, _ in self.listings if path.startswith(v.prefix))
        return read_note_bytes(vault.root, path.removeprefix(vault.prefix))

    def decode(self, data: bytes) -> tuple[str, tuple[str, ...]]:
        """The text of a note and what had to be mended in it. Raises NoteError."""
        return decode(data)

    def is_kept(self, path: str) -> bool:
        """Whether a note that was not seen may still be there: it, or a folder above it, is unreadable or
        vanished during the walk; or it may be one of those withheld, under another name.
        """
        return (
            any(path == failure.file_path for failure in self.failures)
            or any(path.startswith(prefix) for prefix in self.withheld)
            or any(
                path == vault.prefix + place
                or path.startswith(f"{vault.prefix}{place}/" if place else vault.prefix)
                for vault, listing in self.listings
                for place in (*listing.unreadable_folders, *listing.vanished)
            )
        )

    def admit(self, known: Container[str]) -> VaultReader:
        """The reader without notes that may be excluded: where a vault's list of excluded files cannot be
        read, only those in the index, which are `known`, are certainly none.
        """
        withheld: dict[str, int] = {}
        warnings = []
        for vault, listing in self.listings:
            new = sum(1 for f in listing.notes if vault.prefix + f.path not in known)
            if new and not listing.excludes_known:
                withheld[vault.prefix] = new
                warnings.append(
                    f"{count(new, 'note')} of {vault.place} {choose(new, 'is', 'are')} not in the index yet"
                    " and left out until it can be told which files the vault excludes."
                )
        kept = (f for f in self.notes if f.path in known or not f.path.startswith(tuple(withheld)))
        return replace(
            self, notes=tuple(kept), warnings=(*self.warnings, *warnings), withheld=tuple(withheld)
        )

    def check_there(self) -> None:
        """Raise VaultError where a vault of which notes were seen is gone by now: an unmounted share looks
        like one whose notes were all deleted.
        """
        for vault, listing in self.listings:
            step = max(1, len(listing.notes) // PROBED_NOTES)
            probed = listing.notes[::step]
            if probed and not any(os.path.lexists(vault.root / note.path) for note in probed):
                raise VaultError(
                    f"The vault {vault.place} vanished while it was read; no note was deleted from the index",
                    "Mount it again, then run: obsidian-rag index",
                )

    def make_resolver(self, aliases: Mapping[str, Sequence[str]]) -> VaultResolver:
        """What tells where links lead; `aliases` by the path of their note."""
        return VaultResolver(
            tuple((v.prefix, _make_resolver(v.prefix, listing, aliases)) for v, listing in self.listings)
        )


@dataclass(frozen=True, slots=True)
class VaultResolver:
    """Where links lead, each inside its own vault."""

    resolvers: tuple[tuple[str, LinkResolver], ...]

    def resolve(self, target: str, source: str, kind: LinkKind) -> Resolution:
        """Where a link of the note `source` leads; nowhere where its vault is not open."""
        for prefix, resolver in self.resolvers:
            if source.startswith(prefix):
                resolution = resolver.resolve(target, source.removeprefix(prefix), kind)
                if resolution.path is not None and prefix:
                    resolution = replace(resolution, path=prefix + resolution.path)
                return resolution
        return Resolution(None, "unresolved")


def open_vaults(vaults: Sequence[Vault], allow_empty: bool = False) -> VaultReader:
    """Walk the vaults. Raises VaultError where one is missing, or where none holds a note and one must."""
    listings = tuple((vault, _walk(vault)) for vault in vaults)
    notes, failures, warnings = [], [], []
    for vault, listing in listings:
        notes += [_make_storable(f, vault.prefix) for f in listing.notes if not f.excluded]
        failures += [replace(f, file_path=vault.prefix + f.file_path) for f in listing.failures]
        excluded = sum(1 for f in listing.notes if f.excluded)
        if excluded:
            warnings.append(
                f"{count(excluded, 'note')} of {vault.place} {choose(excluded, 'is', 'are')} left out by its"
                ' own setting "Excluded files".'
            )
        if listing.vanished:
            warnings.append(
                f"{count(len(listing.vanished), 'file or folder', 'files or folders')} of {vault.place}"
                " vanished while it was read; what the index holds of that stays until the next run."
            )
    if not notes and not failures and not allow_empty:
        roots = ", ".join(vault.place for vault in vaults)
        left_out = f" that is not left out ({' '.join(warnings)})" if warnings else " (*.md)"
        raise VaultError(
            f"There is no note{left_out} in {roots}; nothing was changed",
            "Check the path, and that the folder is mounted.",
        )
    reader = VaultReader(listings, tuple(notes), tuple(failures), tuple(warnings))
    reader.check_there()
    return reader


def _make_storable(file: VaultFile, prefix: str) -> VaultFile:
    """The file under its path in the index. A file system may give times beyond what a BIGINT holds."""
    return replace(
        file,
        path=prefix + file.path,
        mtime_ns=max(-LATEST_NS, min(file.mtime_ns, LATEST_NS)),
        ctime_ns=max(-LATEST_NS, min(file.ctime_ns, LATEST_NS)),
    )


def _walk(vault: Vault) -> VaultListing:
    try:
        vault.root.stat()
    except FileNotFoundError as exc:
        raise VaultError(
            f"The vault {vault.place} does not exist; nothing was changed",
            "Correct the path, mount the folder, or if it was moved: obsidian-rag init --vault NEW_PATH.",
        ) from exc
    except (OSError, ValueError) as exc:
        raise VaultError(
            f"The vault {vault.place} cannot be reached: {exc}; nothing was changed",
            "Correct the path or VAULT_PATH, and check the permissions of the folders above it.",
        ) from exc
    if not vault.root.is_dir():
        raise VaultError(f"The vault {vault.place} is not a folder", "Name the folder that holds the notes.")
    return walk(vault.root)


def _make_resolver(prefix: str, listing: VaultListing, aliases: Mapping[str, Sequence[str]]) -> LinkResolver:
    files = [*(file.path for file in listing.notes), *listing.attachments]
    own = {p.removeprefix(prefix): names for p, names in aliases.items() if p.startswith(prefix)}
    return LinkResolver(files, own)
