"""What an embedder is: texts in, vectors of length 1 out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from obsidian_rag.embedding.vectors import Vector
from obsidian_rag.errors import EmbeddingRejected


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """Which model made a vector; an index records it and never mixes two.

    `provider` is "ollama" or "local", `window` the tokens the model sees at once.
    """

    provider: str
    name: str
    dimensions: int
    window: int

    def __str__(self) -> str:
        return f"{self.provider}:{self.name} ({self.dimensions} dimensions)"


class Embedder(Protocol):
    """Makes vectors. Safe to call from several threads."""

    @property
    def model(self) -> EmbeddingModel:
        """The model that makes the vectors."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> list[Vector | EmbeddingRejected]:
        """One vector for each text, in order; for a text that cannot be embedded, the reason instead.

        Raises EmbedderUnavailable, ModelMissing or ModelUnsuitable where no text can be embedded.
        """
        ...

    def embed_query(self, text: str) -> Vector:
        """The vector to search with. Raises EmbedderError."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> list[Vector | EmbeddingRejected]:
        """Vectors to search with, in one call: a query, and phrases of it. As `embed_documents` otherwise."""
        ...

    def close(self) -> None:
        """Give back connections and memory."""
        ...


def only(results: Sequence[Vector | EmbeddingRejected]) -> Vector:
    """The one vector among the results. Raises EmbeddingRejected where the text has none."""
    [result] = results
    if isinstance(result, EmbeddingRejected):
        raise result
    return result
