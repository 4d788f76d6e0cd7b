"""Why a note is in the answer, and whether a note on the subject exists already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from obsidian_rag.models import Hit
from obsidian_rag.search.retrieval import Retrieved

CreateSafety = Literal["exists", "probable", "unknown"]

# Standard deviations above the mean cosine of a question and a chunk that has nothing to do with it. On four
# collections, 95 % of the questions of another collection stay below 2 with their nearest chunk (one: 2.5),
# and 95 % of the collection's own reach it.
HIGH_DEVIATIONS = 2.5
SURE_DEVIATIONS = 2.0
# Share of a query's information that the words of the best note hold: 95 % of foreign questions stay below
# (except between two collections that share a vocabulary), three quarters of a collection's own reach it.
SURE_WORDS = 0.25

CERTAIN = frozenset({"exact_title", "alias"})
STRONG = frozenset({"title_phrase", "alias_phrase", "heading", "keyword_exact", "high_vector"})


def find_evidence(file_path: str, retrieved: Retrieved) -> str:
    """The strongest reason for a note: a name, all the words, a near vector, some words, or only nearness."""
    name = retrieved.find_name(file_path)
    if name:
        return name.match
    if file_path in retrieved.links.named:
        return "title_phrase"
    if retrieved.links.is_clear and retrieved.links.find(file_path):
        return "linked"
    keyword = retrieved.keyword
    words = keyword.find(file_path)
    if words and keyword.words and words.matched >= keyword.words and not keyword.loosened:
        return "keyword_exact"
    near = retrieved.cosines.get(file_path)
    if near and near.cosine >= cosine_at(retrieved, HIGH_DEVIATIONS):
        return "high_vector"
    if file_path in retrieved.dated:
        return "date"
    if retrieved.links.find(file_path):
        return "linked"
    return "keyword" if words else "weak_semantic"


def cosine_at(retrieved: Retrieved, deviations: float) -> float:
    """The cosine so many standard deviations above that of unrelated texts, for the index's own model."""
    return retrieved.calibration.cosine_mean + deviations * retrieved.calibration.cosine_spread


def is_sure(retrieved: Retrieved) -> bool:
    """Whether the best note is near enough, or holds enough of the query's words, to be an answer."""
    words = max((hit.score for hit in retrieved.keyword.hits), default=0.0)
    nearest = max((hit.cosine for hit in retrieved.vector), default=-1.0)
    return words >= SURE_WORDS or nearest >= cosine_at(retrieved, SURE_DEVIATIONS)


def judge_creation(hits: Sequence[Hit]) -> CreateSafety:
    """Whether a note on the query exists, probably exists, or cannot be told to exist."""
    evidence = {hit.evidence for hit in hits}
    if evidence & CERTAIN:
        return "exists"
    return "probable" if evidence & STRONG else "unknown"
