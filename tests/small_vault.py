"""Small vaults for tests: made from texts, read whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from obsidian_rag.links import LinkResolver
from obsidian_rag.models import Link, Note, Resolution
from obsidian_rag.notes import parse_note
from obsidian_rag.vault import VaultListing, decode, read_note_bytes, walk

HARD_CASES = Path(__file__).parent / "hard_cases"


@dataclass(frozen=True)
class SmallVault:
    """A vault read whole: its listing, its notes by path, and a resolver over both."""

    listing: VaultListing
    notes: dict[str, Note]
    resolver: LinkResolver

    def follow(self, link: Link, source: str) -> Resolution:
        return self.resolver.resolve(link.target, source, link.kind)

    def paths(self, source: str) -> list[str | None]:
        """Where the links of a note lead, in order, once for each time they are written."""
        found: list[str | None] = []
        for link in self.notes[source].links:
            found += [self.follow(link, source).path] * link.count
        return found


def make_vault(root: Path, files: Mapping[str, str | bytes]) -> SmallVault:
    """Write files below `root` and read them as a vault."""
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_vault(root)


def read_vault(root: Path) -> SmallVault:
    listing = walk(root)
    notes = {}
    for file in listing.notes:
        text, warnings = decode(read_note_bytes(root, file.path))
        assert warnings == ()
        notes[file.path] = parse_note(file.path, text)
    aliases = {path: note.aliases for path, note in notes.items()}
    return SmallVault(listing, notes, LinkResolver([*notes, *listing.attachments], aliases))


def read_case(name: str) -> SmallVault:
    return read_vault(HARD_CASES / name)


def headings(note: Note) -> list[tuple[int, str | None]]:
    """Level and text of every section's heading."""
    return [(section.level, section.heading) for section in note.sections]


def section_text(note: Note, heading: str | None) -> str:
    """The text of the first section with a heading, its heading line left out."""
    section = next(section for section in note.sections if section.heading == heading)
    return note.text[section.body_start : section.end]
