"""BM25 of notes and of their chunks, from postings.

Score of a unit d for a query, Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and
Beyond", 2009: sum over words of `idf * tf / (tf + k1 * (1 - b + b * length / mean length))` with
`idf = ln(1 + (N - df + 0.5) / (df + 0.5))`. Without the usual factor k1 + 1 and divided by the sum of the
query's idf it lies in [0, 1), which makes it comparable between queries.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obsidian_rag.postings import K1, B

Numbers = NDArray[np.int64]
Scores = NDArray[np.float64]

MOST_FURTHER = 2  # chunks of a note that are told beside its best one


@dataclass(frozen=True)
class Postings:
    """Occurrences of the words of a query, one entry for each lexeme and chunk: arrays of one length.

    `word` is the place of the word in the query. A word with several lexemes may have several entries in a
    chunk.
    """

    word: Numbers
    note: Numbers
    chunk: Numbers
    tf: Numbers
    field_tf: Numbers
    chunk_length: Numbers
    note_length: Numbers

    def keep(self, chosen: NDArray[np.bool_]) -> Postings:
        """The entries for which `chosen` holds."""
        return Postings(*(column[chosen] for column in self.columns))

    @property
    def columns(self) -> tuple[Numbers, ...]:
        """The arrays, in the order of the fields."""
        return (
            self.word, self.note, self.chunk, self.tf, self.field_tf, self.chunk_length, self.note_length
        )  # fmt: skip

    @cached_property
    def pairs(self) -> Groups:
        """The entries by note and word: to count words and to score notes they are sorted once."""
        return _group(_key(self.note, self.word))


def join_postings(parts: Sequence[Postings]) -> Postings:
    """All entries of several."""
    columns = zip(*(part.columns for part in parts), strict=True)
    return Postings(*(np.concatenate(column) for column in columns))


@dataclass(frozen=True, slots=True)
class Counts:
    """Of each word of a query, how many chunks and how many notes hold it: arrays of one entry a word."""

    chunks: Numbers
    notes: Numbers


@dataclass(frozen=True, slots=True)
class Totals:
    """How large the index is: notes, chunks, and their mean lengths in terms."""

    notes: int
    chunks: int
    note_mean: float
    chunk_mean: float


@dataclass(frozen=True, slots=True)
class Scored:
    """A note with its score in [0, 1), its best chunk and how many words that holds, and others of its chunks
    that are nearly as good.
    """

    note: int
    score: float
    chunk: int
    matched: int
    further: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Weights:
    """What a word of the query counts, and whether it is missed where it is not found."""

    weight: NDArray[np.float64]
    optional: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Groups:
    """Entries by a key: `order` sorts them, each group begins at one of `starts`; `keys` are ascending."""

    order: Numbers
    starts: Numbers
    keys: Numbers

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.add.reduceat(values[self.order], self.starts)

    def max(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.maximum.reduceat(values[self.order], self.starts)


def _group(keys: Numbers) -> Groups:
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1)) if len(ordered) else order
    return Groups(order, starts, ordered[starts])


def count_words(postings: Postings, words: int) -> Counts:
    """How many chunks and notes hold each of so many words."""
    return Counts(
        np.bincount(postings.word, minlength=words),
        np.bincount(postings.pairs.keys & _LOW, minlength=words),
    )


def score_notes(postings: Postings, idf: Scores, totals: Totals) -> tuple[Numbers, Scores]:
    """The notes, ascending, and what BM25 gives each as a whole. What is beside the text, its name and its
    headings, counts once for a note, however many chunks repeat it.
    """
    if not len(postings.note):
        return postings.note, np.empty(0)
    pairs = postings.pairs
    tf = pairs.sum(postings.tf) + pairs.max(postings.field_tf)
    part = idf[pairs.keys & _LOW] * _saturate(tf, pairs.max(postings.note_length), totals.note_mean)
    notes = _group(pairs.keys >> _LOW_BITS)
    return notes.keys, notes.sum(part)


def rank_notes(
    postings: Postings,
    weights: Weights,
    counts: Counts,
    totals: Totals,
    *,
    share: float,
    nearly: float,
    count: int,
    also: Collection[int] = (),
    allowed: Sequence[int] | None = None,
    strict: Sequence[tuple[int, int]] | None = None,
) -> list[Scored]:
    """The `count` best notes, and those in `also`, best first.

    A note's score is `share` parts what it has as a whole and the rest its best chunk's. `strict` are the
    chunks (note, index) that may answer, `allowed` the notes; None: all. A chunk with `nearly` the best one's
    score is told beside it.
    """
    chunk_idf = find_idf(counts.chunks, totals.chunks) * weights.weight
    note_idf = find_idf(counts.notes, totals.notes) * weights.weight
    counted = ~weights.optional | (counts.notes > 0)
    notes, as_whole = score_notes(postings, note_idf, totals)
    chunks = _pass(postings, allowed, strict)
    if not len(chunks.note):
        return []
    part = chunk_idf[chunks.word] * _saturate(
        chunks.tf + chunks.field_tf, chunks.chunk_length, totals.chunk_mean
    )
    found = _group(_key(chunks.note, chunks.chunk))
    in_chunk = found.sum(part)
    owner = _group(found.keys >> _LOW_BITS)
    best = owner.max(in_chunk)
    total = (1 - share) * best / max(chunk_idf[counted].sum(), _LEAST_IDF)
    total += share * as_whole[np.searchsorted(notes, owner.keys)] / max(note_idf[counted].sum(), _LEAST_IDF)
    ranked = np.lexsort((owner.keys, -total))
    too = ranked[count:][np.isin(owner.keys[ranked[count:]], np.array([*also], dtype=np.int64))]
    result = []
    for at in np.concatenate((ranked[:count], too)):
        members = np.arange(owner.starts[at], _end(owner, at))  # ascending by chunk, as `found` is
        top, *others = members[np.argsort(-in_chunk[members], kind="stable")][: 1 + MOST_FURTHER]
        words = chunks.word[found.order[found.starts[top] : _end(found, top)]]
        result.append(
            Scored(
                note=int(owner.keys[at]),
                score=float(total[at]),
                chunk=int(found.keys[top] & _LOW),
                matched=len({*words[~weights.optional[words]].tolist()}),
                further=tuple(
                    int(found.keys[i] & _LOW) for i in others if in_chunk[i] >= nearly * in_chunk[top]
                ),
            )
        )
    return result


def find_idf(holding: Numbers, total: int) -> Scores:
    """idf of words by how many of the units hold each."""
    found: Scores = np.log1p((np.maximum(total - holding, 0) + 0.5) / (holding + 0.5))
    return found


_LOW_BITS = 32
_LOW = (1 << _LOW_BITS) - 1
_LEAST_IDF = 1e-9


def _key(note: Numbers, part: Numbers) -> Numbers:
    """One number of a note and a chunk of it, or a word."""
    return (note << _LOW_BITS) | part


def _end(groups: Groups, at: int) -> int:
    return int(groups.starts[at + 1]) if at + 1 < len(groups.starts) else len(groups.order)


def _saturate(tf: NDArray[Any], length: Numbers, mean: float) -> Scores:
    share: Scores = tf / (tf + K1 * (1 - B + B * length / mean))
    return share


def _pass(
    postings: Postings, allowed: Sequence[int] | None, strict: Sequence[tuple[int, int]] | None
) -> Postings:
    if allowed is not None:
        postings = postings.keep(np.isin(postings.note, np.array(allowed, dtype=np.int64)))
    if strict is not None:
        pairs = np.array(strict, dtype=np.int64).reshape(-1, 2)
        postings = postings.keep(np.isin(_key(postings.note, postings.chunk), _key(pairs[:, 0], pairs[:, 1])))
    return postings
