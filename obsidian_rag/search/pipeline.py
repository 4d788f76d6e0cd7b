"""From a request to an answer: retrieve, fuse by note, rerank, load the best chunks, explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Any

from obsidian_rag.embedding import Vector, only
from obsidian_rag.embedding.cross_encoder import CrossEncoder
from obsidian_rag.errors import EmbedderError, EmbeddingRejected, IndexMismatch
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.models import Hit, LinkStep
from obsidian_rag.postgres import Connection
from obsidian_rag.relations import Table
from obsidian_rag.search.bare_headings import find_below, is_bare
from obsidian_rag.search.dates import Period, read_period
from obsidian_rag.search.evidence import CreateSafety, find_evidence, judge_creation
from obsidian_rag.search.expansion import (
    Expansion,
    Variant,
    fuse_variants,
    is_reworded,
    make_variants,
    search_variants,
)
from obsidian_rag.search.filters import find_allowed, find_hidden
from obsidian_rag.search.fusion import Fused, fuse, order_text
from obsidian_rag.search.links import explain_hits, search_links
from obsidian_rag.search.neighbors import (
    Beside,
    ChunkKey,
    ShownChunk,
    choose_beside,
    load_chunks,
    place_beside,
)
from obsidian_rag.search.notices import (
    describe_index,
    explain_boosts,
    explain_excludes,
    explain_nothing,
    explain_unknown,
    explain_weakness,
)
from obsidian_rag.search.priors import Priors, find_priors
from obsidian_rag.search.query import (
    Intent,
    Mode,
    Request,
    apply_settings,
    classify_intent,
    read_operators,
)
from obsidian_rag.search.question import Question, read_names, understand
from obsidian_rag.search.rerank import Reranked, deepen, rerank
from obsidian_rag.search.retrieval import DEPTH, Retrieved, retrieve

WITHOUT_EMBEDDER = "Answered by keywords only, without the embedder"  # how the notice of it begins


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search found. `notices` says everything that made the answer less than it could be."""

    query: str
    mode: Mode
    intent: Intent
    results: tuple[Hit, ...]
    notices: tuple[str, ...]
    create_safety: CreateSafety

    def to_json(self) -> dict[str, Any]:
        """The object that `search --json` prints and the tool returns."""
        return asdict(self)


