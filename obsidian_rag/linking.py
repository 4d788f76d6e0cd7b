"""The links of the whole index: one new, renamed or deleted note can change what any of them means."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
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
LINKS_AT_ONCE, NAMES_AT_ONCE = 10_000, 5_000  # in memory

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


@dataclass(frozen=True, slots=True)
class StoredLink:
    """A row of note_links with what it leads to at present."""

    id: int
    source_path: str
    target_name: str
    kind: str
    resolution: Resolution


NEXT_LINKS = """
SELECT id, source_path, target_name, kind, target_path, target_type, via FROM note_links
WHERE id > %s ORDER BY id LIMIT %s
"""


def list_links(conn: Connection) -> Iterator[list[StoredLink]]:
    """All links of the index, a part at a time: a large vault has millions."""
    after = -1
    while rows := conn.execute(NEXT_LINKS, (after, LINKS_AT_ONCE)).fetchall():
        after = rows[-1][0]
        yield [
            StoredLink(link_id, source, target, kind, Resolution(path, target_type, via))
            for link_id, source, target, kind, path, target_type, via in rows
        ]


def _resolve_all(
    conn: Connection, reader: VaultReader, aliases: Mapping[str, Sequence[str]]
) -> tuple[int, int]:
    resolver = reader.make_resolver(aliases)
    count = resolved = 0
    with conn.transaction():
        for links in list_links(conn):
            resolutions = [
                resolver.resolve(link.target_name, link.source_path, cast(LinkKind, link.kind))
                for link in links
            ]
            pairs = zip(links, resolutions, strict=True)
            save_resolutions(conn, [(link.id, new) for link, new in pairs if link.resolution != new])
            count += len(links)
            resolved += sum(1 for resolution in resolutions if resolution.target_type != "unresolved")
    return count, resolved


DELETE_STRAY_LINKS = """
DELETE FROM note_links l
WHERE NOT EXISTS (SELECT FROM notes n WHERE n.file_path = l.source_path)
    AND NOT EXISTS (SELECT FROM documents d WHERE d.file_path = l.source_path)
"""


def delete_stray_links(conn: Connection) -> int:
    """Remove links whose note is not in the index; the first schema could leave some behind."""
    return conn.execute(DELETE_STRAY_LINKS).rowcount


def save_resolutions(conn: Connection, changed: Sequence[tuple[int, Resolution]]) -> None:
    """Write what links lead to."""
    if not changed:
        return
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
CREATE TEMPORARY TABLE wanted_names ON COMMIT DROP AS
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
SELECT text, node, uses::int AS uses, (uses / sum(uses) OVER (PARTITION BY node))::real AS share FROM shown
"""
DELETE_NAMES = """
DELETE FROM link_names n WHERE NOT EXISTS (
    SELECT FROM wanted_names w
    WHERE (w.text, w.node, w.uses, w.share) = (n.text, n.node, n.uses, n.share))
"""
NEW_NAMES = """
SELECT text, node, uses, share FROM wanted_names w
WHERE NOT EXISTS (SELECT FROM link_names n WHERE n.text = w.text AND n.node = w.node)
"""
COPY_NAMES = "COPY link_names (text, node, uses, share, key) FROM STDIN"


def refresh_link_names(conn: Connection) -> None:
    """Bring the names that links give to notes up to date; only rows that change are written."""
    with conn.transaction():
        conn.execute(LINK_NAMES)
        conn.execute(DELETE_NAMES)
        with conn.cursor("new_names") as new, conn.cursor() as cur:
            new.execute(NEW_NAMES)
            while rows := new.fetchmany(NAMES_AT_ONCE):
                with cur.copy(COPY_NAMES) as copy:
                    for row in rows:
                        copy.write_row((*row, analyze(row[0]).key))
