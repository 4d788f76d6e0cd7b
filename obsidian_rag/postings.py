"""The rows that BM25 and the search for names read: written with each note, in its transaction.

Made from a note's chunks as they are stored, never from the vault, so that they can be made anew whenever
the analysis changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from obsidian_rag.analysis import (
    LONGEST_NAME,
    LONGEST_TERM,
    Terms,
    analyze,
    list_keys,
    list_trigrams,
    strip_extension,
)
from obsidian_rag.naming import list_parts
from obsidian_rag.postgres import Connection

# Raise when the analysis changes: the next run makes the postings of all notes anew, embedding nothing.
KEYWORD_VERSION = 3

# Measured on five collections: names at 3 gain where titles are asked for and cost nothing elsewhere; the
# heading path beyond 1 gains nothing, since the heading is in the text as well.
NAME_WEIGHT = 3
HEADING_WEIGHT = 1


@dataclass(frozen=True, slots=True)
class ChunkWords:
    """What of a chunk is counted: its own text (without overlap) and its heading path."""

    chunk_index: int
    heading: str | None
    heading_path: str
    text: str


@dataclass(frozen=True, slots=True)
class NoteWords:
    """What of a note is counted and named. `called` is its property title, whatever that holds."""

    file_path: str
    title: str
    aliases: tuple[str, ...]
    called: Any
    config: str
    chunks: tuple[ChunkWords, ...]


TOTALS = """
SELECT count(DISTINCT note_id), count(*), coalesce(sum(chunk_length), 0), coalesce(sum(note_length), 0) FROM (
    SELECT note_id, chunk_index, max(chunk_length) AS chunk_length,
           CASE WHEN row_number() OVER (PARTITION BY note_id ORDER BY chunk_index) = 1
                THEN max(note_length) ELSE 0 END AS note_length
    FROM postings WHERE note_id = ANY(%s) GROUP BY note_id, chunk_index) AS chunk
"""
ADD_TOTALS = """
UPDATE keyword_stats SET notes = notes + %s, chunks = chunks + %s, chunk_length = chunk_length + %s,
    note_length = note_length + %s
"""
# The sums as they should be, over everything.
COUNT_ALL = """
WITH chunk AS (
    SELECT note_id, max(chunk_length) AS chunk_length, max(note_length) AS note_length
    FROM postings GROUP BY note_id, chunk_index),
note AS (SELECT max(note_length) AS note_length FROM chunk GROUP BY note_id)
SELECT (SELECT count(*) FROM note) AS notes, count(*) AS chunks,
       coalesce(sum(chunk_length), 0)::bigint AS chunk_length,
       coalesce((SELECT sum(note_length) FROM note), 0)::bigint AS note_length
FROM chunk
"""
SAVE_TOTALS = f"""
INSERT INTO keyword_stats (notes, chunks, chunk_length, note_length) {COUNT_ALL}
ON CONFLICT (only_row) DO UPDATE SET notes = excluded.notes, chunks = excluded.chunks,
    chunk_length = excluded.chunk_length, note_length = excluded.note_length
"""
DELETE_STRAY_POSTINGS = "DELETE FROM postings p WHERE NOT EXISTS (SELECT FROM notes n WHERE n.id = p.note_id)"
DELETE_STRAY_NAMES = "DELETE FROM note_names w WHERE NOT EXISTS (SELECT FROM notes n WHERE n.id = w.note_id)"
INSERT_POSTINGS = """
WITH chunk AS (
    SELECT * FROM unnest(%(indexes)s::int[], %(texts)s::text[], %(wholes)s::text[], %(headings)s::text[])
        AS c (chunk_index, text, wholes, heading)
), found AS (
    SELECT chunk_index, v.lexeme, cardinality(v.positions) AS tf, 0 AS field_tf
    FROM chunk, unnest(to_tsvector(%(config)s::regconfig, text)) AS v
    UNION ALL
    SELECT chunk_index, whole, 1, 0 FROM chunk, unnest(string_to_array(wholes, ' ')) AS whole
    UNION ALL
    SELECT chunk_index, v.lexeme, 0, cardinality(v.positions) * %(heading_weight)s
    FROM chunk, unnest(to_tsvector(%(config)s::regconfig, heading)) AS v
    UNION ALL
    SELECT chunk_index, v.lexeme, 0, cardinality(v.positions) * %(name_weight)s
    FROM chunk, unnest(to_tsvector(%(config)s::regconfig, %(names)s::text)) AS v
    UNION ALL
    SELECT chunk_index, whole, 0, %(name_weight)s
    FROM chunk, unnest(string_to_array(%(name_wholes)s::text, ' ')) AS whole
), term AS (
    SELECT chunk_index, lexeme, sum(tf) AS tf, sum(field_tf) AS field_tf
    FROM found WHERE lexeme <> '' AND octet_length(lexeme) <= 1000 GROUP BY chunk_index, lexeme
), sized AS (
    SELECT *, sum(tf) OVER (PARTITION BY chunk_index) AS text_length,
           sum(field_tf) OVER (PARTITION BY chunk_index) AS field_length
    FROM term
)
INSERT INTO postings (lexeme, note_id, chunk_index, tf, field_tf, chunk_length, note_length)
SELECT lexeme, %(note_id)s, chunk_index, least(tf, 32767), least(field_tf, 32767),
       text_length + field_length, sum(tf) OVER () + max(field_length) OVER ()
