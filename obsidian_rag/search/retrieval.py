"""Run the retrievers of a request and keep what each of them found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from obsidian_rag.embedding import Vector
from obsidian_rag.models import Calibration
from obsidian_rag.postgres import Connection
from obsidian_rag.search.dates import Period
from obsidian_rag.search.facts import load_facts
from obsidian_rag.search.keyword import KeywordResult, search_keywords
from obsidian_rag.search.links import LinkResult
from obsidian_rag.search.names import NameHit, search_names, search_similar_names
from obsidian_rag.search.query import Request, read_operators
from obsidian_rag.search.vector import Required, VectorHit, find_cosines, keep_best, search_chunks

# Notes asked of each retriever, as a multiple of the notes wanted; chunks are asked for twice as deep, since
# several of one note count once.
DEPTH = 3
CHUNK_DEPTH = 6

# The notes of a period: those about its very days first, then those only changed in it.
DATED = """
SELECT file_path FROM notes n
WHERE coalesce(note_date, modified_at::date) BETWEEN %(first)s AND %(last)s
    AND (%(allowed)s::int[] IS NULL OR n.id = ANY(%(allowed)s::int[]))
ORDER BY note_date IS NULL, coalesce(note_date, modified_at::date) DESC, file_path LIMIT 1000
"""


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What the retrievers found, each best first. `cosines` and `keywords` also hold notes that only the
    other of the two listed. `near_chunks` are all chunks that the vector retriever found.
    """

    vector: Sequence[VectorHit]
    keyword: KeywordResult
    names: Sequence[NameHit]
    dated: Sequence[str]
    cosines: dict[str, VectorHit]
    calibration: Calibration
    has_vector: bool
    notices: tuple[str, ...]
    near_chunks: Sequence[VectorHit] = ()
    links: LinkResult = field(default_factory=LinkResult)

    def find_name(self, file_path: str) -> NameHit | None:
        """The name by which the query means a note, None where it means none."""
        return next((hit for hit in self.names if hit.file_path == file_path), None)

    def best_chunk(self, file_path: str) -> int:
        """The chunk of a note to show: that with most of the words, else the nearest, else the first."""
        found = self.keyword.find(file_path)
        near = self.cosines.get(file_path)
        if found and near and found.matched < self.keyword.words / 2:
            return near.chunk_index
        return found.chunk_index if found else near.chunk_index if near else 0

    def further_chunks(self, file_path: str, least_cosine: float) -> list[int]:
        """Other chunks of a note that answer by themselves: that with most of the words, and near ones. Those
        beside the best chunk are left out, since they are shown as its neighbours.
        """
        found = self.keyword.find(file_path)
        words = [found.chunk_index, *found.further] if found else []
        near = [
            h.chunk_index for h in self.near_chunks if h.file_path == file_path and h.cosine >= least_cosine
        ]
        best = self.best_chunk(file_path)
        return [index for index in dict.fromkeys([*words, *near]) if abs(index - best) > 1]


def retrieve(
    conn: Connection,
    request: Request,
    vector: Vector | None,
    allowed: Sequence[int] | None,
    period: Period | None,
) -> Retrieved:
    """Run the retrievers of the request's mode within the note ids `allowed`."""
    facts = load_facts(conn)
    count = DEPTH * request.limit
    operators = read_operators(request.query)
    required = None
    if operators and operators.required:
        required = Required(operators.required, facts.configs)
    depth = CHUNK_DEPTH * request.limit
    chunks = [] if vector is None else search_chunks(conn, vector, depth, allowed, required)
    vector_hits = keep_best(chunks)[:count]
    keyword, names = KeywordResult((), 0), []
    if request.mode != "vector":
        also = [hit.file_path for hit in vector_hits]
        if "keyword" not in request.without:
            keyword = search_keywords(
                conn, facts, request.query, count, allowed=allowed, also=also, without=request.without
            )
        if "names" not in request.without:
            names = find_names(conn, request.query, count, keyword, allowed)
    dated = (
        find_dated(conn, period, allowed)
        if period and required is None and "dates" not in request.without
        else []
    )
    cosines = {hit.file_path: hit for hit in vector_hits}
    if vector is not None and request.mode == "hybrid":
        # What the operators leave has its vectors already; another chunk of the note may be excluded.
        others = [h.file_path for h in keyword.hits if h.file_path not in cosines and required is None]
        cosines |= {hit.file_path: hit for hit in find_cosines(conn, vector, others)}
    return Retrieved(
        vector_hits,
        keyword,
        names,
        dated,
        cosines,
        facts.calibration,
        vector is not None,
        _describe(keyword),
        chunks,
    )


def find_names(
    conn: Connection, query: str, count: int, keyword: KeywordResult, allowed: Sequence[int] | None
) -> list[NameHit]:
    """Notes named by the query; with a slip of the pen only where exact matching has nothing."""
    operators = read_operators(query)
    if operators and operators.excludes:
        return []
    found = search_names(conn, query, count, keyword.words, allowed)
    if found or not keyword.unknown:
        return found
    return search_similar_names(conn, query, keyword.unknown, count, allowed)


def find_dated(conn: Connection, period: Period, allowed: Sequence[int] | None) -> list[str]:
    """The notes of a period, those about its days first."""
    values = {
        "first": period.first,
        "last": period.last,
        "allowed": None if allowed is None else list(allowed),
    }
    return [row[0] for row in conn.execute(DATED, values).fetchall()]


def _describe(keyword: KeywordResult) -> tuple[str, ...]:
    if keyword.loosened and keyword.hits:
        return ("No passage holds the query as written; these hold its quotes, or some of its words.",)
    return ()
