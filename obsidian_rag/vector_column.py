"""The column documents.embedding: its dimensions and the index by which near vectors are found."""

from __future__ import annotations

from psycopg import sql

from obsidian_rag.errors import DatabaseUnsuitable
from obsidian_rag.postgres import Connection

MOST_DIMENSIONS = 4000  # that an HNSW index takes of halfvec
VECTOR_INDEX = "documents_embedding_idx"
# By cosine; equal vectors of repeated text once, since many of them would cut the graph apart. As halfvec, a
# cast in the index: it takes half the room and two thirds of the time to build. The stored vectors stay
# whole, and the distances of what the index finds are computed from them.
CREATE_VECTOR_INDEX = sql.SQL("""
CREATE INDEX {name} ON {table} USING hnsw ((embedding::halfvec({dimensions})) halfvec_cosine_ops)
WHERE NOT repeated
""")


def vector_dimensions(conn: Connection) -> int:
    """The dimensions of the column documents.embedding; -1 where it was declared without."""
    row = conn.execute(
        "SELECT atttypmod FROM pg_attribute WHERE attrelid = 'documents'::regclass AND attname = 'embedding'"
    ).fetchone()
    assert row is not None
    return int(row[0])


def set_dimensions(conn: Connection, dimensions: int) -> None:
    """Give the empty table documents vectors of this length, and the fitting HNSW index."""
    check_dimensions(dimensions)
    if vector_dimensions(conn) == dimensions:
        return  # nothing to change, so that nothing needs the tables' owner
    with conn.transaction():
        conn.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(sql.Identifier(VECTOR_INDEX)))
        set_vector_type(conn, "documents", dimensions)
        parts = name_vector_index("documents", VECTOR_INDEX, dimensions)
        conn.execute(CREATE_VECTOR_INDEX.format(**parts))


def check_dimensions(dimensions: int) -> None:
    """Raise DatabaseUnsuitable for vectors too long to be indexed."""
    if dimensions > MOST_DIMENSIONS:
        raise DatabaseUnsuitable(
            f"pgvector indexes at most {MOST_DIMENSIONS} dimensions, the model gives {dimensions}",
            "Use a model with fewer.",
        )


def set_vector_type(conn: Connection, table: str, dimensions: int) -> None:
    """Give the column `embedding` of a table without rows vectors of this length."""
    conn.execute(
        sql.SQL("ALTER TABLE {} ALTER COLUMN embedding TYPE vector({})").format(
            sql.Identifier(table), sql.Literal(dimensions)
        )
    )


def name_vector_index(table: str, name: str, dimensions: int) -> dict[str, sql.Composable]:
    """The parts of CREATE_VECTOR_INDEX."""
    return {
        "table": sql.Identifier(table),
        "name": sql.Identifier(name),
        "dimensions": sql.Literal(dimensions),
    }


# An index that outgrows its memory while it is built takes three times as long.
GRAPH_BYTES = 500  # about what HNSW keeps of a vector beside its numbers
MOST_MEMORY = 1024**3
TAKE_MEMORY = """
SELECT set_config('maintenance_work_mem', greatest(
    pg_size_bytes(current_setting('maintenance_work_mem')),
    least((SELECT count(*) FROM documents) * %(bytes)s::bigint, %(most)s::bigint)) / 1024 || 'kB', true)
"""


def take_memory(conn: Connection) -> None:
    """Let this transaction build the vector index in memory."""
    size = 2 * vector_dimensions(conn) + GRAPH_BYTES
    conn.execute(TAKE_MEMORY, {"bytes": size, "most": MOST_MEMORY})
