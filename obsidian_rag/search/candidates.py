"""The postings that a query is scored by: of very frequent words only those in notes worth scoring.

Worth scoring are the best notes by the query's rarer words, and of each frequent word the notes that say most
of it; see `frequent_lexemes`. A note that is left out has but frequent words of the query, and of none of
them as much as 200 others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from obsidian_rag.postgres import Connection
from obsidian_rag.search.bm25 import (
    Counts,
    Postings,
    Totals,
    Weights,
    count_words,
    find_idf,
    join_postings,
    score_notes,
)

MOST_POSTINGS = 10_000  # of the frequent words of a query, which are read whole
MOST_CANDIDATES = 500

# Postings as bytes, one value for each lexeme: to hand ten thousand over as rows takes longer than to score
# them. An index-only scan.
_PACKED = """
SELECT string_agg(int4send(note_id) || int4send(chunk_index) || int2send(tf) || int2send(field_tf)
                  || int4send(chunk_length) || int4send(note_length), ''::bytea)
FROM postings p WHERE p.lexeme = t.lexeme
"""
_RECORD = np.dtype(
    [
        ("note", ">i4"),
        ("chunk", ">i4"),
        ("tf", ">i2"),
        ("field_tf", ">i2"),
        ("chunk_length", ">i4"),
        ("note_length", ">i4"),
    ]
)
# All postings of each lexeme; of the most frequent ones only how many there are, and their best notes.
LOAD = f"""
SELECT t.word, t.lexeme, CASE WHEN t.read_whole THEN ({_PACKED}) END, t.chunks, t.notes,
       CASE WHEN NOT t.read_whole THEN t.champions END
FROM (
    SELECT word, lexeme, chunks, notes, champions,
           %(most)s::bigint IS NULL OR chunks IS NULL
               OR sum(chunks) OVER (ORDER BY chunks, lexeme) <= %(most)s AS read_whole
    FROM unnest(%(lexemes)s::text[], %(words)s::int[]) AS asked (lexeme, word)
    LEFT JOIN frequent_lexemes USING (lexeme)) AS t
ORDER BY t.word, t.lexeme
"""  # noqa: S608 - a constant of this module, no value
LOAD_OF_NOTES = f"""
SELECT t.word, t.lexeme, ({_PACKED} AND note_id = ANY(%(notes)s::int[]))
FROM unnest(%(lexemes)s::text[], %(words)s::int[]) AS t (lexeme, word) ORDER BY t.word, t.lexeme
"""  # noqa: S608 - a constant of this module, no value
FRESH = "SELECT unnest(fresh_notes) FROM index_settings"

Lexemes = Sequence[tuple[str, int]]  # each with the place of its word in the query


@dataclass(frozen=True, slots=True)
class Found:
    """The postings to score, and in how many chunks and notes of the whole index each word is."""

    postings: Postings
    counts: Counts


def find_postings(
    conn: Connection, lexemes: Lexemes, weights: Weights, totals: Totals, also: Sequence[int], *, every: bool
) -> Found:
    """The postings of words to score. With `every`, or where no word is in so many chunks that it matters,
    those of all notes; else those of the candidates, with the notes in `also` among them.
    """
    words = len(weights.weight)
    asked = {
        "lexemes": [lexeme for lexeme, _ in lexemes],
        "words": [word for _, word in lexemes],
        "most": None if every else MOST_POSTINGS,
    }
    with conn.cursor(binary=True) as cursor:
        rows = cursor.execute(LOAD, asked).fetchall()
        whole = _unpack([(word, data) for word, _, data, *_ in rows])
        counts = count_words(whole, words)
        left_out = [row for row in rows if row[5] is not None]
        if not left_out:
            return Found(whole, counts)
        candidates = {*also, *(row[0] for row in cursor.execute(FRESH).fetchall())}
        candidates.update(_choose_best(whole, weights, counts, totals))
        candidates.update(note for row in left_out for note in row[5])
        for word, _, _, chunks, notes, _ in left_out:
            counts.chunks[word] += chunks
            counts.notes[word] += notes
        asked = {
            "lexemes": [row[1] for row in left_out],
            "words": [row[0] for row in left_out],
            "notes": sorted(candidates),
        }
        rest = _unpack([(word, data) for word, _, data in cursor.execute(LOAD_OF_NOTES, asked).fetchall()])
    kept = whole.keep(np.isin(whole.note, np.array(asked["notes"], dtype=np.int64)))
    return Found(join_postings((kept, rest)), counts)


def _unpack(rows: Sequence[tuple[int, bytes | None]]) -> Postings:
    """The postings in bytes of the words at such places."""
    packed = [np.frombuffer(data or b"", dtype=_RECORD) for _, data in rows]
    words = np.array([word for word, _ in rows], dtype=np.int64)
    entries = np.concatenate(packed) if packed else np.empty(0, dtype=_RECORD)
    columns = (entries[name].astype(np.int64) for name in _RECORD.names or ())
    return Postings(np.repeat(words, [len(part) for part in packed]), *columns)


def _choose_best(whole: Postings, weights: Weights, counts: Counts, totals: Totals) -> list[int]:
    """The notes that score best by the words that are read whole."""
    notes, scores = score_notes(whole, find_idf(counts.notes, totals.notes) * weights.weight, totals)
    best = np.lexsort((notes, -scores))[:MOST_CANDIDATES]
    return [int(note) for note in notes[best]]
