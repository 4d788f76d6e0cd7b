"""Every write to the index, and the reads the indexer needs to decide what to write."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from psycopg import sql
from psycopg.types.json import Jsonb

from obsidian_rag.errors import DatabaseUnsuitable
from obsidian_rag.models import Chunk, Note, Resolution, VaultFile
from obsidian_rag.postgres import Connection, pgvector_version

HNSW_LIMIT = 2000  # dimensions of `vector` an HNSW index takes; halfvec takes twice as many
HALFVEC_LIMIT = 4000


@dataclass(frozen=True, slots=True)
class StoredNote:
    """What the index knows of a note, for the diff. `parser_version` is None for a note of the first schema
    whose chunks were made by another program.
    """

    file_path: str
    file_hash: str
    size: int
    mtime_ns: int
    ctime_ns: int
    indexed_at: datetime
    parser_version: int | None


# --- vectors -----------------------------------------------------------------------------------------


def embedding_text(chunk: Chunk) -> str:
    """What is embedded for a chunk: its heading path as context, then its text."""
    return "\n".join((format_heading_path(chunk.heading_path), chunk.content)).strip()


def hash_text(text: str) -> bytes:
    """The identity of an embedded text: equal texts share one vector. 16 bytes of BLAKE2b."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def format_heading_path(heading_path: Sequence[str]) -> str:
    """A heading path as it is stored and shown: `Outer > Inner`."""
    return " > ".join(heading for heading in heading_path if heading)


def vector_dimensions(conn: Connection) -> int:
    """The dimensions of the column documents.embedding; -1 where it was declared without."""
    row = conn.execute(
        "SELECT atttypmod FROM pg_attribute WHERE attrelid = 'documents'::regclass AND attname = 'embedding'"
    ).fetchone()
    assert row is not None
    return int(row[0])


def has_chunks(conn: Connection) -> bool:
    """Whether the index holds any chunk."""
    row = conn.execute("SELECT EXISTS (SELECT FROM documents)").fetchone()
    return bool(row and row[0])


def set_dimensions(conn: Connection, dimensions: int) -> None:
    """Give the empty table documents vectors of this length, and the fitting HNSW index.

    Over 2,000 dimensions HNSW indexes them as halfvec, a cast in the index: the stored vectors stay whole.
    """
    if dimensions > HALFVEC_LIMIT or (dimensions > HNSW_LIMIT and pgvector_version(conn) < (0, 7)):
        raise DatabaseUnsuitable(
            f"pgvector indexes at most {HALFVEC_LIMIT} dimensions, the model gives {dimensions}",
            "Use a model with fewer.",
        )
    size = sql.Literal(dimensions)
    column = (
        sql.SQL("((embedding::halfvec({})) halfvec_cosine_ops)").format(size)
        if dimensions > HNSW_LIMIT
        else sql.SQL("(embedding vector_cosine_ops)")
    )
    with conn.transaction():
        conn.execute("DROP INDEX IF EXISTS documents_embedding_idx")
        conn.execute(sql.SQL("ALTER TABLE documents ALTER COLUMN embedding TYPE vector({})").format(size))
        conn.execute(
            sql.SQL("CREATE INDEX documents_embedding_idx ON documents USING hnsw {}").format(column)
        )


# Vectors of chunks that this run removed, so that text moved between notes keeps its vector whatever the
# order in which the two notes are stored.
DEPARTED = """
CREATE TEMPORARY TABLE IF NOT EXISTS departed (content_hash BYTEA PRIMARY KEY, embedding vector NOT NULL)
"""
KEEP_DEPARTED = """
INSERT INTO departed
SELECT DISTINCT ON (content_hash) content_hash, embedding FROM documents
WHERE file_path = ANY(%s) AND content_hash IS NOT NULL
ON CONFLICT DO NOTHING
"""
FIND_VECTORS = """
SELECT DISTINCT ON (content_hash) content_hash, embedding FROM (
    SELECT content_hash, embedding FROM documents WHERE content_hash = ANY(%(hashes)s)
    UNION ALL
    SELECT content_hash, embedding FROM departed WHERE content_hash = ANY(%(hashes)s)) AS known
"""


def create_departed(conn: Connection) -> None:
    """Make room for the vectors of removed chunks, for the length of this connection."""
    conn.execute(DEPARTED)


def find_vectors(conn: Connection, hashes: Iterable[bytes]) -> dict[bytes, np.ndarray]:
    """Vectors already in the index, by the hash of the text they belong to."""
    rows = conn.execute(FIND_VECTORS, {"hashes": list(hashes)}, binary=True).fetchall()
    return {bytes(content_hash): _as_array(embedding) for content_hash, embedding in rows}