FROM sized
ORDER BY lexeme, chunk_index
"""
INSERT_NAME = """
INSERT INTO note_names (note_id, kind, name, key, words, trigrams) VALUES (%s, %s, %s, %s, %s, %s)
"""


def write_postings(conn: Connection, note_id: int, note: NoteWords) -> None:
    """Replace a note's postings and names and bring the sums up to date, in the note's transaction."""
    _add_totals(conn, [note_id], -1)
    _delete(conn, [note_id])
    texts = [analyze(chunk.text) for chunk in note.chunks]
    names = analyze(" ".join((strip_extension(note.file_path), *note.aliases)))
    conn.execute(
        INSERT_POSTINGS,
        {
            "note_id": note_id,
            "config": note.config,
            "indexes": [chunk.chunk_index for chunk in note.chunks],
            "texts": [terms.words for terms in texts],
            "wholes": [_join_wholes(terms) for terms in texts],
            "headings": [analyze(chunk.heading_path).words for chunk in note.chunks],
            "names": names.words,
            "name_wholes": _join_wholes(names),
            "heading_weight": HEADING_WEIGHT,
            "name_weight": NAME_WEIGHT,
        },
    )
    _add_totals(conn, [note_id], 1)
    with conn.cursor() as cur:
        cur.executemany(INSERT_NAME, [(note_id, *row) for row in _list_names(note)])


def delete_postings(conn: Connection, note_ids: Sequence[int]) -> None:
    """Remove the postings and names of notes. Call it in the transaction that removes the notes."""
    _add_totals(conn, note_ids, -1)
    _delete(conn, note_ids)


def repair_postings(conn: Connection) -> None:
    """Remove what belongs to no note and count the sums anew, in one transaction. For a table that somebody
    changed by hand: with every note the rows of that note are replaced, but no others.
    """
    with conn.transaction():
        conn.execute(DELETE_STRAY_POSTINGS)
        conn.execute(DELETE_STRAY_NAMES)
        conn.execute(SAVE_TOTALS)


def tidy_postings(conn: Connection) -> None:
    """After many changes: let index-only scans see that the rows are settled, and the planner their number.

    Without ownership of the table PostgreSQL skips it with a warning; searches are only slower then.
    """
    conn.execute("VACUUM (ANALYZE) postings")


def _delete(conn: Connection, note_ids: Sequence[int]) -> None:
    conn.execute("DELETE FROM postings WHERE note_id = ANY(%s)", (list(note_ids),))
    conn.execute("DELETE FROM note_names WHERE note_id = ANY(%s)", (list(note_ids),))


def _add_totals(conn: Connection, note_ids: Sequence[int], sign: int) -> None:
    row = conn.execute(TOTALS, (list(note_ids),)).fetchone()
    assert row is not None
    if any(row):
        conn.execute(ADD_TOTALS, [sign * total for total in row])


def _join_wholes(terms: Terms) -> str:
    return " ".join(terms.wholes)


def _list_names(note: NoteWords) -> Iterable[tuple[str, str, str, list[str], list[str]]]:
    """Rows of note_names: kind, name, key, words and trigrams, those two where they are looked for."""
    seen: set[tuple[str, str]] = set()
    called = list(_list_called(note))
    kinds = [("title", note.title), *(("alias", a) for a in note.aliases)]
    kinds += [("heading", heading) for heading in dict.fromkeys(c.heading for c in note.chunks) if heading]
    kinds += [("called", name) for name in called]
    for kind, name in kinds:
        for key in list_keys(name):
            if (kind, key) in seen:
                continue
            seen.add((kind, key))
            trigrams = list_trigrams(key[: LONGEST_TERM * 2]) if kind in ("title", "alias") else []
            words = {word for word in key.split() if len(word) <= LONGEST_TERM} if kind != "called" else ()
            yield kind, name, key, sorted(words), trigrams
    whole = {key for kind, key in seen if kind != "heading"}
    for kind, name, key in list_parts([note.title, *note.aliases, *called]):
        if key not in whole:
            yield kind, name, key, [], []


def _list_called(note: NoteWords) -> Iterable[str]:
    """What a note calls itself: its property title, and its first heading if that is of the first level."""
    if isinstance(note.called, str) and note.called.strip() and len(note.called) <= LONGEST_NAME:
        yield note.called
    first = next((chunk for chunk in note.chunks if chunk.heading), None)
    if first and first.heading and first.text.lstrip().startswith("# "):
        yield first.heading
