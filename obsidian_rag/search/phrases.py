"""Other words for a relation: phrases of a question that no table holds, compared with seed sentences.

Cosines lie at another height for every model, so a phrase counts by how far it stands out of those that
seeds of different relations have among each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from obsidian_rag.embedding import Vector
from obsidian_rag.relations import Table
from obsidian_rag.search.named import Named, Token
from obsidian_rag.search.plans import Reading

LONGEST_PHRASE = 4  # words
MOST_PHRASES = 16
# Standard deviations over the mean cosine of unlike seeds: from the first a phrase counts where the question
# has no cue, from the second it does beside one.
ALONE, BESIDE_CUE = 2.4, 3.2
SURE = 5.0  # deviations at which a phrase counts as much as a word of the table


@dataclass(frozen=True, slots=True)
class Phrase:
    """Tokens [first, last) of a question as they are written."""

    first: int
    last: int
    text: str


@dataclass(frozen=True, slots=True)
class Seeds:
    """The seed sentences' vectors, one row each, with their relations; mean and standard deviation of the
    cosine of two of different relations.
    """

    relations: tuple[str, ...]
    vectors: NDArray[np.float32]
    mean: float
    spread: float


def list_seeds(table: Table) -> list[tuple[str, str]]:
    """(relation, sentence) of all seeds."""
    return [(relation.name, seed) for relation in table.relations.values() for seed in relation.seeds]


def make_seeds(relations: Sequence[str], vectors: Sequence[Vector]) -> Seeds:
    """Seeds with their statistics."""
    matrix = np.stack(vectors).astype(np.float32)
    names = np.array(relations)
    unlike = (matrix @ matrix.T)[names[:, None] != names[None, :]]
    return Seeds(tuple(relations), matrix, float(unlike.mean()), float(unlike.std()) or 1.0)


def list_phrases(
    query: str, tokens: Sequence[Token], named: Sequence[Named], reading: Reading
) -> list[Phrase]:
    """Runs of one to four words with an unexplained content word at both ends, none of a name or a cue."""
    taken = {at for name in named for at in range(name.first, name.last)} | reading.explained.keys()
    open_words = reading.content - reading.explained.keys()
    phrases = [
        Phrase(first, last, query[tokens[first].first : tokens[last - 1].last])
        for first in sorted(open_words)
        for last in range(first + 1, min(first + LONGEST_PHRASE, len(tokens)) + 1)
        if taken.isdisjoint(range(first, last)) and last - 1 in open_words
    ]
    return phrases[:MOST_PHRASES]


def match_phrases(
    phrases: Sequence[Phrase], vectors: Sequence[Vector], seeds: Seeds, has_cue: bool
) -> dict[tuple[int, int], dict[str, float]]:
    """What phrases mean, of those that overlap the nearest only: (first, last) -> relation -> weight."""
    if not phrases:
        return {}
    deviations = (np.stack(vectors) @ seeds.vectors.T - seeds.mean) / seeds.spread
    least = BESIDE_CUE if has_cue else ALONE
    found: dict[tuple[int, int], dict[str, float]] = {}
    for row in np.argsort(-deviations.max(axis=1), kind="stable"):
        phrase, best = phrases[row], float(deviations[row].max())
        if best < least:
            break
        if any(phrase.first < last and first < phrase.last for first, last in found):
            continue
        found[phrase.first, phrase.last] = {
            seeds.relations[at]: min(1.0, float(deviations[row][at]) / SURE)
            for at in np.argsort(deviations[row])
            if deviations[row][at] >= max(least, 0.8 * best)
        }
    return found
