"""Embedders: Ollama over HTTP, and models that run inside this program."""

from obsidian_rag.embedding.catalog import DEFAULT_LOCAL_MODEL, DEFAULT_OLLAMA_MODEL, MOST_DIMENSIONS
from obsidian_rag.embedding.choice import check_recorded, open_embedder
from obsidian_rag.embedding.embedder import Embedder, EmbeddingModel, only
from obsidian_rag.embedding.vectors import Vector

__all__ = [
    "DEFAULT_LOCAL_MODEL",
    "DEFAULT_OLLAMA_MODEL",
    "MOST_DIMENSIONS",
    "Embedder",
    "EmbeddingModel",
    "Vector",
    "check_recorded",
    "only",
    "open_embedder",
]
