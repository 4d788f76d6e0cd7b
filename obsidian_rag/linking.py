"""The links of the whole index: one new, renamed or deleted note can change what any of them means."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from obsidian_rag import ledger
from obsidian_rag.analysis import analyze
from obsidian_rag.link_rows import retype_links
from obsidian_rag.models import LinkKind, Resolution
from obsidian_rag.postgres import Connection
from obsidian_rag.relations import Table
from obsidian_rag.store import load_aliases
from obsidian_rag.vaults import VaultReader

# Raise when the rules by which links are resolved change.
RESOLVER_VERSION = 1

COUNT_LINKS = """
SELECT count(*), count(*) FILTER (WHERE target_type <> 'unresolved'),
       count(*) FILTER (WHERE target_type IS NULL)
FROM note_links
"""


def begin_links(conn: Connection, *, changes: bool, anew: bool = False) -> bytes | None:
    """The digest of the names by which all links were resolved; None where that is not known, and where all
    are to be resolved `anew`. Where a run changes any note it is forgotten until `finish_links`, so that a
    run which is killed between is made up for.
    """
    targets = None if anew else ledger.load_link_targets(conn)
    if changes:
        ledger.save_link_targets(conn, None)
    return targets


def finish_links(
    conn: Connection, reader: VaultReader, before: bytes | None, changed: bool
) -> tuple[int, int]:
    """Bring note_links up to date, and the names that links give to notes; only rows that change are written.

    The notes of this run were written with the links as they lead by the names of the vault; where these are
    those `before`, no other link can lead elsewhere. `changed` tells whether any note of the run links
    otherwise than it did. Returns (links, resolved links).
    """
    strays = delete_stray_links(conn)
    aliases = load_aliases(conn)
    targets = digest_targets(reader, aliases)
    links, resolved, unknown = conn.execute(COUNT_LINKS).fetchone() or (0, 0, 0)
    if targets == before and not unknown:
        if changed or strays:
            refresh_link_names(conn)
    else:
        ledger.save_link_targets(conn, None)  # until all of it is done
        links, resolved = _resolve_all(conn, reader, aliases)
        refresh_link_names(conn)
    ledger.save_link_targets(conn, targets)
    return links, resolved


def digest_targets(reader: VaultReader, aliases: Mapping[str, Sequence[str]]) -> bytes:
    """A digest of all that decides where links lead: the paths of all files, and the aliases."""
    paths = [
        [vault.prefix, sorted(note.path for note in listing.notes), sorted(listing.attachments)]
        for vault, listing in reader.listings
    ]
    known = json.dumps([RESOLVER_VERSION, paths, sorted(aliases.items())])
    return hashlib.blake2b(known.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _resolve_all(
    conn: Connection, reader: VaultReader, aliases: Mapping[str, Sequence[str]]
) -> tuple[int, int]:
    links = load_links(conn)
    resolver = reader.make_resolver(aliases)
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


def delete_stray_links(conn: Connection) -> int:
    """Remove links whose note is not in the index; the first schema could leave some behind."""
    return conn.execute(DELETE_STRAY_LINKS).rowcount


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


def take_relation_rules(conn: Connection, table: Table) -> int:
    """Type the stored links anew where the table has changed since, in one transaction; returns how many."""
    if ledger.load_relation_rules(conn) == table.digest:
        return 0
    with conn.transaction():
        typed = retype_links(conn, table)
        ledger.save_relation_rules(conn, table.digest)
    return typed


# A link that leads nowhere names a note still to be written: a node of the graph like any other.
LINK_NAMES = """
WITH shown AS (
    SELECT coalesce(nullif(display_text, ''), regexp_replace(target_name, '^.*/', '')) AS text,
           coalesce(target_path, '?' || lower(target_name)) AS node, sum(occurrences) AS uses
    FROM note_links
    WHERE target_type IN ('note', 'unresolved') AND target_name <> ''
        AND kind IN ('wikilink', 'markdown', 'property') AND source_path IS DISTINCT FROM target_path
        AND length(target_name) <= 200 AND coalesce(length(display_text), 0) <= 200
        AND coalesce(octet_length(target_path), 0) <= 1500  -- a row's key has at most 2,704 bytes
    GROUP BY 1, 2
)
SELECT text, node, uses::int, (uses / sum(uses) OVER (PARTITION BY node))::real FROM shown
"""
SAVED_NAMES = "SELECT text, node, uses, share FROM link_names"
DELETE_NAMES = """
DELETE FROM link_names n USING unnest(%s::text[], %s::text[]) AS d (text, node)
WHERE n.text = d.text AND n.node = d.node
"""
INSERT_NAME = "INSERT INTO link_names (text, node, uses, share, key) VALUES (%s, %s, %s, %s, %s)"


def refresh_link_names(conn: Connection) -> None:
    """Bring the names that links give to notes up to date; only rows that change are written."""
    wanted = set(conn.execute(LINK_NAMES).fetchall())
    saved = set(conn.execute(SAVED_NAMES).fetchall())
    gone, new = saved - wanted, wanted - saved
    with conn.transaction(), conn.cursor() as cur:
        cur.execute(DELETE_NAMES, ([row[0] for row in gone], [row[1] for row in gone]))
        cur.executemany(INSERT_NAME, [(*row, analyze(row[0]).key) for row in new])
