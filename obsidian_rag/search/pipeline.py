"""From a request to an answer: retrieve, fuse, pool by note, add neighbours, say what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from obsidian_rag.embedding import Vector
from obsidian_rag.errors import EmbedderError, IndexMismatch
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.models import Hit
from obsidian_rag.postgres import Connection
from obsidian_rag.search.candidates import Candidate
from obsidian_rag.search.fusion import fuse_ranks
from obsidian_rag.search.keyword import KeywordResult, search_keywords
from obsidian_rag.search.neighbors import add_neighbors
from obsidian_rag.search.query import Intent, Mode, Request, classify_intent
from obsidian_rag.search.vector import search_vectors

CreateSafety = Literal["exists", "probable", "unknown"]

# Candidates of each retriever, as a multiple of the notes wanted; chunks are asked for twice as deep, since
# several of one note count once.
DEPTH = 3
CHUNK_DEPTH = 6
# A cosine from which a neighbour is about the same thing; below it the nearest may be noise.
HIGH_COSINE = 0.5


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


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The ranked lists of the retrievers, by name, and what they had to say."""

    lists: dict[str, Sequence[Candidate]]
    keyword: KeywordResult | None
    notices: tuple[str, ...]


def search(reader: IndexReader, request: Request) -> Answer:
    """Answer a request. Raises EmbedderError in vector mode where the query cannot be embedded, and
    DatabaseError; in hybrid mode a missing embedder is a notice.
    """
    vector, notices = _embed(reader, request)
    return reader.run(lambda conn: _answer(conn, request, vector, notices))


def _embed(reader: IndexReader, request: Request) -> tuple[Vector | None, tuple[str, ...]]:
    if request.mode == "keyword":
        return None, ()
    try:
        return reader.embed_query(request.query), ()
    except (EmbedderError, IndexMismatch) as exc:
        if request.mode == "vector":
            raise
        return None, (f"Answered by keywords only, without the embedder: {exc}",)


def _answer(conn: Connection, request: Request, vector: Vector | None, notices: tuple[str, ...]) -> Answer:
    intent = classify_intent(request.query)
    retrieved = _retrieve(conn, request, vector)
    hits = _load_hits(conn, _fuse(retrieved)[: request.limit], retrieved, request.query)
    notices = (*notices, *retrieved.notices, *describe_index(conn))
    if not hits:
        notices = (*notices, *_explain_nothing(conn, request))
    results = add_neighbors(conn, hits)
    return Answer(request.query, request.mode, intent, tuple(results), notices, judge_creation(hits))


def _retrieve(conn: Connection, request: Request, vector: Vector | None) -> Retrieved:
    count = CHUNK_DEPTH * request.limit
    lists: dict[str, Sequence[Candidate]] = {}
    keyword = None
    notices: tuple[str, ...] = ()
    if vector is not None:
        lists["vector"] = search_vectors(conn, vector, count)
    if request.mode != "vector":
        keyword = search_keywords(conn, request.query, count)
        lists["keyword"] = keyword.candidates
        if not keyword.parsed:
            notices = ("The query has only words that are too common for the keyword search.",)
        elif keyword.any_word and keyword.candidates:
            notices = ("No passage holds all the words; keyword hits hold some of them.",)
    return Retrieved(lists, keyword, notices)


def _fuse(retrieved: Retrieved) -> list[tuple[str, float, dict[str, int]]]:
    limit = {name: _best_by_note(found) for name, found in retrieved.lists.items()}
    return fuse_ranks({name: list(notes) for name, notes in limit.items()})


def _best_by_note(candidates: Sequence[Candidate]) -> dict[str, Candidate]:
    best: dict[str, Candidate] = {}
    for candidate in candidates:
        best.setdefault(candidate.file_path, candidate)
    return best


LOAD_CHUNKS = """
SELECT d.id, d.file_path, coalesce(n.title, d.file_path), coalesce(n.aliases, '{}'), d.heading_path,
       d.chunk_index, d.start_line, d.end_line, d.content
FROM documents d LEFT JOIN notes n ON n.file_path = d.file_path
WHERE d.id = ANY(%s)
"""


