"""Why a note is in the answer, and whether a note on the subject exists already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from obsidian_rag.models import Hit
from obsidian_rag.search.retrieval import Retrieved

CreateSafety = Literal["exists", "probable", "unknown"]

# A cosine from which a neighbour is about the same thing; below it the nearest may be noise.
HIGH_COSINE = 0.5

CERTAIN = frozenset({"exact_title", "alias"})
STRONG = frozenset({"title_phrase", "alias_phrase", "heading", "keyword_exact", "high_vector"})


def find_evidence(file_path: str, retrieved: Retrieved) -> str:
    """The strongest reason for a note: a name, all the words, a near vector, some words, or only nearness."""
    name = next((hit for hit in retrieved.names if hit.file_path == file_path), None)
    if name:
        return name.match
    keyword = retrieved.keyword
    words = next((hit for hit in keyword.hits if hit.file_path == file_path), None)
    if words and keyword.words and words.matched >= keyword.words and not keyword.loosened:
        return "keyword_exact"
    near = retrieved.cosines.get(file_path)
    if near and near.cosine >= HIGH_COSINE:
        return "high_vector"
    if file_path in retrieved.dated:
        return "date"
    return "keyword" if words else "weak_semantic"


def judge_creation(hits: Sequence[Hit]) -> CreateSafety:
    """Whether a note on the query exists, probably exists, or cannot be told to exist."""
    evidence = {hit.evidence for hit in hits}
    if evidence & CERTAIN:
        return "exists"
    return "probable" if evidence & STRONG else "unknown"
