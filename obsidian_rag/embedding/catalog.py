"""What is known of embedding models beforehand: dimensions, context and the prefixes they were trained with.

Where a server states dimensions or context itself, the server is believed; prefixes nobody states.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# One constant for every request: another num_ctx makes Ollama load the model anew. Chunks stay well under
# it, and memory grows with it, so models with a wider context are not given more.
WIDEST_WINDOW = 2048

# HNSW indexes vectors up to 2,000 dimensions as `vector` and up to 4,000 as `halfvec`.
MOST_DIMENSIONS = 4000

_QWEN_QUERY = (
    "Instruct: Given a search query, retrieve relevant passages from personal notes that answer it\nQuery:"
)


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A model's own habits. `dimensions` and `context` are None where they are not known."""

    dimensions: int | None = None
    context: int | None = None
    query_prefix: str = ""
    document_prefix: str = ""


_REPRESENT = "Represent this sentence for searching relevant passages: "

MODELS: dict[str, ModelCard] = {
    "nomic-embed-text": ModelCard(768, 2048, "search_query: ", "search_document: "),
    "nomic-embed-text-v2-moe": ModelCard(768, 512, "search_query: ", "search_document: "),
    "mxbai-embed-large": ModelCard(1024, 512, _REPRESENT),
    "snowflake-arctic-embed2": ModelCard(1024, 8192, "query: "),
    "bge-m3": ModelCard(1024, 8192),
    "embeddinggemma": ModelCard(768, 2048, "task: search result | query: ", "title: none | text: "),
    "qwen3-embedding": ModelCard(None, 32768, _QWEN_QUERY),  # 1024, 2560 or 4096 dimensions by its tag
    "all-minilm": ModelCard(384, 256),
}

# Models of the same families under other names (a registry's, a quantised file's, fastembed's): the prefixes
# are the family's, dimensions and context are stated by whoever runs the model.
_FAMILIES: tuple[tuple[str, ModelCard], ...] = (
    (r"nomic-embed-text", MODELS["nomic-embed-text"]),
    (r"mxbai-embed-large", MODELS["mxbai-embed-large"]),
    (r"snowflake-arctic-embed-[a-z]+-v2", MODELS["snowflake-arctic-embed2"]),
    (r"snowflake-arctic-embed(?!2)", ModelCard(query_prefix=_REPRESENT)),
    (r"bge-(small|base|large)-zh", ModelCard(query_prefix="为这个句子生成表示以用于检索相关文章：")),
    (r"bge-(small|base|large)", ModelCard(query_prefix=_REPRESENT)),
    (r"embeddinggemma", MODELS["embeddinggemma"]),
    (r"qwen3-embedding", MODELS["qwen3-embedding"]),
    (r"(multilingual-)?e5-(small|base|large)(?!.*instruct)", ModelCard(None, None, "query: ", "passage: ")),
)

DEFAULT_OLLAMA_MODEL = "nomic-embed-text"
DEFAULT_LOCAL_MODEL = "minilm"


def canonical_name(name: str) -> str:
    """A model's name as it is recorded: `nomic-embed-text:latest` and `nomic-embed-text` are one."""
    return name.strip().removesuffix(":latest")


def same_model(one: str, other: str) -> bool:
    """Whether two names mean one model; Ollama ignores case."""
    return canonical_name(one).lower() == canonical_name(other).lower()


def base_name(name: str) -> str:
    """The name without registry, owner, tag and file format.

    `hf.co/nomic-ai/nomic-embed-text-v1.5-GGUF:Q8_0` → `nomic-embed-text-v1.5`.
    """
    last = name.strip().lower().rsplit("/", 1)[-1].split(":", 1)[0]
    return last.removesuffix("-gguf")


def find_card(name: str) -> ModelCard:
    """The card of a model by its name; an empty one where the model is not known."""
    base = base_name(name)
    if base in MODELS:
        return MODELS[base]
    for pattern, card in _FAMILIES:
        if re.match(pattern, base):
            return ModelCard(None, None, card.query_prefix, card.document_prefix)
    return ModelCard()
