"""The vector retriever: nearest chunks by cosine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from psycopg import sql

from obsidian_rag.embedding import Vector
from obsidian_rag.postgres import LEAST_EF_SEARCH, MOST_EF_SEARCH, Connection

# Up to so many notes a filter's rest is read whole and ordered exactly: faster than an index scan that has
# to skip nearly everything, and it cannot come back short.
READ_WHOLE = 2000

# `indexed` must be the very expression the index was made on, or the whole table is read.
# Of chunks with the same text the index has one; the others are as near.
NEAREST = sql.SQL("""
WITH nearest AS MATERIALIZED (
    SELECT file_path, chunk_index, content_hash, {distance} AS distance
    FROM documents WHERE NOT repeated ORDER BY {indexed} LIMIT %(count)s)
SELECT file_path, chunk_index, 1 - distance FROM (
    SELECT file_path, chunk_index, distance FROM nearest
    UNION ALL
    SELECT d.file_path, d.chunk_index, n.distance FROM nearest n CROSS JOIN LATERAL (
        SELECT file_path, chunk_index FROM documents WHERE content_hash = n.content_hash AND repeated
        ORDER BY file_path, chunk_index LIMIT %(count)s) AS d) AS found
ORDER BY distance, file_path, chunk_index LIMIT %(count)s
""")
NEAREST_ALLOWED = sql.SQL("""
WITH allowed AS MATERIALIZED (SELECT n.file_path FROM notes n WHERE n.id = ANY(%(allowed)s)),
nearest AS MATERIALIZED (
    SELECT d.file_path, d.chunk_index, d.content_hash, {distance} AS distance
    FROM documents d
    WHERE NOT d.repeated AND (d.file_path IN (SELECT file_path FROM allowed) OR d.content_hash IN (
        SELECT content_hash FROM documents WHERE repeated AND file_path IN (SELECT file_path FROM allowed)))
    ORDER BY {indexed} LIMIT %(count)s)
SELECT file_path, chunk_index, 1 - distance FROM (
    SELECT file_path, chunk_index, distance FROM nearest
    UNION ALL
    SELECT d.file_path, d.chunk_index, n.distance
    FROM nearest n JOIN documents d ON d.content_hash = n.content_hash AND d.repeated) AS found
WHERE file_path IN (SELECT file_path FROM allowed)
ORDER BY distance, file_path, chunk_index LIMIT %(count)s
""")
NEAREST_READ_WHOLE = sql.SQL("""
WITH allowed AS MATERIALIZED (
    SELECT d.file_path, d.chunk_index, d.embedding
    FROM notes n JOIN documents d USING (file_path) WHERE n.id = ANY(%(allowed)s))
SELECT file_path, chunk_index, 1 - ({distance}) AS cosine
FROM allowed ORDER BY {distance} LIMIT %(count)s
""")
# Phrases and exclusions hold for chunks found by meaning too; what they leave is read whole.
NEAREST_FITTING = sql.SQL("""
WITH fitting AS MATERIALIZED (
    SELECT d.file_path, d.chunk_index, d.embedding
    FROM unnest(%(configs)s::text[]) AS c (config)
    JOIN notes n ON n.fts_config = c.config
    JOIN documents d USING (file_path)
    WHERE d.search_tsv @@ websearch_to_tsquery(c.config::regconfig, %(required)s::text)
        AND (%(allowed)s::int[] IS NULL OR n.id = ANY(%(allowed)s::int[])))
SELECT file_path, chunk_index, 1 - ({distance}) AS cosine
FROM fitting ORDER BY {distance} LIMIT %(count)s
""")
BEST_OF_NOTES = sql.SQL("""
SELECT DISTINCT ON (file_path) file_path, chunk_index, 1 - ({distance}) AS cosine
FROM documents WHERE file_path = ANY(%(paths)s)
ORDER BY file_path, {distance}, chunk_index
""")
WIDEN = """
SELECT set_config('hnsw.ef_search', greatest(%(count)s, current_setting('hnsw.ef_search')::int)::text, true)
"""
EXPLAIN = sql.SQL("EXPLAIN (FORMAT JSON) ")
DISTANCE = sql.SQL("embedding <=> %(vector)s")
INDEXED_DISTANCE = sql.SQL("embedding::halfvec({n}) <=> %(vector)s::halfvec({n})")


@dataclass(frozen=True, slots=True)
class VectorHit:
    """A chunk near to the query; `cosine` lies in [-1, 1]."""

    file_path: str
    chunk_index: int
    cosine: float


def keep_best(chunks: Sequence[VectorHit]) -> list[VectorHit]:
    """The first chunk of each note."""
    best: dict[str, VectorHit] = {}
    for hit in chunks:
        best.setdefault(hit.file_path, hit)
    return list(best.values())


@dataclass(frozen=True, slots=True)
class Required:
    """Phrases and exclusions for websearch_to_tsquery, and the configurations to read them in."""

    web: str
    configs: tuple[str, ...]


def search_chunks(
    conn: Connection,
    vector: Vector,
    count: int,
    allowed: Sequence[int] | None = None,
    required: Required | None = None,
) -> list[VectorHit]:
    """The `count` nearest chunks, best first, within the note ids `allowed` and what `required` leaves."""
    if required is not None:
        statement = NEAREST_FITTING
    elif allowed is None:
        statement = NEAREST
    else:
        statement = NEAREST_READ_WHOLE if len(allowed) <= READ_WHOLE else NEAREST_ALLOWED
    values = {
        "vector": vector,
        "count": count,
        "allowed": None if allowed is None else list(allowed),
        "required": required.web if required else "",
        "configs": list(required.configs) if required else [],
    }
    query = statement.format(distance=DISTANCE, indexed=_indexed_distance(vector))
    with conn.transaction() if count > LEAST_EF_SEARCH else nullcontext():
        if count > LEAST_EF_SEARCH:
            conn.execute(WIDEN, {"count": min(count, MOST_EF_SEARCH)})
        rows = conn.execute(query, values).fetchall()
    # The scan may hand over neighbours in nearly the right order; ties go by path.
    return sorted((VectorHit(*row) for row in rows), key=lambda h: (-h.cosine, h.file_path, h.chunk_index))


def explain_nearest(conn: Connection, vector: Vector, *, must_use_index: bool = False) -> str:
    """The plan of a search for near chunks as JSON text; with `must_use_index`, where reading all chunks is
    no choice.
    """
    with conn.transaction():
        if must_use_index:
            conn.execute("SET LOCAL enable_seqscan = off")
        statement = EXPLAIN + NEAREST.format(distance=DISTANCE, indexed=_indexed_distance(vector))
        row = conn.execute(statement, {"vector": vector, "count": LEAST_EF_SEARCH}).fetchone()
    return json.dumps(row[0]) if row else ""


def find_cosines(conn: Connection, vector: Vector, paths: Sequence[str]) -> list[VectorHit]:
    """The nearest chunk of each of these notes."""
    if not paths:
        return []
    statement = BEST_OF_NOTES.format(distance=DISTANCE, indexed=_indexed_distance(vector))
    rows = conn.execute(statement, {"vector": vector, "paths": list(paths)}).fetchall()
    return [VectorHit(*row) for row in rows]


def _indexed_distance(vector: Vector) -> sql.Composed:
    return INDEXED_DISTANCE.format(n=sql.Literal(len(vector)))
