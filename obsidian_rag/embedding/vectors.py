"""Vectors: 1-D float32 arrays of length 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]


def normalise(values: Any, dimensions: int) -> Vector | None:
    """`values` cut to `dimensions` and scaled to length 1; None where that cannot be a direction.

    That is: not numbers, NaN or infinite, all zero, or fewer than `dimensions`. A longer vector is cut, as
    Ollama itself cuts one where fewer dimensions are asked for.
    """
    try:
        array = np.asarray(values, dtype=np.float64)  # None becomes NaN
    except (TypeError, ValueError):
        return None
    if array.ndim != 1 or array.shape[0] < dimensions:
        return None
    array = array[:dimensions]
    norm = float(np.linalg.norm(array))
    if not np.isfinite(norm) or norm < 1e-9:
        return None
    return (array / norm).astype(np.float32)


def mean(vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
    """The weighted mean direction of vectors of one length."""
    if len(vectors) == 1:
        return vectors[0]
    summed = np.average(
        np.stack(vectors).astype(np.float64), axis=0, weights=np.asarray(weights, dtype=np.float64)
    )
    direction = normalise(summed, len(summed))
    return vectors[0] if direction is None else direction  # opposite windows that cancel out exactly
