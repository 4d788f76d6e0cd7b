"""The words that keyword search looks in: one way to make them, whenever that is done.

They are made when a note is stored or taken over, and anew when the text search configuration or the
analysis changes; always from what the index holds, never from the vault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg.rows import dict_row

from obsidian_rag.analysis import analyze, strip_extension
from obsidian_rag.languages import AUTO, choose_config
from obsidian_rag.postgres import Connection
from obsidian_rag.postings import KEYWORD_VERSION, ChunkWords, NoteWords, write_postings

NOTES_AT_ONCE = 100

CONTENT_TSV = "to_tsvector(%(config)s::regconfig, %(content)s::text)"
# Path terms weigh most, then the heading path, then the text; for phrases and exclusions.
SEARCH_TSV = """
setweight(to_tsvector(%(config)s::regconfig, %(path_terms)s::text), 'A')
|| setweight(to_tsvector(%(config)s::regconfig, %(heading_words)s::text), 'B')
|| setweight(to_tsvector(%(config)s::regconfig, %(content_words)s::text), 'D')
"""
SAVE_KEYWORDS = f"""
UPDATE documents SET path_terms = %(path_terms)s, search_tsv = {SEARCH_TSV},
    content_tsv = CASE WHEN %(keep)s THEN coalesce(content_tsv, {CONTENT_TSV}) ELSE {CONTENT_TSV} END
WHERE id = %(id)s
"""  # noqa: S608 - constants of this module, no value
NEXT_NOTES = """
SELECT id, file_path, title, aliases, content, front_matter -> 'title' AS called FROM notes
WHERE id > %(after)s AND (keyword_version IS DISTINCT FROM %(version)s OR %(everything)s)
ORDER BY id LIMIT %(limit)s
"""
CHUNKS = """
SELECT id, chunk_index, heading, coalesce(nullif(heading_path, ''), heading, '') AS heading_path, overlap,
       content
FROM documents WHERE file_path = %s ORDER BY chunk_index
"""


def keyword_values(config: str, file_path: str, heading_path: str, content: str) -> dict[str, Any]:
    """The parameters of SEARCH_TSV and CONTENT_TSV for a chunk."""
    return {
        "config": config,
        "path_terms": analyze(strip_extension(file_path)).words,
        "heading_words": analyze(heading_path).words,
        "content_words": analyze(content).words,
        "content": content,
    }


def list_configs(conn: Connection) -> frozenset[str]:
    """The text search configurations the database has."""
    return frozenset(row[0] for row in conn.execute("SELECT cfgname FROM pg_ts_config").fetchall())


def pick_config(setting: str, text: str, available: frozenset[str]) -> str:
    """The configuration of a note: that of the setting, or the one of its language."""
    return choose_config(text, available) if setting == AUTO else setting


def refresh_keywords(conn: Connection, setting: str, *, everything: bool) -> int:
    """Make the keyword data of notes that have none of this version, or of all; return of how many notes.

    Nothing is embedded. A `content_tsv` that is there is kept unless everything is made anew.
    """
    available = list_configs(conn)
    asked = {"version": KEYWORD_VERSION, "everything": everything, "limit": NOTES_AT_ONCE, "after": 0}
    done = 0
    while True:
        with conn.transaction(), conn.cursor(row_factory=dict_row) as cur:
            notes = cur.execute(NEXT_NOTES, asked).fetchall()
            if not notes:
                return done
            for note in notes:
                config = pick_config(setting, note["content"], available)
                write_keywords(conn, note, config, keep=not everything)
            done += len(notes)
            asked["after"] = notes[-1]["id"]


def write_keywords(conn: Connection, note: dict[str, Any], config: str, *, keep: bool) -> None:
    """Make a stored note's keyword data from its chunks. `note` has id, file_path, title, aliases
    and `called`, its property title.
    """
    with conn.cursor(row_factory=dict_row) as cur:
        rows = cur.execute(CHUNKS, (note["file_path"],)).fetchall()
        values = [
            keyword_values(config, note["file_path"], row["heading_path"], row["content"])
            | {"id": row["id"], "keep": keep}
            for row in rows
        ]
        cur.executemany(SAVE_KEYWORDS, values)
    write_postings(conn, note["id"], _words_of(note, config, rows))
    conn.execute(
        "UPDATE notes SET fts_config = %s, keyword_version = %s WHERE id = %s",
        (config, KEYWORD_VERSION, note["id"]),
    )


def _words_of(note: dict[str, Any], config: str, rows: Sequence[dict[str, Any]]) -> NoteWords:
    return NoteWords(
        file_path=note["file_path"],
        title=note["title"],
        aliases=tuple(note["aliases"]),
        called=note["called"],
        config=config,
        chunks=tuple(
            ChunkWords(
                row["chunk_index"], row["heading"], row["heading_path"], row["content"][row["overlap"] :]
            )
            for row in rows
        ),
    )
