"""From a request to an answer: retrieve, fuse by note, load the best chunks, add neighbours, explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from obsidian_rag.embedding import Vector
from obsidian_rag.errors import EmbedderError, IndexMismatch
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.models import Hit
from obsidian_rag.postgres import Connection
from obsidian_rag.search.dates import read_period
from obsidian_rag.search.evidence import CreateSafety, find_evidence, judge_creation
from obsidian_rag.search.filters import find_allowed
from obsidian_rag.search.fusion import Fused, fuse
from obsidian_rag.search.neighbors import add_neighbors, add_passages
from obsidian_rag.search.notices import describe_index, explain_nothing, explain_weakness
from obsidian_rag.search.query import Intent, Mode, Request, apply_fusion, classify_intent
from obsidian_rag.search.retrieval import Retrieved, retrieve

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
    request = apply_fusion(request, reader.search_fusion)
    vector, notices = embed(reader, request)
    return reader.run(lambda conn: _answer(conn, request, vector, notices))


def embed(reader: IndexReader, request: Request) -> tuple[Vector | None, tuple[str, ...]]:
    """The query's vector where the request wants one, and a notice where it cannot be had. Raises
    EmbedderError in vector mode.
    """
    if request.mode == "keyword" or "vector" in request.without:
        return None, ()
    try:
        return reader.embed_query(request.query), ()
    except (EmbedderError, IndexMismatch) as exc:
        if request.mode == "vector":
            raise
        return None, (f"{WITHOUT_EMBEDDER}: {exc}",)


def _answer(conn: Connection, request: Request, vector: Vector | None, notices: tuple[str, ...]) -> Answer:
    allowed = find_allowed(conn, request.filters)
    period = read_period(request.query, datetime.now(UTC).astimezone().date())
    retrieved = retrieve(conn, request, vector, allowed, period)
    intent = request.intent or classify_intent(request.query, bool(retrieved.names), period is not None)
    fused = fuse(retrieved, request, intent)[: request.limit]
    hits = _load_hits(conn, fused, retrieved)
    notices = (*notices, *retrieved.notices, *describe_index(conn))
    notices += explain_weakness(hits, retrieved) if hits else explain_nothing(conn, request, allowed)
    safety = judge_creation(hits)
    if "neighbors" not in request.without:
        hits = add_neighbors(conn, add_passages(conn, hits, retrieved))
    return Answer(request.query, request.mode, intent, tuple(hits), notices, safety)


# A note found by its name may hold no text; it is an answer all the same.
LOAD_CHUNKS = """
SELECT w.file_path, coalesce(n.title, w.file_path), coalesce(d.heading_path, ''), w.chunk_index,
       d.start_line, d.end_line, coalesce(d.content, '')
FROM unnest(%(paths)s::text[], %(indexes)s::int[]) AS w (file_path, chunk_index)
LEFT JOIN notes n ON n.file_path = w.file_path
LEFT JOIN documents d ON d.file_path = w.file_path AND d.chunk_index = w.chunk_index
WHERE n.file_path IS NOT NULL OR d.file_path IS NOT NULL
"""


def _load_hits(conn: Connection, fused: Sequence[Fused], retrieved: Retrieved) -> list[Hit]:
    wanted = {
        "paths": [note.file_path for note in fused],
        "indexes": [retrieved.best_chunk(note.file_path) for note in fused],
    }
    rows = {row[0]: row for row in conn.execute(LOAD_CHUNKS, wanted).fetchall()}
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
                evidence=find_evidence(path, retrieved),
            )
        )
    return hits
