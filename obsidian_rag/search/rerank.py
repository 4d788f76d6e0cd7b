"""Reranking: a cross-encoder reads the query beside each of the first notes and orders them anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from obsidian_rag.embedding.cross_encoder import CrossEncoder
from obsidian_rag.errors import EmbedderError
from obsidian_rag.postgres import Connection
from obsidian_rag.search.evidence import CERTAIN
from obsidian_rag.search.fusion import Fused
from obsidian_rag.search.neighbors import load_chunks
from obsidian_rag.search.priors import Prior, Priors
from obsidian_rag.search.query import Request
from obsidian_rag.search.retrieval import DEPTH, Retrieved

NOT_RERANKED = "Not reranked"  # how the notice of it begins

MOST_NOTES = 30
# Lists that know what no passage says of itself: a note that one of them brought keeps its place.
BEYOND_TEXT = frozenset({"dates", "links"})


@dataclass(frozen=True, slots=True)
class Reranked:
    """Notes in their new order, and what the model gave each that it read: the higher, the better."""

    fused: Sequence[Fused]
    scores: dict[str, float] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def deepen(request: Request, reranker: CrossEncoder | None) -> Request:
    """The request as it is retrieved for: with enough notes to choose from where few are wanted."""
    if not is_reranked(request, reranker):
        return request
    return replace(request, limit=max(request.limit, MOST_NOTES // DEPTH))


def is_reranked(request: Request, reranker: CrossEncoder | None) -> bool:
    """Whether an answer to the request is reranked."""
    return reranker is not None and "rerank" not in request.without


def rerank(
    conn: Connection,
    request: Request,
    fused: Sequence[Fused],
    retrieved: Retrieved,
    best_chunk: Callable[[Fused], int],
    reranker: CrossEncoder | None,
    priors: Priors | None = None,
) -> Reranked:
    """Order the first notes by how well their best passage, under its headings, answers the query.

    A note that the query names exactly keeps its place, as do those in question for their day or their links
    and those without text. The priors weigh what the model gives. A place keeps its score, and `ranks` gains
    the ranking that results as "rerank". Where the model fails, the order stays and a notice says why.
    """
    if reranker is None or not is_reranked(request, reranker):
        return Reranked(fused)
    first = fused[:MOST_NOTES]
    passages = load_passages(conn, [(note.file_path, best_chunk(note)) for note in first])
    read = [note for note in first if note.file_path in passages]
    if len(read) < 2:
        return Reranked(fused)
    try:
        scores = reranker.score(request.query, [passages[note.file_path] for note in read])
    except EmbedderError as exc:
        return Reranked(fused, notices=(f"{NOT_RERANKED}: {exc}",))
    by_path = {note.file_path: score for note, score in zip(read, scores, strict=True)}
    named = {hit.file_path for hit in retrieved.names if hit.match in CERTAIN}
    weighed = {path: _weigh(score, (priors or {}).get(path)) for path, score in by_path.items()}
    return Reranked([*reorder(first, weighed, named), *fused[MOST_NOTES:]], by_path)


def _weigh(score: float, prior: Prior | None) -> float:
    """A model's score, which may be any number, as a strength in (0, 1) under a prior. Not by the logistic
    function, under which all good passages are nearly as strong.
    """
    strength = 0.5 + 0.5 * score / (1 + abs(score))
    return prior.weigh(strength) if prior else strength


def reorder(notes: Sequence[Fused], scores: dict[str, float], named: set[str]) -> list[Fused]:
    """Notes by their scores, equal ones as they were; those without one, those `named`, and those that a list
    beyond text brought stay where they are.
    """
    order = sorted((note for note in notes if note.file_path in scores), key=lambda n: -scores[n.file_path])
    ranks = {note.file_path: rank for rank, note in enumerate(order, 1)}
    staying = {
        note.file_path
        for note in notes
        if note.file_path in named or note.file_path not in scores or note.ranks.keys() & BEYOND_TEXT
    }
    moving = iter([note for note in order if note.file_path not in staying])
    result = []
    for place in notes:
        note = place if place.file_path in staying else next(moving)
        rank = {"rerank": ranks[note.file_path]} if note.file_path in ranks else {}
        result.append(replace(note, score=place.score, ranks=note.ranks | rank))
    return result


def load_passages(conn: Connection, keys: Sequence[tuple[str, int]]) -> dict[str, str]:
    """The text of chunks under their headings, by path; chunks without text are left out."""
    return {
        path: f"{chunk.heading_path}\n{chunk.content}" if chunk.heading_path else chunk.content
        for (path, _), chunk in load_chunks(conn, keys).items()
        if chunk.content.strip()
    }