def _as_array(embedding: Any) -> np.ndarray:
    return np.asarray(embedding.to_numpy() if hasattr(embedding, "to_numpy") else embedding, dtype=np.float32)


# --- notes -------------------------------------------------------------------------------------------


def load_notes(conn: Connection) -> dict[str, StoredNote]:
    """All notes of the index by path, as the diff needs them."""
    rows = conn.execute(
        "SELECT file_path, file_hash, size, mtime_ns, ctime_ns, indexed_at, parser_version FROM notes"
    ).fetchall()
    return {row[0]: StoredNote(*row) for row in rows}


def load_aliases(conn: Connection) -> dict[str, list[str]]:
    """Aliases by note path, for notes that have any."""
    return dict(conn.execute("SELECT file_path, aliases FROM notes WHERE aliases <> '{}'").fetchall())


UPSERT_NOTE = """
INSERT INTO notes (file_path, file_hash, title, aliases, tags, front_matter, content, warnings,
                   size, mtime_ns, ctime_ns, modified_at, parser_version)
VALUES (%(file_path)s, %(file_hash)s, %(title)s, %(aliases)s, %(tags)s, %(front_matter)s, %(content)s,
        %(warnings)s, %(size)s, %(mtime_ns)s, %(ctime_ns)s, %(modified_at)s, %(parser_version)s)
ON CONFLICT (file_path) DO UPDATE SET
    file_hash = excluded.file_hash, title = excluded.title, aliases = excluded.aliases,
    tags = excluded.tags, front_matter = excluded.front_matter, content = excluded.content,
    warnings = excluded.warnings, size = excluded.size, mtime_ns = excluded.mtime_ns,
    ctime_ns = excluded.ctime_ns, modified_at = excluded.modified_at,
    parser_version = excluded.parser_version, indexed_at = clock_timestamp()
"""
# Title and path terms weigh most, then the heading path, then the text.
SEARCH_TSV = """
setweight(to_tsvector(%(config)s::regconfig, %(path_terms)s::text), 'A')
|| setweight(to_tsvector(%(config)s::regconfig, %(heading_path)s::text), 'B')
|| setweight(to_tsvector(%(config)s::regconfig, %(content)s::text), 'D')
"""
INSERT_CHUNK = f"""
INSERT INTO documents (file_path, file_hash, chunk_index, heading, heading_path, content, embedding,
                       content_tsv, search_tsv, path_terms, metadata, start_line, end_line, overlap,
                       content_hash)
VALUES (%(file_path)s, %(file_hash)s, %(chunk_index)s, %(heading)s, %(heading_path)s, %(content)s,
        %(embedding)s, to_tsvector(%(config)s::regconfig, %(content)s::text), {SEARCH_TSV}, %(path_terms)s,
        %(metadata)s, %(start_line)s, %(end_line)s, %(overlap)s, %(content_hash)s)
"""  # noqa: S608 - a constant of this module, no value
INSERT_LINK = """
INSERT INTO note_links (source_path, target_name, kind, display_text, heading, block, property, line,
                        occurrences, target_type)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, 'unresolved')
"""


def store_note(
    conn: Connection,
    note: Note,
    file: VaultFile,
    file_hash: str,
    chunks: Sequence[Chunk],
    vectors: Sequence[np.ndarray],
    fts_config: str,
    parser_version: int,
    old_path: str | None = None,
) -> None:
    """Replace a note with all that belongs to it, in one transaction; with `old_path`, a renamed one.

    `vectors` has one vector a chunk. A reader sees the old note or the new one, never a mixture.
    """
    gone = [note.file_path] if old_path is None else [note.file_path, old_path]
    with conn.transaction():
        conn.execute(KEEP_DEPARTED, (gone,))
        _delete_rows(conn, gone)
        upsert_note(conn, note, file, file_hash, parser_version)
        insert_links(conn, note)
        with conn.cursor() as cur:
            cur.executemany(
                INSERT_CHUNK,
                [
                    _chunk_row(note, file_hash, chunk, vector, fts_config)
                    for chunk, vector in zip(chunks, vectors, strict=True)
                ],
            )


