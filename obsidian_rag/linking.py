"""Resolve the links of the whole index: one new, renamed or deleted note can change what any link means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from obsidian_rag.models import LinkKind, Resolution
from obsidian_rag.postgres import Connection
from obsidian_rag.store import load_aliases
from obsidian_rag.vaults import VaultReader


def resolve_links(conn: Connection, reader: VaultReader) -> tuple[int, int]:
    """Bring note_links up to date; only rows that change are written. Returns (links, resolved links)."""
    delete_stray_links(conn)
    links = load_links(conn)
    resolver = reader.make_resolver(load_aliases(conn))
    resolutions = [
        resolver.resolve(link.target_name, link.source_path, cast(LinkKind, link.kind)) for link in links
    ]
    changed = [
        (link.id, resolution)
        for link, resolution in zip(links, resolutions, strict=True)
        if link.resolution != resolution
    ]
    if changed:
        save_resolutions(conn, changed)
    return len(links), sum(1 for resolution in resolutions if resolution.target_type != "unresolved")


@dataclass(frozen=True, slots=True)
class StoredLink:
    """A row of note_links with what it leads to at present."""

    id: int
    source_path: str
    target_name: str
    kind: str
    resolution: Resolution


def load_links(conn: Connection) -> list[StoredLink]:
    """All links of the index."""
    rows = conn.execute(
        "SELECT id, source_path, target_name, kind, target_path, target_type, via FROM note_links"
    ).fetchall()
    return [
        StoredLink(link_id, source, target, kind, Resolution(path, target_type, via))
        for link_id, source, target, kind, path, target_type, via in rows
    ]


DELETE_STRAY_LINKS = """
DELETE FROM note_links l
WHERE NOT EXISTS (SELECT FROM notes n WHERE n.file_path = l.source_path)
    AND NOT EXISTS (SELECT FROM documents d WHERE d.file_path = l.source_path)
"""


def delete_stray_links(conn: Connection) -> None:
    """Remove links whose note is not in the index; the first schema could leave some behind."""
    conn.execute(DELETE_STRAY_LINKS)


def save_resolutions(conn: Connection, changed: Sequence[tuple[int, Resolution]]) -> None:
    """Write what links lead to, in one transaction."""
    conn.execute(
        "UPDATE note_links AS l SET target_path = u.path, target_type = u.type, via = u.via,"
        " updated_at = now()"
        " FROM unnest(%s::int[], %s::text[], %s::text[], %s::text[]) AS u (id, path, type, via)"
        " WHERE l.id = u.id",
        (
            [link_id for link_id, _ in changed],
            [r.path for _, r in changed],
            [r.target_type for _, r in changed],
            [r.via for _, r in changed],
        ),
    )
