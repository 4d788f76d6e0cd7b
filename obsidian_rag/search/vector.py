"""The vector retriever: nearest chunks by cosine."""

from __future__ import annotations

from psycopg import sql

from obsidian_rag.embedding import Vector
from obsidian_rag.postgres import Connection
from obsidian_rag.search.candidates import Candidate
from obsidian_rag.store import HNSW_LIMIT

MOST_EF_SEARCH = 1000  # pgvector's own limit
LEAST_EF_SEARCH = 100  # recall of the HNSW graph; pgvector's 40 loses neighbours

# `distance` must be the very expression the index was made on, or the whole table is read.
NEAREST = sql.SQL("""
SELECT id, file_path, chunk_index, 1 - ({distance}) AS cosine
FROM documents ORDER BY {distance} LIMIT %(count)s
""")
DISTANCE = sql.SQL("embedding <=> %(vector)s")
HALFVEC_DISTANCE = sql.SQL("embedding::halfvec({n}) <=> %(vector)s::halfvec({n})")


def search_vectors(conn: Connection, vector: Vector, count: int) -> list[Candidate]:
    """The `count` nearest chunks, best first; `Candidate.score` is the cosine."""
    dimensions = len(vector)
    distance = HALFVEC_DISTANCE.format(n=sql.Literal(dimensions)) if dimensions > HNSW_LIMIT else DISTANCE
    with conn.transaction():
        ef_search = min(max(count, LEAST_EF_SEARCH), MOST_EF_SEARCH)
        conn.execute("SELECT set_config('hnsw.ef_search', %s, true)", (str(ef_search),))
        rows = conn.execute(NEAREST.format(distance=distance), {"vector": vector, "count": count}).fetchall()
    # The scan is allowed to hand over neighbours in nearly the right order; ties go by path.
    return sorted((Candidate(*row) for row in rows), key=lambda c: (-c.score, c.file_path, c.chunk_index))
