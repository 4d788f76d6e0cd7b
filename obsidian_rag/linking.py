"""Resolve the links of the whole index: one new, renamed or deleted note can change what any link means."""

from __future__ import annotations

from typing import cast

from obsidian_rag.models import LinkKind
from obsidian_rag.postgres import Connection
from obsidian_rag.store import load_aliases, load_links, save_resolutions
from obsidian_rag.vaults import VaultReader


def resolve_links(conn: Connection, reader: VaultReader) -> tuple[int, int]:
    """Bring note_links up to date; only rows that change are written. Returns (links, resolved links)."""
    links = load_links(conn)
    asked = [(link.target_name, link.source_path, cast(LinkKind, link.kind)) for link in links]
    resolutions = reader.resolve(asked, load_aliases(conn))
    changed = [
        (link.id, resolution)
        for link, resolution in zip(links, resolutions, strict=True)
        if link.resolution != resolution
    ]
    if changed:
        save_resolutions(conn, changed)
    return len(links), sum(1 for resolution in resolutions if resolution.target_type != "unresolved")
