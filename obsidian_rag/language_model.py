"""The model that tells a text's language, unpacked once into the user's cache.

py3langid ships it as 4.5 MB that become 95; to unpack them takes longer than all else that a run with one
changed note does. Unpacked files are mapped, so that only the pages that a text needs are read at all.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

# What a LanguageIdentifier is made of, in the order of its arguments; all but the names of languages are
# arrays of numbers.
_PARTS = ("nb_ptc", "nb_pc", "nb_classes", "tk_nextmove", "tk_output", "tk_row")


def load_identifier(folder: Path | None = None) -> Any:
    """py3langid's LanguageIdentifier, with probabilities, from the cache or from its package.

    `folder` is where the cache lies, by default the user's. A cache that cannot be read is made anew, and one
    that cannot be written is done without.
    """
    target = (folder or _default_folder()) / f"py3langid-{importlib.metadata.version('py3langid')}"
    with suppress(OSError, ValueError, EOFError):
        return _read(target)
    identifier = _unpack()
    with suppress(OSError):
        _write(identifier, target)
    return identifier


def _default_folder() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("obsidian-rag") / "languages"


def _unpack() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def _read(folder: Path) -> Any:
    """Raises OSError, ValueError, EOFError where a file is missing or is not whole."""
    from py3langid.langid import LanguageIdentifier

    scores, priors, names, moves, outputs, rows = (
        np.load(folder / f"{part}.npy", mmap_mode="r", allow_pickle=False) for part in _PARTS
    )
    # A memoryview gives an int for an index as fast as a list does; an array of numpy takes thrice as long.
    return LanguageIdentifier(
        scores,
        np.asarray(priors),
        names.tolist(),
        memoryview(moves),
        outputs.tolist(),
        norm_probs=True,
        tk_row=rows.tolist(),
    )


def _write(identifier: Any, target: Path) -> None:
    """All files under another name first: what stands in `target` is whole, whatever ends the program."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="unpacking-") as scratch:
        made = Path(scratch, "made")
        made.mkdir()
        for part in _PARTS:
            array = np.asarray(getattr(identifier, part))
            if array.dtype == np.float16:  # numpy multiplies these three times as slowly
                array = array.astype(np.float32)
            with (made / f"{part}.npy").open("wb") as file:
                np.save(file, array, allow_pickle=False)
                file.flush()
                os.fsync(file.fileno())
        for old in target.parent.glob("py3langid-*"):
            shutil.rmtree(old, ignore_errors=True)
        made.rename(target)
