"""What is in the index: notes by path, topics, and how the index stands."""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from obsidian_rag.errors import NoteNotFound, QueryError
from obsidian_rag.postgres import Connection

NEAREST = 5

# A path as people write it: exact, without .md, in another case, its end, or the note's title.
FIND = """
SELECT file_path, CASE
    WHEN file_path = %(asked)s THEN 0
    WHEN file_path = %(asked)s || '.md' THEN 1
    WHEN lower(file_path) IN (lower(%(asked)s), lower(%(asked)s) || '.md') THEN 2
    WHEN right(lower(file_path), length(%(asked)s) + 1) = '/' || lower(%(asked)s) THEN 3
    WHEN right(lower(file_path), length(%(asked)s) + 4) = '/' || lower(%(asked)s) || '.md' THEN 3
    WHEN lower(title) = lower(%(asked)s) THEN 4
    WHEN lower(%(asked)s) = ANY (SELECT lower(alias) FROM unnest(aliases) AS alias) THEN 5
    END AS closeness
FROM notes
"""
FIND_CLOSEST = f"""
SELECT file_path FROM (
    SELECT file_path, closeness, min(closeness) OVER () AS least FROM ({FIND}) AS f
    WHERE closeness IS NOT NULL) AS found
WHERE closeness = least ORDER BY file_path LIMIT 20
"""  # noqa: S608 - a constant of this module, no value


@dataclass(frozen=True, slots=True)
class StoredText:
    """A note as it was indexed. `content` is the whole file's text, front matter included."""

    file_path: str
    title: str
    content: str
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    modified_at: datetime
    indexed_at: datetime

    def to_json(self) -> dict[str, Any]:
        """The object that `note --json` prints and the tool returns."""
        return asdict(self) | {
            "modified_at": self.modified_at.isoformat(),
            "indexed_at": self.indexed_at.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class Topic:
    """A top-level folder; `name` is empty for notes at the vault's root."""

    name: str
    notes: int
    chunks: int


def find_note(conn: Connection, file_path: str) -> str:
    """The path in the index that is meant. Raises NoteNotFound with the nearest paths, also where several
    notes are meant equally.
    """
    asked = file_path.strip().replace("\x00", "").removeprefix("./").strip("/")
    if not asked:
        raise QueryError("file_path is empty", "Name a note, as in a search result.")
    found = [row[0] for row in conn.execute(FIND_CLOSEST, {"asked": asked}).fetchall()]
    if len(found) == 1:
        return str(found[0])
    if found:
        raise NoteNotFound(
            f"{file_path!r} may be any of {len(found)} notes",
            "Use one of these paths: " + ", ".join(found),
            tuple(found),
        )
    nearest = _find_nearest(conn, asked)
    mend = "Nearest paths: " + ", ".join(nearest) if nearest else "Run: obsidian-rag topics"
    raise NoteNotFound(f"No note {file_path!r} in the index", mend, nearest)


def _find_nearest(conn: Connection, asked: str) -> tuple[str, ...]:
    paths = [row[0] for row in conn.execute("SELECT file_path FROM notes ORDER BY file_path").fetchall()]
    stem = _stem(asked)
    by_stem: dict[str, list[str]] = {}
    for path in paths:
        by_stem.setdefault(_stem(path), []).append(path)
    inside = [p for s, found in by_stem.items() if stem in s for p in found]
    close = difflib.get_close_matches(stem, by_stem, n=NEAREST, cutoff=0.5)
    ranked = dict.fromkeys([*(p for s in close for p in by_stem[s]), *inside])
    return tuple(list(ranked)[:NEAREST])


def _stem(path: str) -> str:
    return path.rsplit("/", 1)[-1].lower().removesuffix(".md")


def load_note(conn: Connection, file_path: str) -> StoredText:
    """A note's text, whole. Raises NoteNotFound."""
    row = conn.execute(
        "SELECT file_path, title, content, aliases, tags, modified_at, indexed_at FROM notes"
        " WHERE file_path = %s",
        (find_note(conn, file_path),),
    ).fetchone()
    if row is None:
        raise NoteNotFound(f"The note {file_path!r} was removed just now", "Search again.")
    return StoredText(row[0], row[1], row[2], tuple(row[3]), tuple(row[4]), row[5], row[6])


TOPICS = """
SELECT CASE WHEN n.file_path LIKE '%/%' THEN split_part(n.file_path, '/', 1) ELSE '' END AS topic,
       count(*), coalesce(sum(d.chunks), 0)::int
FROM notes n
LEFT JOIN (SELECT file_path, count(*) AS chunks FROM documents GROUP BY file_path) AS d USING (file_path)
GROUP BY topic ORDER BY topic
"""


def list_topics(conn: Connection) -> list[Topic]:
    """The top-level folders with their notes and chunks."""
    return [Topic(*row) for row in conn.execute(TOPICS).fetchall()]


STATUS = """
SELECT (SELECT count(*) FROM notes), (SELECT count(*) FROM documents),
       (SELECT count(*) FROM note_links),
       (SELECT count(*) FROM note_links WHERE target_type = 'unresolved'),
       (SELECT to_jsonb(s) - 'only_row' FROM index_settings s),
       (SELECT to_jsonb(r) FROM last_run r),
       (SELECT to_jsonb(r) - 'report' FROM index_runs r WHERE status IN ('ok', 'partial')
        ORDER BY run_id DESC LIMIT 1),
       (SELECT coalesce(jsonb_agg(to_jsonb(f)), '[]') FROM failures f),
       pg_database_size(current_database())
"""


def load_status(conn: Connection) -> dict[str, Any]:
    """How the index stands: counts, settings, the last run, the last good one, present failures."""
    row = conn.execute(STATUS).fetchone()
    assert row is not None
    names = (
        "notes", "chunks", "links", "broken_links", "settings", "last_run", "last_good_run", "failures",
        "database_bytes",
    )  # fmt: skip
    return dict(zip(names, row, strict=True))
