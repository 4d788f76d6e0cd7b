"""Where models that run inside this program come from: installed packages, a cache, or fetched once.

Only a model of fastembed's list that the user named ever uses the network, and only to be fetched.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from obsidian_rag.errors import EmbedderUnavailable, ModelMissing

# onnxruntime's threads inside one text wait for each other by spinning: on a busy machine that wastes half of
# the processor. One thread a text, and several texts at once, is twice as fast there and no slower elsewhere.
ONNX_THREADS = 1

LOADING = threading.Lock()  # fastembed keeps custom models in a list of its class


def count_cores() -> int:
    """The processors this process may use, at most 8."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return min(8, len(affinity(0)) if affinity else os.cpu_count() or 1)


def require_package(module: str, name: str, command: str) -> None:
    """Raise ModelMissing, with the command that installs it, where the package of a model is not there."""
    if importlib.util.find_spec(module) is None:
        raise ModelMissing(
            f"The model {name} needs the Python package {module}, which is not installed", command
        )


def find_listed(kind: Any, name: str) -> Mapping[str, Any] | None:
    """The entry of fastembed's list for `kind` (one of its classes), by full name or its last part."""
    known = {entry["model"].lower(): entry for entry in kind.list_supported_models()}
    return known.get(name.lower()) or next(
        (entry for key, entry in known.items() if key.rsplit("/", 1)[-1] == name.lower()), None
    )


def open_listed(
    kind: Any, entry: Mapping[str, Any], cache_dir: Path | None, say: Callable[[str], None], otherwise: str
) -> Any:
    """A model of fastembed's list as an object of `kind`, from the cache or fetched once.

    `otherwise` ends the mend with what to do where it cannot be fetched: a sentence without its full stop.
    Raises ModelMissing, EmbedderUnavailable.
    """
    found = str(entry["model"])
    folder = cache_dir or _default_cache_dir()
    with LOADING, quiet():
        model = _from_cache(kind, found, folder)
        if model is None:
            check_reachable(found, folder, otherwise)
            say(f"Fetching the model {found} ({entry.get('size_in_GB', '?')} GB) into {folder}, once.")
            model = _fetch(kind, found, folder, otherwise)
    return model


def _default_cache_dir() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("obsidian-rag") / "models"


def _from_cache(kind: Any, found: str, folder: Path) -> Any:
    if not folder.is_dir():
        return None
    try:
        return kind(found, cache_dir=str(folder), local_files_only=True, threads=ONNX_THREADS, cuda=False)
    except Exception:  # not there, or incomplete: fetched anew
        return None


def check_reachable(found: str, folder: Path, otherwise: str) -> None:
    """Raise at once where models cannot be fetched: fastembed alone would try for most of a minute."""
    import httpx
    from huggingface_hub import constants

    mend = f"Connect to the internet once, or copy the model into {folder}; {otherwise}"
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


def _fetch(kind: Any, found: str, folder: Path, otherwise: str) -> Any:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return kind(found, cache_dir=str(folder), threads=ONNX_THREADS, cuda=False)
    except Exception as error:  # whatever the hub's client raises
        raise EmbedderUnavailable(
            f"The model {found} could not be fetched ({' '.join(str(error).split())[:200]})",
            f"Try again; {otherwise}",
        ) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what libraries print off stdout, and their log off the terminal."""
    with contextlib.suppress(ImportError):
        from loguru import logger

        logger.disable("fastembed")
    with contextlib.redirect_stdout(sys.stderr):
        yield
