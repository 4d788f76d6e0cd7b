"""Lexemes that very many chunks hold: how many do, and the notes that say most of each.

A search need not read all postings of such a lexeme: it hardly tells notes apart, and where it does, the
best of its notes are known (champion lists: Manning, Raghavan and Schütze, "Introduction to Information
Retrieval", 2008, 7.1.3). They are counted when the index has grown or changed by a few percent; notes written
since are kept in `fresh_notes` and looked at by each such search.
"""

from __future__ import annotations

from collections.abc import Sequence

from obsidian_rag.postgres import Connection

FREQUENT = 1000  # chunks; fewer postings are read in a few milliseconds
CHAMPIONS = 200  # chunks of a lexeme whose notes are kept
MOST_CHANGE = 0.02  # of the notes written, or of the chunks come or gone, since they were counted

STATE = """
SELECT k.chunks, s.counted_chunks,
       coalesce(cardinality(s.fresh_notes), 0) > %(share)s * k.notes
           OR abs(k.chunks - s.counted_chunks) > %(share)s * s.counted_chunks
FROM keyword_stats k CROSS JOIN index_settings s
"""
# The share of a posting in a chunk's score, as BM25 has it with k1 = .9 and b = .4, but for the word's idf.
COUNT = """
INSERT INTO frequent_lexemes (lexeme, chunks, notes, champions)
SELECT f.lexeme, f.chunks, f.notes, c.champions
FROM (SELECT lexeme, count(*) AS chunks, count(DISTINCT note_id) AS notes
      FROM postings GROUP BY lexeme HAVING count(*) >= %(frequent)s) AS f
CROSS JOIN (SELECT greatest(chunk_length, 1)::float8 / greatest(chunks, 1) AS mean FROM keyword_stats) AS t
CROSS JOIN LATERAL (
    SELECT array_agg(DISTINCT note_id) AS champions FROM (
        SELECT note_id FROM postings p WHERE p.lexeme = f.lexeme
        ORDER BY (tf + field_tf) / (tf + field_tf + 0.54 + 0.36 * chunk_length / t.mean) DESC, note_id
        LIMIT %(champions)s) AS best) AS c
"""
ADD_FRESH = """
UPDATE index_settings SET fresh_notes = fresh_notes || %s::int[] WHERE counted_chunks IS NOT NULL
"""


def add_fresh(conn: Connection, note_ids: Sequence[int]) -> None:
    """Record notes that are written, in their transaction."""
    conn.execute(ADD_FRESH, (list(note_ids),))


def forget_frequent(conn: Connection) -> None:
    """Let searches read all postings until they are counted again: they were made anew."""
    conn.execute("TRUNCATE frequent_lexemes")
    conn.execute("UPDATE index_settings SET counted_chunks = NULL, fresh_notes = '{}'")


def count_frequent(conn: Connection) -> None:
    """Count the lexemes where the index has changed by more than MOST_CHANGE since that was done."""
    row = conn.execute(STATE, {"share": MOST_CHANGE}).fetchone()
    if row is None or row[0] < FREQUENT or (row[1] is not None and not row[2]):
        return
    with conn.transaction():
        conn.execute("DELETE FROM frequent_lexemes")
        conn.execute(COUNT, {"frequent": FREQUENT, "champions": CHAMPIONS})
        conn.execute("UPDATE index_settings SET counted_chunks = %s, fresh_notes = '{}'", (row[0],))