def search(reader: IndexReader, request: Request) -> Answer:
    """Answer a request. Raises EmbedderError in vector mode where the query cannot be embedded, and
    DatabaseError; in hybrid mode a missing embedder is a notice.
    """
    request = apply_settings(request, reader.settings)
    # Outside the answer's transaction, which sees no run that ends meanwhile.
    about_index = reader.run(lambda conn: describe_index(conn, reader.find_edit))

    def work(conn: Connection, prepared: Prepared) -> Answer:
        return _answer(conn, request, prepared, about_index)

    if request.mode == "keyword":  # looks at no vectors, so that it does not matter whose they are
        return reader.run_in_transaction(partial(work, prepared=prepare(reader, request)))
    return reader.run_prepared(lambda: prepare(reader, request), work)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What models give to a request before the index is searched, with notices of what they do not give."""

    vector: Vector | None
    question: Question | None
    table: Table
    variants: tuple[Variant, ...]
    reranker: CrossEncoder | None
    notices: tuple[str, ...]


def prepare(reader: IndexReader, request: Request) -> Prepared:
    """Ask the models that a request wants. Raises EmbedderError in vector mode."""
    question = None
    operators = read_operators(request.query)
    strict = operators is not None and operators.required  # what links bring need not hold a quote
    if request.mode == "hybrid" and "links" not in request.without and not strict:
        question = reader.run(lambda conn: read_names(conn, request.query, reader.table))
    vector, question, notices = _embed(reader, request, question)
    variants, more = make_variants(reader.expander, request, None if vector is None else reader.embed_queries)
    return Prepared(vector, question, reader.table, variants, reader.reranker, (*notices, *more))


def _embed(
    reader: IndexReader, request: Request, question: Question | None
) -> tuple[Vector | None, Question | None, tuple[str, ...]]:
    """The query's vector where the request wants one, what its phrases mean, and a notice where that cannot
    be had; all in one call of the embedder. Raises EmbedderError in vector mode.
    """
    if request.mode == "keyword" or "vector" in request.without:
        return None, question, ()
    texts = question.texts if question and "phrases" not in request.without else ()
    try:
        results = reader.embed_queries([request.query, *texts])
        vector = only(results[:1])
    except (EmbedderError, IndexMismatch) as exc:
        if request.mode == "vector":
            raise
        return None, question, (f"{WITHOUT_EMBEDDER}: {exc}",)
    if question and texts:
        pairs = zip(texts, results[1:], strict=True)
        vectors = {text: v for text, v in pairs if not isinstance(v, EmbeddingRejected)}
        question = understand(question, reader.table, vectors)
    return vector, question, ()


@dataclass(frozen=True, slots=True)
class Ranked:
    """All notes found, best first, and what they were ranked by. `unweighed` is the query's own list as it
    would be without priors, `weighed` with them.
    """

    fused: Sequence[Fused]
    intent: Intent
    allowed: Sequence[int] | None
    retrieved: Retrieved
    expansion: Expansion
    reranked: Reranked
    priors: Priors
    unweighed: Sequence[Fused]
    weighed: Sequence[Fused]
    notices: tuple[str, ...]

    def best_chunk(self, note: Fused) -> int:
        """The chunk of a note to show."""
        return (self.expansion if is_reworded(note) else self.retrieved).best_chunk(note.file_path)


def rank_notes(conn: Connection, request: Request, prepared: Prepared) -> Ranked:
    """Retrieve for a request and its variants, weigh, fuse, and rerank."""
    allowed = find_allowed(conn, request.filters, request.excludes)
    period = read_period(request.query, datetime.now(UTC).astimezone().date())
    retrieved = retrieve(conn, deepen(request, prepared.reranker), prepared.vector, allowed, period)
    if prepared.question is not None:
        order = order_text(retrieved, request)
        links = search_links(conn, prepared.question, prepared.table, DEPTH * request.limit, order, allowed)
        retrieved = replace(retrieved, links=links)
    intent = request.intent or classify_intent(request.query, bool(retrieved.names), period is not None)
    expansion = search_variants(conn, request, prepared.variants, retrieved, allowed)
    unweighed = fuse(retrieved, request, intent)
    found = [note.file_path for note in unweighed]
    priors = find_priors(conn, request, intent, list({}.fromkeys(chain(found, *expansion.lists))))
    weighed = fuse(retrieved, request, intent, priors) if priors else unweighed
    fused = fuse_variants(weighed, expansion, priors)
    notices = (*prepared.notices, *retrieved.notices, *explain_unknown(conn, retrieved.keyword, period))
    notices += (*expansion.notices, *explain_boosts(conn, request, intent))
    if len(fused) < request.limit:
        notices += explain_excludes(request, _find_hidden_matches(conn, request, prepared, period))
    ranked = Ranked(
        fused,
        intent,
        allowed,
        retrieved,
        expansion,
        Reranked(fused),
        priors,
        unweighed,
        weighed,
        notices,
    )
    reranked = rerank(conn, request, fused, retrieved, ranked.best_chunk, prepared.reranker, priors)
    return replace(ranked, fused=reranked.fused, reranked=reranked, notices=(*notices, *reranked.notices))


def _find_hidden_matches(
    conn: Connection, request: Request, prepared: Prepared, period: Period | None
) -> list[str]:
    """The notes that would answer as well, were they not hidden."""
    hidden = find_hidden(conn, request.excludes)
    passing = find_allowed(conn, request.filters) if hidden else None
    ids = hidden if passing is None else hidden & set(passing)
    found = retrieve(conn, request, prepared.vector, sorted(ids), period) if ids else None
    return [note.file_path for note in fuse(found, request, "general")] if found else []


def _answer(conn: Connection, request: Request, prepared: Prepared, about_index: tuple[str, ...]) -> Answer:
    ranked = rank_notes(conn, request, prepared)
    retrieved = ranked.retrieved
    fused = ranked.fused[: request.limit]
    best = [(note.file_path, ranked.best_chunk(note)) for note in fused]
    beside, chunks = _load_shown(conn, request, best, retrieved)
    if below := find_below(conn, best, chunks):
        best = [below.get(key, key) for key in best]
        beside, chunks = _load_shown(conn, request, best, retrieved)
    linked = _explain_links(conn, ranked, request.limit)
    hits = [
        _make_hit(note, chunks[key], ranked, linked.get(note.file_path, ()))
        for note, key in zip(fused, best, strict=True)
        if key in chunks
    ]
    notices = (*ranked.notices, *about_index)
    notices += explain_weakness(hits, retrieved) if hits else explain_nothing(conn, request, ranked.allowed)
    safety = judge_creation(hits)
    shown = [
        hit
        for hit in place_beside(hits, beside, chunks)
        if hit.evidence not in ("neighbor", "same_note") or not is_bare(hit.content, hit.heading_path)
    ]
    return Answer(request.query, request.mode, ranked.intent, tuple(shown), notices, safety)


def _load_shown(
    conn: Connection, request: Request, best: Sequence[ChunkKey], retrieved: Retrieved
) -> tuple[dict[str, list[Beside]], dict[ChunkKey, ShownChunk]]:
    """What is shown behind the best chunks, and all these chunks."""
    beside = {} if "neighbors" in request.without else choose_beside(best, retrieved)
    behind = [other.key for others in beside.values() for other in others]
    return beside, load_chunks(conn, [*best, *behind])


def _explain_links(conn: Connection, ranked: Ranked, limit: int) -> dict[str, tuple[LinkStep, ...]]:
    """By path, how the first notes are linked with what is named."""
    links = ranked.retrieved.links
    return explain_hits(conn, [hit for note in ranked.fused[:limit] if (hit := links.find(note.file_path))])


def _make_hit(note: Fused, chunk: ShownChunk, ranked: Ranked, linked_by: tuple[LinkStep, ...]) -> Hit:
    path = note.file_path
    return Hit(
        file_path=path,
        title=chunk.title,
        heading_path=chunk.heading_path,
        chunk_index=chunk.chunk_index,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        score=round(note.score, 6),
        content=chunk.content,
        ranks=note.ranks,
        evidence="expansion" if is_reworded(note) else find_evidence(path, ranked.retrieved),
        linked_by=linked_by,
        date=chunk.date,
    )
