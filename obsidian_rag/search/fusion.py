"""Reciprocal Rank Fusion of the retrievers, and the calibrated list of words and vectors within it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from obsidian_rag.search.evidence import CERTAIN
from obsidian_rag.search.links import LinkResult
from obsidian_rag.search.priors import Priors, grade, weigh_list
from obsidian_rag.search.query import Intent, Request
from obsidian_rag.search.retrieval import Retrieved

Key = TypeVar("Key", bound=Hashable)

RRF_K = 60
"""The constant of Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual
rank learning methods", SIGIR 2009."""

# Cosines of one query spread by about .1, BM25 over its greatest possible value by about as much; with 1.2
# for words, hybrid stays at or above the better of the two on every collection measured.
WORDS_WEIGHT = 1.2

# A whole name outweighs every other list together; part of one moves its note up among those in question.
NAME_WEIGHTS = {
    "exact_title": 4.0,
    "alias": 4.0,
    "heading": 1.0,
    "title_phrase": 2.0,
    "alias_phrase": 2.0,
    "fuzzy_title": 2.0,
}
# Of the notes that links connect with what is named. Where the question asks for just that they come first,
# in their own order.
CLEAR_LINKS, LINKS = 100.0, 1.5
DATES_WEIGHT = 1.0
FEW_WORDS = 4  # of a query that asks for a period itself: "meetings last week"
# Beyond so many words a date is one detail of a story, and its words find it better.
MOST_DATED_WORDS = 6


@dataclass(frozen=True, slots=True)
class Fused:
    """A note with its fused score and the rank, from 1, that each retriever gave it."""

    file_path: str
    score: float
    ranks: dict[str, int]


def fuse(retrieved: Retrieved, request: Request, intent: Intent, priors: Priors | None = None) -> list[Fused]:
    """All notes found, best first. Words and vectors go in as one calibrated list, or as two by plain RRF.
    The priors order each list anew; `ranks` are those without them.
    """
    plain = {
        "vector": [hit.file_path for hit in retrieved.vector],
        "keyword": [hit.file_path for hit in retrieved.keyword.hits],
        "names": [hit.file_path for hit in retrieved.names],
    }
    calibrated = request.mode == "hybrid" and retrieved.has_vector and "calibration" not in request.without
    text = rank_calibrated(retrieved, priors) if calibrated else []
    weighed = weigh_lists(plain, retrieved, priors) if priors else plain
    lists = {"text": text, "names": weighed["names"]} if calibrated else dict(weighed)
    weights = {"names": NAME_WEIGHTS[retrieved.names[0].match]} if retrieved.names else {}
    if retrieved.links.order and not is_certain(retrieved):
        lists["links"] = order_links(retrieved.links, priors or {})
        weights["links"] = CLEAR_LINKS if retrieved.links.is_clear else LINKS
    if retrieved.dated and intent == "temporal" and retrieved.keyword.words <= MOST_DATED_WORDS:
        order = text or [path for path, _, _ in fuse_ranks(lists)]
        lists["dates"] = order_dated(retrieved.dated, order, retrieved.keyword.words)
        weights["dates"] = DATES_WEIGHT
    links = retrieved.links.order if "links" in lists else []
    shown = {**plain, "links": links, "dates": lists.get("dates", [])}
    ranks = {name: {path: rank for rank, path in enumerate(paths, 1)} for name, paths in shown.items()}
    return [
        Fused(path, score, {name: found[path] for name, found in ranks.items() if path in found})
        for path, score, _ in fuse_ranks(lists, weights)
    ]


def is_certain(retrieved: Retrieved) -> bool:
    """Whether the query as a whole is the name of a note."""
    return bool(retrieved.names) and retrieved.names[0].match in CERTAIN


def order_links(links: LinkResult, priors: Priors) -> list[str]:
    """The list of links under the factors of folders; how many links a note has is in it already."""
    strengths = {hit.file_path: hit.score for hit in links.hits} if links.is_clear else grade(links.order)
    return weigh_list(links.order, strengths, {path: replace(p, links=0) for path, p in priors.items()})


def order_text(retrieved: Retrieved, request: Request) -> list[str]:
    """The notes as their text ranks them, by words and vectors."""
    if request.mode == "hybrid" and retrieved.has_vector and "calibration" not in request.without:
        return rank_calibrated(retrieved)
    lists = {
        "vector": [hit.file_path for hit in retrieved.vector],
        "keyword": [hit.file_path for hit in retrieved.keyword.hits],
    }
    return [path for path, _, _ in fuse_ranks(lists)]


def weigh_lists(
    lists: Mapping[str, Sequence[str]], retrieved: Retrieved, priors: Priors
) -> dict[str, list[str]]:
    """The retrievers' lists under the priors. A cosine counts by what it is above that of unrelated texts;
    notes of the same whole name are equally strong.
    """
    unrelated = retrieved.calibration.cosine_mean
    strengths = {
        "vector": {hit.file_path: hit.cosine - unrelated for hit in retrieved.vector},
        "keyword": {hit.file_path: hit.score for hit in retrieved.keyword.hits},
        "names": {hit.file_path: 1.0 for hit in retrieved.names if hit.match in CERTAIN},
    }
    return {
        name: weigh_list(paths, strengths.get(name) or grade(paths), priors) for name, paths in lists.items()
    }


def rank_calibrated(retrieved: Retrieved, priors: Priors | None = None) -> list[str]:
    """Notes by their calibrated score, best first, under the priors."""
    scores = score_calibrated(retrieved)
    order = sorted(scores, key=lambda path: (-scores[path], path))
    if not priors:
        return order
    unrelated = retrieved.calibration.g * retrieved.calibration.cosine_mean
    return weigh_list(order, {path: score - unrelated for path, score in scores.items()}, priors)


def score_calibrated(retrieved: Retrieved) -> dict[str, float]:
    """`g * cosine + 1.2 * BM25 / I` of each note, where BM25 / I lies in [0, 1) and g in [0, 1] is measured.

    A note without words scores 0 there, one without a vector takes the lowest cosine found.
    """
    g = retrieved.calibration.g
    words = {hit.file_path: hit.score for hit in retrieved.keyword.hits}
    lowest = min((hit.cosine for hit in retrieved.cosines.values()), default=0.0)
    return {
        path: g * (retrieved.cosines[path].cosine if path in retrieved.cosines else lowest)
        + WORDS_WEIGHT * words.get(path, 0.0)
        for path in dict.fromkeys([*words, *retrieved.cosines])
    }


def order_dated(dated: Sequence[str], order: Sequence[str], words: int) -> list[str]:
    """The notes of a period: those that were found, in their order; where the query says little besides the
    period, the others too.
    """
    inside = set(dated)
    found = [path for path in order if path in inside]
    return found if words > FEW_WORDS else list(dict.fromkeys([*found, *dated]))


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
