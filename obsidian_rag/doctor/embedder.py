"""Checks of the embedder: there, the one the index was made with, and telling the truth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from obsidian_rag import store, vector_column
from obsidian_rag.chunks import CHUNK_SIZE
from obsidian_rag.counts import choose, count
from obsidian_rag.doctor.database import KNOWN
from obsidian_rag.doctor.examination import Examination, Patient
from obsidian_rag.doctor.report import Finding, fail, ok, skip, warn
from obsidian_rag.embedding import Vector, open_embedder
from obsidian_rag.embedding.ollama_api import read_address
from obsidian_rag.embedding.patience import Patience
from obsidian_rag.errors import FIRST_RUN, EmbeddingRejected
from obsidian_rag.ledger import recorded_model

# Once and no more: what passes by itself is no concern of who looks whether it works. The first text may wait
# until the model is loaded.
ONCE = Patience(tries=1, deadline=60.0, timeout=60.0)
CHECK_PATIENCE = 150.0
SAMPLES = 4
PROBE = "A short text, to see that the embedder works."
SAME = (
    0.98  # cosine of two vectors of one text by one model; other batches and processors move the third digit
)
REEMBED = "Run: obsidian-rag index --reembed"


def check_embedder(patient: Patient) -> Finding:
    """Open the embedder as a search does: whether it answers and has the model."""
    settings, said = patient.settings, list[str]()
    patient.embedder = open_embedder(
        embedder=settings.embedder,
        model=settings.embed_model,
        ollama_url=settings.ollama_url,
        ollama_url_is_set=settings.ollama_url_is_set,
        recorded=recorded_model(patient.row),
        coming=patient.begun.model if patient.begun else None,
        say=said.append,
        documents=ONCE,
        query=ONCE,
    )
    model = patient.vectors.model
    where = (
        f"of Ollama at {read_address(settings.ollama_url).shown}"
        if model.provider == "ollama"
        else "inside this program"
    )
    known = "" if patient.row else " (the index could not be asked whether it was made with it)"
    return ok(f"{model.name} {where}{known}")


def check_dimensions(patient: Patient) -> Finding:
    """Whether the model's vectors are as long as those of the index."""
    model = patient.vectors.model
    recorded, present = recorded_model(patient.row), vector_column.vector_dimensions(patient.database)
    if recorded is None:
        return ok(f"{model.dimensions}; the index has no vectors yet")
    if present != model.dimensions:
        return fail(
            f"{model.name} has {model.dimensions} dimensions, the index holds vectors of {present}", REEMBED
        )
    return ok(f"{model.dimensions}, as in the index")


def check_window(patient: Patient) -> Finding:
    """Whether a chunk fits what the model sees at once, and whether that is what it was."""
    model = patient.vectors.model
    recorded = recorded_model(patient.row)
    if recorded and recorded.window and recorded.window != model.window:
        return warn(
            f"{model.name} now sees {model.window} tokens at once, {recorded.window} when the index was made",
            f"Long chunks may have other vectors now. {REEMBED}",
        )
    if model.window < CHUNK_SIZE / 2:
        return warn(
            f"{model.name} sees only {model.window} tokens at once: most chunks are embedded in parts",
            "A model with a longer window finds more: set EMBED_MODEL, then obsidian-rag index --reembed",
        )
    return ok(f"{model.window} tokens")


def check_probe(patient: Patient) -> Finding:
    """Embed a short text: the vector must be of the stated length, finite, and no zero."""
    model = patient.vectors.model
    vector = np.asarray(patient.vectors.embed_query(PROBE))
    if vector.shape != (model.dimensions,):
        return fail(
            f"{model.name} answers a vector of shape {vector.shape}, {model.dimensions} numbers are expected",
            "Choose another EMBED_MODEL.",
        )
    length = float(np.linalg.norm(vector))
    if not np.isfinite(length) or length < 1e-6:
        return fail(
            f"{model.name} answers a vector that is no direction (length {length})",
            "Choose another EMBED_MODEL.",
        )
    return ok(f"{model.dimensions} finite numbers, length {length:.3f}")


STORED = """
(SELECT file_path, chunk_index, heading_path, content, embedding FROM documents
 WHERE content_hash IS NOT NULL AND embedding IS NOT NULL ORDER BY id LIMIT %(half)s)
UNION
(SELECT file_path, chunk_index, heading_path, content, embedding FROM documents
 WHERE content_hash IS NOT NULL AND embedding IS NOT NULL ORDER BY id DESC LIMIT %(half)s)
"""


def check_stored_vectors(patient: Patient) -> Finding:
    """Embed a few chunks again: a model that was replaced under its own name makes other vectors."""
    rows = patient.database.execute(STORED, {"half": SAMPLES // 2}).fetchall()
    if not rows:
        return skip("the index holds no chunk that this program embedded", FIRST_RUN)
    answers = patient.vectors.embed_documents([f"{row[2]}\n{row[3]}".strip() for row in rows])
    strangers = [
        (row[0], row[1], _cosine(answer, store.as_array(row[4])))
        for row, answer in zip(rows, answers, strict=True)
        if isinstance(answer, EmbeddingRejected) or _cosine(answer, store.as_array(row[4])) < SAME
    ]
    if strangers:
        path, index, cosine = strangers[0]
        return fail(
            f"{len(strangers)} of {count(len(rows), 'chunk')} {choose(len(strangers), 'has', 'have')}"
            " another vector in the index than"
            f" {patient.vectors.model.name} makes now (chunk {index} of {path}: cosine {cosine:.2f})",
            f"The model was replaced, or the index changed by hand. {REEMBED}",
        )
    told = choose(len(rows), "chunk embedded again has the vector", "chunks embedded again have the vectors")
    return ok(f"{len(rows)} {told} of the index")


def _cosine(answer: Vector | EmbeddingRejected, stored: Vector) -> float:
    if isinstance(answer, EmbeddingRejected):
        return float("nan")
    lengths = float(np.linalg.norm(answer) * np.linalg.norm(stored))
    return float(answer @ stored) / lengths if lengths else 0.0


CHECKS: Sequence[Examination] = (
    Examination("embedder", "embedder", check_embedder, patience=CHECK_PATIENCE),
    Examination("embedder", "dimensions", check_dimensions, ("embedder", *KNOWN)),
    Examination("embedder", "window", check_window, ("embedder",)),
    Examination("embedder", "probe", check_probe, ("embedder",), patience=CHECK_PATIENCE),
    Examination(
        "embedder",
        "stored vectors",
        check_stored_vectors,
        ("embedder", "probe", *KNOWN),
        patience=CHECK_PATIENCE,
    ),
)
