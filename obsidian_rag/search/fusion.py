"""Reciprocal Rank Fusion."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

RRF_K = 60
"""The constant of Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual
rank learning methods", SIGIR 2009."""


def fuse_ranks(
    lists: Mapping[str, Sequence[Key]], weights: Mapping[str, float] | None = None
) -> list[tuple[Key, float, dict[str, int]]]:
    """Fuse ranked lists by `score = sum(weight / (RRF_K + rank))`, ranks from 1.

    Returns (key, score, rank by list) best first; equal scores keep the order in which keys first appear. A
    list with nothing in it adds nothing.
    """
    weights = weights or {}
    scores: dict[Key, float] = {}
    ranks: dict[Key, dict[str, int]] = {}
    for name, keys in lists.items():
        for rank, key in enumerate(keys, 1):
            scores[key] = scores.get(key, 0.0) + weights.get(name, 1.0) / (RRF_K + rank)
            ranks.setdefault(key, {})[name] = rank
    order = sorted(scores, key=lambda key: -scores[key])
    return [(key, scores[key], ranks[key]) for key in order]
