"""Cross-encoders: models that read a query and a passage together and say how well one answers the other."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from obsidian_rag.embedding.telemetry import forbid_telemetry
from obsidian_rag.embedding.weights import (
    LOADING,
    ONNX_THREADS,
    count_cores,
    find_listed,
    open_listed,
    quiet,
    require_package,
)
from obsidian_rag.embedding.windows import clean
from obsidian_rag.errors import (
    EmbedderError,
    EmbedderUnavailable,
    EmbeddingRejected,
    ModelMissing,
    ModelUnsuitable,
)

EXAMPLE = "Xenova/ms-marco-MiniLM-L-6-v2"

_INSTALL = "Install it with `pip install 'obsidian-rag[rerank]'`"
_UNSET = "unset RERANK_MODEL to search without"
_ANOTHER = f"Set RERANK_MODEL to another cross-encoder, such as {EXAMPLE}, or unset it"
# Seconds that a query waits for the model while another query's thread still loads or fetches it.
_PATIENCE = 10.0


class CrossEncoder:
    """Scores passages for a query; thread-safe. `name` is of fastembed's list, or a folder's absolute path.

    It is loaded at the first use. Where that fails it is not tried again before `close`: the same error is
    raised at once.
    """

    def __init__(
        self,
        name: str,
        say: Callable[[str], None],
        cache_dir: Path | None = None,
        patience: float = _PATIENCE,
    ) -> None:
        self.name = name
        self._say = say
        self._cache_dir = cache_dir
        self._patience = patience
        self._lock = threading.Lock()
        self._loaded: Any = None
        self._failure: EmbedderError | None = None

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """A score for each passage, in order: the higher, the better it answers. What the model's window does
        not hold of a passage does not count.

        Raises ModelMissing, ModelUnsuitable, EmbedderUnavailable, and EmbeddingRejected where a score is no
        number.
        """
        if not passages:
            return []
        model = self._ready()
        # Each passage by itself: padding a batch costs more than it saves on a processor.
        pool = ThreadPoolExecutor(min(count_cores(), len(passages)), thread_name_prefix="rerank")
        try:
            return list(pool.map(lambda passage: self._score(model, clean(query), clean(passage)), passages))
        finally:
            pool.shutdown(cancel_futures=True)

    def close(self) -> None:
        """Give back the memory, and forget a failure; a later use loads it again."""
        with self._lock:
            self._loaded = self._failure = None

    def _ready(self) -> Any:
        if not self._lock.acquire(timeout=self._patience):
            raise EmbedderUnavailable(f"The model {self.name} is still being loaded", "Ask again in a moment")
        try:
            if self._failure is not None:
                raise _renew(self._failure)
            if self._loaded is None:
                try:
                    self._loaded = _load(self.name, self._cache_dir, self._say)
                except EmbedderError as error:
                    self._failure = _renew(error)
                    raise
            return self._loaded
        finally:
            self._lock.release()

    def _score(self, model: Any, query: str, passage: str) -> float:
        try:
            scores = [float(score) for score in model.rerank(query, [passage])]
        except Exception as error:  # onnxruntime raises types of its own
            raise ModelUnsuitable(f"The model {self.name} fails ({_brief(error)})", _ANOTHER) from error
        if len(scores) != 1:
            raise ModelUnsuitable(
                f"The model {self.name} gives {len(scores)} scores for one passage", _ANOTHER
            )
        if not math.isfinite(scores[0]):
            start = " ".join(passage[:60].split())
            raise EmbeddingRejected(
                f"The model {self.name} gives no number ({scores[0]}) for the passage that starts “{start}”",
                _ANOTHER,
            )
        return scores[0]


def _renew(error: EmbedderError) -> EmbedderError:
    """The same error without the frames that it was raised in, which would be kept in memory."""
    return type(error)(error.message, error.mend)


def _load(name: str, cache_dir: Path | None, say: Callable[[str], None]) -> Any:
    require_package("fastembed", name, _INSTALL)
    forbid_telemetry()
    try:
        from fastembed.rerank.cross_encoder import TextCrossEncoder
    except ImportError as error:
        raise ModelMissing(f"The model {name} cannot be loaded ({error})", _INSTALL) from error
    if Path(name).is_absolute():
        model = _load_folder(name)
    else:
        entry = find_listed(TextCrossEncoder, name)
        if entry is None:
            listed = ", ".join(sorted(known["model"] for known in TextCrossEncoder.list_supported_models()))
            raise ModelMissing(
                f"No cross-encoder is called {name}",
                f"Set RERANK_MODEL to the path of a folder with one, or to one of {listed}",
            )
        model = open_listed(TextCrossEncoder, entry, cache_dir, say, _UNSET)
    _check_output(name, model)
    return model


def _load_folder(name: str) -> Any:
    """A cross-encoder as it is exported: an ONNX file with tokenizer.json and tokenizer_config.json."""
    from fastembed.common.model_description import ModelSource
    from fastembed.rerank.cross_encoder import TextCrossEncoder

    folder, weights = _find_weights(name)
    with LOADING, quiet():
        if find_listed(TextCrossEncoder, str(weights)) is None:
            TextCrossEncoder.add_custom_model(
                model=str(weights),
                sources=ModelSource(hf=str(weights)),  # of no use beside a folder, but it must not be empty
                model_file=weights.relative_to(folder).as_posix(),
            )
        try:
            return TextCrossEncoder(
                str(weights),
                specific_model_path=str(folder),
                cache_dir=str(folder),  # exists already; else fastembed makes one in the system's /tmp
                threads=ONNX_THREADS,
                cuda=False,
            )
        except Exception as error:  # onnxruntime raises types of its own
            raise ModelUnsuitable(
                f"The model in {folder} does not load ({_brief(error)})",
                "Put a cross-encoder as ONNX into it, with its tokenizer.json and tokenizer_config.json",
            ) from error


def _find_weights(name: str) -> tuple[Path, Path]:
    """The folder and the ONNX file in it, or in `onnx/` below it, as the hub has them."""
    try:
        folder = Path(name)
        is_there = folder.is_dir()
        found = sorted([*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")], key=lambda f: len(f.parts))
    except (OSError, ValueError) as error:
        raise ModelMissing(f"The folder {name} cannot be read ({error})", _ANOTHER) from error
    if not is_there:
        raise ModelMissing(f"There is no folder {folder}", _ANOTHER)
    chosen = next((file for file in found if file.name == "model.onnx"), None)
    if chosen is None and len(found) == 1:
        chosen = found[0]
    if chosen is not None:
        return folder, chosen
    names = ", ".join(str(file.relative_to(folder)) for file in found)
    raise ModelMissing(
        f"The folder {folder} holds several models and none is model.onnx: {names}"
        if found
        else f"The folder {folder} holds no ONNX file",
        "Put the cross-encoder into it as model.onnx",
    )


def _check_output(name: str, model: Any) -> None:
    """Raise where the model sorts pairs into classes: of their scores, the first alone would be read."""
    shape = model.model.model.get_outputs()[0].shape  # empty where the model does not state it
    if shape and (len(shape) != 2 or (isinstance(shape[1], int) and shape[1] != 1)):
        raise ModelUnsuitable(
            f"The model {name} is no cross-encoder: it gives {shape} for a pair, and not one score", _ANOTHER
        )


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
