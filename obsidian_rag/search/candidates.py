"""What a retriever returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that a retriever found, with its score in that retriever's own measure."""

    id: int
    file_path: str
    chunk_index: int
    score: float