def _load_hits(
    conn: Connection,
    fused: Sequence[tuple[str, float, dict[str, int]]],
    retrieved: Retrieved,
    query: str,
) -> list[Hit]:
    chunks = fuse_ranks({name: [c.id for c in found] for name, found in retrieved.lists.items()})
    paths = {c.id: c.file_path for found in retrieved.lists.values() for c in found}
    shown: dict[str, int] = {}
    for chunk_id, _, _ in chunks:
        shown.setdefault(paths[chunk_id], chunk_id)
    cosines = {c.id: c.score for c in retrieved.lists.get("vector", ())}
    rows = conn.execute(LOAD_CHUNKS, ([shown[path] for path, _, _ in fused],)).fetchall()
    by_path = {row[1]: row for row in rows}
    hits = []
    for path, score, ranks in fused:
        if path not in by_path:
            continue  # removed between two statements by an indexer at work
        chunk_id, _, title, aliases, heading_path, index, start_line, end_line, content = by_path[path]
        evidence = _find_evidence(query, title, aliases, ranks, retrieved, cosines.get(chunk_id))
        hits.append(
            Hit(
                path, title, heading_path, index, start_line, end_line, round(score, 6), content,
                False, ranks, evidence,
            )
        )  # fmt: skip
    return hits


def _find_evidence(
    query: str,
    title: str,
    aliases: Sequence[str],
    ranks: dict[str, int],
    retrieved: Retrieved,
    cosine: float | None,
) -> str:
    asked = _fold(query)
    if _fold(title) == asked:
        return "exact_title"
    if asked in map(_fold, aliases):
        return "alias"
    if "keyword" in ranks and retrieved.keyword and not retrieved.keyword.any_word:
        return "keyword_exact"
    if cosine is not None and cosine >= HIGH_COSINE:
        return "high_vector"
    return "keyword" if "keyword" in ranks else "weak_semantic"


def _fold(text: str) -> str:
    return " ".join(text.strip("\"' ").casefold().split())


def judge_creation(hits: Sequence[Hit]) -> CreateSafety:
    """Whether a note on the query exists, probably exists, or cannot be told to exist."""
    evidence = {hit.evidence for hit in hits}
    if evidence & {"exact_title", "alias"}:
        return "exists"
    return "probable" if evidence & {"keyword_exact", "high_vector"} else "unknown"


INDEX_STATE = """
SELECT r.status, r.error, extract(epoch FROM now() - coalesce(r.finished_at, r.started_at))::float8,
       (SELECT count(*) FROM failures)
FROM index_runs r WHERE r.status <> 'running' ORDER BY r.run_id DESC LIMIT 1
"""
STALE_AFTER = 7 * 24 * 3600.0  # seconds; a nightly job that has failed for a week is not working


def describe_index(conn: Connection) -> list[str]:
    """Notices about the index itself: the last run failed, left notes out, or was long ago."""
    row = conn.execute(INDEX_STATE).fetchone()
    if row is None:
        return []
    status, error, age, failures = row
    notices = []
    if status == "failed":
        notices.append(f"The last run of the indexer failed: {error}. Newer edits may be missing.")
    elif failures:
        notices.append(f"{failures} notes could not be indexed; `obsidian-rag status` names them.")
    if age > STALE_AFTER:
        notices.append(f"The index is {age / 86400:.0f} days old. Run: obsidian-rag index")
    return notices


def _explain_nothing(conn: Connection, request: Request) -> list[str]:
    row = conn.execute("SELECT EXISTS (SELECT FROM documents), EXISTS (SELECT FROM notes)").fetchone()
    has_chunks, has_notes = row if row else (False, False)
    if not has_notes and not has_chunks:
        return ["The index is empty. Run: obsidian-rag index /path/to/vault"]
    if not has_chunks:
        return ["The notes in the index hold no text."]
    if request.mode == "keyword":
        return ["No note holds any of these words. Try mode=hybrid, or other words."]
    return ["No note matches."]
