"""The notes worth scoring for a query with words that very many chunks hold.

The best notes by its rarer words, and of each frequent word the notes that say most of it; see
`frequent_lexemes`. A note that is left out has but frequent words of the query, and of none of them as much
as 200 others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from obsidian_rag.postgres import Connection
from obsidian_rag.postings import K1, B

MOST_POSTINGS = 5_000  # of the frequent words of a query, which are read whole
MOST_CANDIDATES = 500

FREQUENT = """
SELECT t.word, t.lexeme, f.chunks, f.notes, f.champions
FROM unnest(%(lexemes)s::text[], %(words)s::int[]) AS t (lexeme, word)
JOIN frequent_lexemes f USING (lexeme)
"""
# Of the words that are read whole: how often they are, and the notes that score best by them alone.
BEST = """
WITH term AS (
    SELECT * FROM unnest(%(lexemes)s::text[], %(words)s::int[], %(weights)s::float8[])
        AS t (lexeme, word, weight)
), hit AS MATERIALIZED (
    SELECT t.word, t.weight, p.note_id, p.tf, p.field_tf, p.note_length
    FROM term t JOIN postings p USING (lexeme)
), note_hit AS MATERIALIZED (
    SELECT word, weight, note_id, sum(tf) + max(field_tf) AS tf, max(note_length) AS length,
           count(*) AS chunks
    FROM hit GROUP BY word, weight, note_id
), word AS (
    SELECT word, sum(chunks)::int AS chunks, count(*)::int AS notes FROM note_hit GROUP BY word
), total AS (
    SELECT notes, greatest(note_length, 1)::float8 / greatest(notes, 1) AS mean FROM keyword_stats
)
SELECT word, chunks, notes, ARRAY(
    SELECT note_id FROM note_hit h JOIN word w USING (word) CROSS JOIN total t
    GROUP BY note_id
    ORDER BY sum(h.weight * ln(1 + (greatest(t.notes - w.notes, 0) + 0.5) / (w.notes + 0.5))
        * h.tf / (h.tf + %(k1)s * (1 - %(b)s + %(b)s * h.length / t.mean))) DESC, note_id
    LIMIT %(most)s)
FROM word
"""
ALWAYS = """
SELECT unnest(fresh_notes) FROM index_settings
UNION SELECT id FROM notes WHERE file_path = ANY(%s)
"""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Note ids to score, and in how many chunks and notes each word of the query is."""

    notes: tuple[int, ...]
    chunk_counts: tuple[int, ...]
    note_counts: tuple[int, ...]


def choose_candidates(
    conn: Connection, lexemes: Sequence[tuple[str, int]], weights: Sequence[float], also: Sequence[str]
) -> Candidates | None:
    """The notes to score for words, given by their lexemes (lexeme, place of its word) and weights, and those
    in `also`; None where every note is to be scored, since no word is in so many chunks that it matters.
    """
    asked = {"lexemes": [lexeme for lexeme, _ in lexemes], "words": [word for _, word in lexemes]}
    chunks, notes = [0] * len(weights), [0] * len(weights)
    frequent = conn.execute(FREQUENT, asked).fetchall()
    left_out = _leave_out({row[1]: row[2] for row in frequent})
    if not left_out:
        return None
    champions: set[int] = set()
    for word, lexeme, in_chunks, in_notes, best in frequent:
        if lexeme in left_out:
            chunks[word] += in_chunks
            notes[word] += in_notes
            champions.update(best)
    whole = [(lexeme, word) for lexeme, word in lexemes if lexeme not in left_out]
    rows = conn.execute(
        BEST,
        {
            "lexemes": [lexeme for lexeme, _ in whole],
            "words": [word for _, word in whole],
            "weights": [weights[word] for _, word in whole],
            "most": MOST_CANDIDATES,
            "k1": K1,
            "b": B,
        },
    ).fetchall()
    for word, in_chunks, in_notes, _ in rows:
        chunks[word] += in_chunks
        notes[word] += in_notes
    found = champions.union(rows[0][3] if rows else ())
    found.update(row[0] for row in conn.execute(ALWAYS, (list(also),)).fetchall())
    return Candidates(tuple(sorted(found)), tuple(chunks), tuple(notes))


def _leave_out(chunks: Mapping[str, int]) -> set[str]:
    """The most frequent lexemes, beyond those of which MOST_POSTINGS are read."""
    left_out, postings = set(), 0
    for lexeme in sorted(chunks, key=lambda lexeme: (chunks[lexeme], lexeme)):
        postings += chunks[lexeme]
        if postings > MOST_POSTINGS:
            left_out.add(lexeme)
    return left_out