def _chunk_row(
    note: Note, file_hash: str, chunk: Chunk, vector: np.ndarray, fts_config: str
) -> dict[str, Any]:
    return {
        "file_path": note.file_path,
        "file_hash": file_hash,
        "chunk_index": chunk.chunk_index,
        "heading": chunk.heading,
        "heading_path": format_heading_path(chunk.heading_path),
        "content": chunk.content,
        "embedding": vector,
        "config": fts_config,
        "path_terms": split_path(note.file_path),
        "metadata": Jsonb({"title": note.title, "tags": list(note.tags)}),
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "overlap": chunk.overlap,
        "content_hash": hash_text(embedding_text(chunk)),
    }


def upsert_note(
    conn: Connection, note: Note, file: VaultFile, file_hash: str, parser_version: int | None
) -> None:
    """Write the note's own row."""
    conn.execute(
        UPSERT_NOTE,
        {
            "file_path": note.file_path,
            "file_hash": file_hash,
            "title": note.title,
            "aliases": list(note.aliases),
            "tags": list(note.tags),
            "front_matter": Jsonb(note.front_matter, dumps=_dump_json),
            "content": note.text,
            "warnings": list(note.warnings),
            "size": file.size,
            "mtime_ns": file.mtime_ns,
            "ctime_ns": file.ctime_ns,
            "modified_at": _as_datetime(file.mtime_ns),
            "parser_version": parser_version,
        },
    )


def insert_links(conn: Connection, note: Note) -> None:
    """Write the note's links, unresolved until the whole vault is resolved."""
    with conn.cursor() as cur:
        cur.executemany(
            INSERT_LINK,
            [
                (
                    note.file_path,
                    link.target,
                    link.kind,
                    link.display,
                    link.heading,
                    link.block,
                    link.property,
                    link.line,
                    link.count,
                )
                for link in note.links
            ],
        )


def split_path(file_path: str) -> str:
    """The words of a path: `personal/golf/rotella-plan.md` -> `personal golf rotella plan`."""
    stem = re.sub(r"\.md$", "", file_path, flags=re.IGNORECASE)
    return " ".join(re.findall(r"[^\W_]+(?:['’][^\W_]+)*", stem))


def delete_notes(conn: Connection, paths: Sequence[str]) -> None:
    """Remove notes with all that belongs to them, each whole, in one transaction."""
    with conn.transaction():
        conn.execute(KEEP_DEPARTED, (list(paths),))
        _delete_rows(conn, paths)
        conn.execute("DELETE FROM notes WHERE file_path = ANY(%s)", (list(paths),))


def _delete_rows(conn: Connection, paths: Sequence[str]) -> None:
    conn.execute("DELETE FROM documents WHERE file_path = ANY(%s)", (list(paths),))
    conn.execute("DELETE FROM note_links WHERE source_path = ANY(%s)", (list(paths),))
    if len(paths) > 1:
        conn.execute("DELETE FROM notes WHERE file_path = ANY(%s)", (list(paths),))


def touch_notes(conn: Connection, files: Iterable[VaultFile]) -> None:
    """Record new times of notes whose bytes are the same, so that the next run need not read them."""
    rows = [(f.size, f.mtime_ns, f.ctime_ns, _as_datetime(f.mtime_ns), f.path) for f in files]
    with conn.transaction(), conn.cursor() as cur:
        cur.executemany(
            "UPDATE notes SET size = %s, mtime_ns = %s, ctime_ns = %s, modified_at = %s,"
            " indexed_at = clock_timestamp() WHERE file_path = %s",
            rows,
        )


def _as_datetime(nanoseconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(nanoseconds / 1e9, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(0, UTC)  # a file system's nonsense must not lose the note


def _dump_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


# --- links -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredLink:
    """A row of note_links with what it leads to at present."""

    id: int
    source_path: str
    target_name: str
    kind: str
    resolution: Resolution


def load_links(conn: Connection) -> list[StoredLink]:
    """All links of the index."""
    rows = conn.execute(
        "SELECT id, source_path, target_name, kind, target_path, target_type, via FROM note_links"
    ).fetchall()
    return [
        StoredLink(link_id, source, target, kind, Resolution(path, target_type, via))
        for link_id, source, target, kind, path, target_type, via in rows
    ]


def save_resolutions(conn: Connection, changed: Sequence[tuple[int, Resolution]]) -> None:
    """Write what links lead to, in one transaction."""
    conn.execute(
        "UPDATE note_links AS l SET target_path = u.path, target_type = u.type, via = u.via,"
        " updated_at = now()"
        " FROM unnest(%s::int[], %s::text[], %s::text[], %s::text[]) AS u (id, path, type, via)"
        " WHERE l.id = u.id",
        (
            [link_id for link_id, _ in changed],
            [r.path for _, r in changed],
            [r.target_type for _, r in changed],
            [r.via for _, r in changed],
        ),
    )
