"""How far the vectors of an index are to be trusted beside its words, measured without labels.

The first words of a chunk's own sentence are a question whose answer is known. Both retrievers look for the
chunks of about 200 such questions among up to 2,000 chunks. With r = MRR of the vectors / MRR of the words,
`g = (r - FLOOR) / (1 - FLOOR)`, kept in [LEAST_G, 1]. A model that does not know the notes' language finds a
few of these by signs they have in common; FLOOR is about what that is worth. Eight words are about as long as
what people ask; whole sentences are so easy that a weak model passes.

The same cosines tell how near to a question a chunk is that has nothing to do with it.
"""

from __future__ import annotations

import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from psycopg import sql

from obsidian_rag.analysis import analyze_query
from obsidian_rag.embedding import Vector
from obsidian_rag.models import Calibration
from obsidian_rag.postgres import Connection
from obsidian_rag.postings import K1, B
from obsidian_rag.store import as_array

QUESTIONS = 200
POOL = 2000
LEAST_CHUNKS = 100  # under which the measurement is noise
LEAST_WORDS, MOST_WORDS = 5, 8  # of a sentence; a script without spaces counts characters
REMEASURE = 1.5  # times the chunks of the last measurement, more or fewer
FLOOR = 0.1
LEAST_G = 0.05

LIST_CHUNKS = sql.SQL("SELECT id FROM {table} ORDER BY file_path, chunk_index")
SAMPLE_CHUNKS = sql.SQL("""
SELECT n.id, d.chunk_index, d.content, d.embedding, n.fts_config
FROM {table} d JOIN notes n USING (file_path)
WHERE d.id = ANY(%s) ORDER BY d.file_path, d.chunk_index
""")
_SENTENCE = re.compile(r"[^.!?。！？\n]+")
_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\u0e00-\u0e7f]|[^\W_]+")
QUERY_LEXEMES = """
SELECT q.ordinal::int - 1, v.lexeme
FROM unnest(%(configs)s::text[], %(sentences)s::text[]) WITH ORDINALITY AS q (config, sentence, ordinal),
     unnest(to_tsvector(q.config::regconfig, q.sentence)) AS v
"""
SAMPLE_POSTINGS = """
SELECT c.ordinal::int - 1, p.lexeme, p.tf + p.field_tf, p.chunk_length
FROM unnest(%(notes)s::int[], %(chunks)s::int[]) WITH ORDINALITY AS c (note_id, chunk_index, ordinal)
JOIN postings p ON p.note_id = c.note_id AND p.chunk_index = c.chunk_index
"""


def needs_measuring(chunks: int, measured_at: int | None) -> bool:
    """Whether an index of so many chunks has outgrown its last measurement."""
    if chunks < LEAST_CHUNKS:
        return False
    return measured_at is None or not measured_at / REMEASURE <= chunks <= measured_at * REMEASURE


def measure(
    conn: Connection, embed_query: Callable[[str], Vector], table: str = "documents"
) -> Calibration | None:
    """Measure an index; None where its notes hold too few sentences. `table` is one like `documents`.

    The choice of chunks is the same for the same index. Raises EmbedderError.
    """
    chunks = sql.Identifier(table)
    ids = [row[0] for row in conn.execute(LIST_CHUNKS.format(table=chunks))]
    chance = random.Random(len(ids))
    rows = conn.execute(
        SAMPLE_CHUNKS.format(table=chunks), (chance.sample(ids, min(POOL, len(ids))),)
    ).fetchall()
    asked = chance.sample(range(len(rows)), min(QUESTIONS, len(rows)))
    questions = [(i, s) for i in asked if (s := _pick_sentence(rows[i][2], chance))]
    if len(questions) < LEAST_CHUNKS // 2:
        return None
    vectors = np.stack([as_array(row[3]) for row in rows])
    by_vector = np.stack([vectors @ embed_query(sentence) for _, sentence in questions])
    by_words = _score_words(conn, rows, questions)
    targets = [i for i, _ in questions]
    ratio = _mean_reciprocal_rank(by_vector, targets) / _mean_reciprocal_rank(by_words, targets)
    g = min(1.0, max(LEAST_G, (ratio - FLOOR) / (1 - FLOOR)))
    return Calibration(round(g, 3), float(by_vector.mean()), float(by_vector.std()), len(questions))


def _pick_sentence(content: str, chance: random.Random) -> str:
    """The first words of one of a chunk's sentences; empty where none has LEAST_WORDS."""
    found = []
    for sentence in _SENTENCE.findall(content):
        words = list(_WORDS.finditer(sentence))
        if len(words) >= LEAST_WORDS:
            found.append(sentence[words[0].start() : words[:MOST_WORDS][-1].end()])
    return chance.choice(found) if found else ""


def _score_words(conn: Connection, rows: Sequence[Any], questions: Sequence[tuple[int, str]]) -> np.ndarray:
    """BM25 of every sampled chunk for every question, shape (questions, chunks), within the sample."""
    asked = conn.execute(
        QUERY_LEXEMES,
        {
            "configs": [rows[i][4] or "simple" for i, _ in questions],
            "sentences": [analyze_query(sentence).words for _, sentence in questions],
        },
    ).fetchall()
    by_lexeme: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
    lengths = np.zeros(len(rows))
    sample = {"notes": [row[0] for row in rows], "chunks": [row[1] for row in rows]}
    for chunk, lexeme, tf, length in conn.execute(SAMPLE_POSTINGS, sample).fetchall():
        by_lexeme[lexeme].append((chunk, tf, length))
        lengths[chunk] = length
    mean = max(float(lengths.mean()), 1.0)
    scores = np.zeros((len(questions), len(rows)))
    for question, lexeme in asked:
        found = by_lexeme[lexeme]
        idf = math.log(1 + (len(rows) - len(found) + 0.5) / (len(found) + 0.5))
        for chunk, tf, length in found:
            scores[question, chunk] += idf * tf / (tf + K1 * (1 - B + B * length / mean))
    return scores


def _mean_reciprocal_rank(scores: np.ndarray, targets: Sequence[int]) -> float:
    """MRR of the target column in each row; ties count as half before, half behind."""
    own = scores[np.arange(len(targets)), targets][:, None]
    rank = 1 + (scores > own).sum(axis=1) + ((scores == own).sum(axis=1) - 1) / 2
    return float((1 / rank).mean())
