"""From a request to an answer: retrieve, fuse by note, rerank, load the best chunks, explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from obsidian_rag.embedding import Vector, only
from obsidian_rag.embedding.cross_encoder import CrossEncoder
from obsidian_rag.errors import EmbedderError, EmbeddingRejected, IndexMismatch
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.models import Hit
from obsidian_rag.postgres import Connection
from obsidian_rag.relations import Table
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
from obsidian_rag.search.neighbors import add_neighbors, add_passages
from obsidian_rag.search.notices import (
    describe_index,
    explain_boosts,
    explain_excludes,
    explain_nothing,
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
    return reader.run_prepared(
        lambda: prepare(reader, request),
        lambda conn, prepared: _answer(conn, request, prepared, about_index),
    )


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
    notices = (*prepared.notices, *retrieved.notices, *expansion.notices)
    notices += explain_boosts(conn, request, intent)
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
    hits = _load_hits(conn, ranked, request.limit)
    notices = (*ranked.notices, *about_index)
    notices += explain_weakness(hits, retrieved) if hits else explain_nothing(conn, request, ranked.allowed)
    safety = judge_creation(hits)
    if "neighbors" not in request.without:
        hits = add_neighbors(conn, add_passages(conn, hits, retrieved))
    return Answer(request.query, request.mode, ranked.intent, tuple(hits), notices, safety)


# A note found by its name may hold no text; it is an answer all the same.
LOAD_CHUNKS = """
SELECT w.file_path, coalesce(n.title, w.file_path), coalesce(d.heading_path, ''), w.chunk_index,
       d.start_line, d.end_line, coalesce(d.content, '')
FROM unnest(%(paths)s::text[], %(indexes)s::int[]) AS w (file_path, chunk_index)
LEFT JOIN notes n ON n.file_path = w.file_path
LEFT JOIN documents d ON d.file_path = w.file_path AND d.chunk_index = w.chunk_index
WHERE n.file_path IS NOT NULL OR d.file_path IS NOT NULL
"""


def _load_hits(conn: Connection, ranked: Ranked, limit: int) -> list[Hit]:
    fused = ranked.fused[:limit]
    wanted = {
        "paths": [note.file_path for note in fused],
        "indexes": [ranked.best_chunk(note) for note in fused],
    }
    rows = {row[0]: row for row in conn.execute(LOAD_CHUNKS, wanted).fetchall()}
    links = ranked.retrieved.links
    linked = explain_hits(conn, [hit for note in fused if (hit := links.find(note.file_path))])
    hits = []
    for note in fused:
        if note.file_path not in rows:
            continue  # removed between two statements by an indexer at work
        path, title, heading_path, index, start_line, end_line, content = rows[note.file_path]
        hits.append(
            Hit(
                file_path=path,
                title=title,
                heading_path=heading_path,
                chunk_index=index,
                start_line=start_line,
                end_line=end_line,
                score=round(note.score, 6),
                content=content,
                ranks=note.ranks,
                evidence="expansion" if is_reworded(note) else find_evidence(path, ranked.retrieved),
                linked_by=linked.get(path, ()),
            )
        )
    return hits
