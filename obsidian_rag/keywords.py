"""The words that keyword search looks in: one way to make them, whenever that is done.

They are made when a note is stored or taken over, and anew when the text search configuration or the
analysis changes; always from what the index holds, never from the vault.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from psycopg.rows import dict_row

from obsidian_rag.frequent_lexemes import forget_frequent
from obsidian_rag.languages import AUTO, choose_config
from obsidian_rag.postgres import Connection
from obsidian_rag.postings import KEYWORD_VERSION, delete_postings, gather_terms, write_postings
from obsidian_rag.terms import ChunkText, NoteTerms, NoteText, make_terms

NOTES_AT_ONCE = 100

# Of a row of arriving_terms: path terms weigh most, then the heading path, then the text; for phrases and
# exclusions.
SEARCH_TSV = """
setweight(to_tsvector(t.config, t.path), 'A') || setweight(t.heading_tsv, 'B') || setweight(t.word_tsv, 'D')
"""
SAVE_KEYWORDS = f"""
UPDATE documents d SET path_terms = t.path, search_tsv = {SEARCH_TSV},
    content_tsv = CASE WHEN %(keep)s THEN coalesce(d.content_tsv, to_tsvector(t.config, d.content))
                       ELSE to_tsvector(t.config, d.content) END
FROM arriving_terms t JOIN notes n ON n.id = t.note_id
WHERE d.file_path = n.file_path AND d.chunk_index = t.chunk_index
"""  # noqa: S608 - constants of this module, no value
NEXT_NOTES = """
SELECT id, file_path, title, aliases, content, front_matter -> 'title' AS called FROM notes
WHERE id > %(after)s AND (keyword_version IS DISTINCT FROM %(version)s OR %(everything)s)
ORDER BY id LIMIT %(limit)s
"""
CHUNKS = """
SELECT file_path, chunk_index, heading, coalesce(nullif(heading_path, ''), heading, ''), content, overlap
FROM documents WHERE file_path = ANY(%s) ORDER BY file_path, chunk_index
"""
MARK_NOTES = """
UPDATE notes SET fts_config = u.config, keyword_version = %s
FROM unnest(%s::int[], %s::text[]) AS u (id, config) WHERE notes.id = u.id
"""


# One that needs quotes or its schema's name is none: its name is written with each note and query.
PLAIN_CONFIGS = """
SELECT cfgname FROM pg_ts_config WHERE pg_ts_config_is_visible(oid) AND quote_ident(cfgname) = cfgname
"""
# The commonest first.
RECORD_CONFIGS = """
UPDATE index_settings SET fts_configs = ARRAY(
    SELECT fts_config FROM notes WHERE fts_config IS NOT NULL
    GROUP BY fts_config ORDER BY count(*) DESC, fts_config)
"""
ADD_CONFIGS = """
UPDATE index_settings
SET fts_configs = fts_configs || ARRAY(SELECT name FROM unnest(%(names)s::text[]) AS name
                                       WHERE name <> ALL(fts_configs))
WHERE fts_configs <> '{}' AND NOT fts_configs @> %(names)s::text[]
"""


def record_configs(conn: Connection) -> None:
    """Record the configurations of the notes, so that a search need not look at each note for them."""
    conn.execute(RECORD_CONFIGS)


def add_configs(conn: Connection, names: Iterable[str]) -> None:
    """Record configurations of notes that are written, in their transaction."""
    conn.execute(ADD_CONFIGS, {"names": sorted(set(names))})


def list_configs(conn: Connection) -> frozenset[str]:
    """The text search configurations that the database has under a plain name."""
    return frozenset(row[0] for row in conn.execute(PLAIN_CONFIGS).fetchall())


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
                break
            configs = [pick_config(setting, note["content"], available) for note in notes]
            write_keywords(conn, notes, configs, keep=not everything)
            done += len(notes)
            asked["after"] = notes[-1]["id"]
    if done:
        forget_frequent(conn)
    return done


def write_keywords(
    conn: Connection, notes: Sequence[dict[str, Any]], configs: Sequence[str], *, keep: bool
) -> None:
    """Make the keyword data of stored notes from their chunks. Each note has id, file_path, title, aliases
    and `called`, its property title; `configs` has its configuration.
    """
    rows = conn.execute(CHUNKS, ([note["file_path"] for note in notes],)).fetchall()
    chunks = {
        path: tuple(ChunkText(*row[1:]) for row in group) for path, group in groupby(rows, lambda row: row[0])
    }
    terms = [
        (note["id"], _make_terms(note, chunks.get(note["file_path"], ()), config))
        for note, config in zip(notes, configs, strict=True)
    ]
    gather_terms(conn, terms)
    conn.execute(SAVE_KEYWORDS, {"keep": keep})
    ids = [note["id"] for note in notes]
    delete_postings(conn, ids)
    write_postings(conn, terms)
    conn.execute(MARK_NOTES, (KEYWORD_VERSION, ids, list(configs)))
    add_configs(conn, configs)


def _make_terms(note: dict[str, Any], chunks: tuple[ChunkText, ...], config: str) -> NoteTerms:
    text = NoteText(note["file_path"], note["title"], tuple(note["aliases"]), note["called"], chunks)
    return make_terms(text, config)
