"""Lexemes that very many chunks hold: how many do, and the notes that say most of each.

A search need not read all postings of such a lexeme: it hardly tells notes apart, and where it does, the
best of its notes are known (champion lists: Manning, Raghavan and Schütze, "Introduction to Information
Retrieval", 2008, 7.1.3). They are counted when the index has grown or changed by a few percent; notes written
since are kept in `fresh_notes` and looked at by each such search.
"""

from __future__ import annotations

from collections.abc import Sequence

from obsidian_rag.postgres import Connection
from obsidian_rag.postings import K1, B

FREQUENT = 1000  # chunks; fewer postings are read in a few milliseconds
CHAMPIONS = 200  # notes of a lexeme that are kept, by either measure
MOST_CHANGE = 0.02  # of the notes written, or of the chunks come or gone, since they were counted

STATE = """
SELECT k.chunks, s.counted_chunks,
       coalesce(cardinality(s.fresh_notes), 0) > %(share)s * k.notes
           OR abs(k.chunks - s.counted_chunks) > %(share)s * s.counted_chunks
FROM keyword_stats k CROSS JOIN index_settings s
"""
# The best notes of a lexeme by what BM25 gives it in their best chunk or as wholes.
COUNT = """
WITH mean AS (
    SELECT greatest(chunk_length, 1)::float8 / greatest(chunks, 1) AS chunk,
           greatest(note_length, 1)::float8 / greatest(notes, 1) AS note
    FROM keyword_stats
)
INSERT INTO frequent_lexemes (lexeme, chunks, notes, champions)
SELECT f.lexeme, f.chunks, f.notes, c.champions
FROM (SELECT lexeme, count(*) AS chunks, count(DISTINCT note_id) AS notes
      FROM postings GROUP BY lexeme HAVING count(*) >= %(frequent)s) AS f
CROSS JOIN LATERAL (
    SELECT array_agg(note_id) AS champions FROM (
        SELECT note_id, row_number() OVER (ORDER BY in_chunk DESC, note_id) AS by_chunk,
               row_number() OVER (ORDER BY in_note DESC, note_id) AS by_note
        FROM (SELECT note_id,
                     max((tf + field_tf) / (tf + field_tf
                         + %(k1)s * (1 - %(b)s + %(b)s * chunk_length / mean.chunk))) AS in_chunk,
                     (sum(tf) + max(field_tf)) / (sum(tf) + max(field_tf)
                         + %(k1)s * (1 - %(b)s + %(b)s * max(note_length) / mean.note)) AS in_note
              FROM postings p CROSS JOIN mean WHERE p.lexeme = f.lexeme GROUP BY note_id, mean.note) AS share
    ) AS placed WHERE by_chunk <= %(champions)s OR by_note <= %(champions)s) AS c
"""
FORGET_CHAMPIONS = """
WITH gone AS (DELETE FROM frequent_lexemes WHERE champions && %s::int[] RETURNING 1)
UPDATE index_settings SET counted_chunks = 0 WHERE EXISTS (SELECT FROM gone)
"""
ADD_FRESH = """
UPDATE index_settings SET fresh_notes = fresh_notes || %s::int[] WHERE counted_chunks IS NOT NULL
"""


def add_fresh(conn: Connection, note_ids: Sequence[int]) -> None:
    """Record notes that are written, in their transaction."""
    conn.execute(ADD_FRESH, (list(note_ids),))


def forget_champions(conn: Connection, note_ids: Sequence[int]) -> None:
    """Let words be counted anew of which a note is deleted that is among the best, in its transaction."""
    conn.execute(FORGET_CHAMPIONS, (list(note_ids),))


def forget_frequent(conn: Connection) -> None:
    """Let searches read all postings until they are counted again: they were made anew."""
    with conn.transaction():
        conn.execute("DELETE FROM frequent_lexemes")
        conn.execute("UPDATE index_settings SET counted_chunks = NULL, fresh_notes = '{}'")


def count_frequent(conn: Connection) -> None:
    """Count the lexemes where the index has changed by more than MOST_CHANGE since that was done."""
    row = conn.execute(STATE, {"share": MOST_CHANGE}).fetchone()
    if row is None:
        return
    chunks, counted, has_changed = row
    if chunks < FREQUENT:
        if counted is not None:
            forget_frequent(conn)
    elif counted is None or has_changed:
        with conn.transaction():
            conn.execute("DELETE FROM frequent_lexemes")
            conn.execute(COUNT, {"frequent": FREQUENT, "champions": CHAMPIONS, "k1": K1, "b": B})
            conn.execute("UPDATE index_settings SET counted_chunks = %s, fresh_notes = '{}'", (chunks,))
