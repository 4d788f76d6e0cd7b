"""Every write to the index, and the reads the indexer needs to decide what to write."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from psycopg import sql
from psycopg.types.json import Jsonb

from obsidian_rag.errors import DatabaseUnsuitable
from obsidian_rag.keywords import CONTENT_TSV, SEARCH_TSV, keyword_values
from obsidian_rag.link_rows import Relations, insert_links
from obsidian_rag.models import Chunk, Note, Resolution, VaultFile
from obsidian_rag.note_dates import find_note_date
from obsidian_rag.postgres import Connection, pgvector_version
from obsidian_rag.postings import KEYWORD_VERSION, ChunkWords, NoteWords, delete_postings, write_postings
from obsidian_rag.torn_notes import find_torn_notes

HNSW_LIMIT = 2000  # dimensions of `vector` an HNSW index takes; halfvec takes twice as many
HALFVEC_LIMIT = 4000


@dataclass(frozen=True, slots=True)
class StoredNote:
    """What the index knows of a note, for the diff. `indexed_at` is when its file was read by this program's
    clock; `adopted` tells that its chunks are those of the first schema, cut by another program.
    """

    file_path: str
    file_hash: str
    size: int
    mtime_ns: int
    ctime_ns: int
    indexed_at: datetime
    parser_version: int | None
    adopted: bool = False


@dataclass(frozen=True, slots=True)
class ReadNote:
    """A note as it was read from its file at `read_at`; `resolutions` say where each of its links leads,
    `relations` what each of its mentions says.
    """

    note: Note
    file: VaultFile
    file_hash: str
    read_at: datetime
    parser_version: int
    resolutions: tuple[Resolution, ...]
    relations: tuple[Relations, ...]
    fts_config: str


# --- vectors -----------------------------------------------------------------------------------------


def embedding_text(chunk: Chunk) -> str:
    """What is embedded for a chunk: its heading path as context, then its text."""
    return join_text(format_heading_path(chunk.heading_path), chunk.content)


# Blanks weigh nothing when a note is cut, so that a chunk may have megabytes of them.
_BLANKS = re.compile(r"(?<!\s)(\s{1000})\s+")


def join_text(heading_path: str, content: str) -> str:
    """What is embedded for a chunk as it is stored."""
    return _BLANKS.sub(r"\1", f"{heading_path}\n{content}".strip())


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
    """Give the empty table documents vectors of this length, and the fitting HNSW index."""
    check_dimensions(conn, dimensions)
    if vector_dimensions(conn) == dimensions:
        return  # nothing to change, so that nothing needs the tables' owner
    with conn.transaction():
        conn.execute("DROP INDEX IF EXISTS documents_embedding_idx")
        set_vector_type(conn, "documents", dimensions)
        create_vector_index(conn, "documents", "documents_embedding_idx", dimensions)


def check_dimensions(conn: Connection, dimensions: int) -> None:
    """Raise DatabaseUnsuitable for vectors too long to be indexed."""
    if dimensions > HALFVEC_LIMIT or (dimensions > HNSW_LIMIT and pgvector_version(conn) < (0, 7)):
        raise DatabaseUnsuitable(
            f"pgvector indexes at most {HALFVEC_LIMIT} dimensions, the model gives {dimensions}",
            "Use a model with fewer.",
        )


def set_vector_type(conn: Connection, table: str, dimensions: int) -> None:
    """Give the column `embedding` of a table without rows vectors of this length."""
    conn.execute(
        sql.SQL("ALTER TABLE {} ALTER COLUMN embedding TYPE vector({})").format(
            sql.Identifier(table), sql.Literal(dimensions)
        )
    )


def create_vector_index(conn: Connection, table: str, name: str, dimensions: int) -> None:
    """Index a table's vectors by cosine, equal ones of repeated text once: many of them would cut the graph
    apart.

    Over 2,000 dimensions HNSW indexes them as halfvec, a cast in the index: the stored vectors stay whole.
    """
    column = (
        sql.SQL("((embedding::halfvec({})) halfvec_cosine_ops)").format(sql.Literal(dimensions))
        if dimensions > HNSW_LIMIT
        else sql.SQL("(embedding vector_cosine_ops)")
    )
    conn.execute(
        sql.SQL("CREATE INDEX {} ON {} USING hnsw {} WHERE NOT repeated").format(
            sql.Identifier(name), sql.Identifier(table), column
        )
    )


# Vectors of chunks that this run removed, so that text moved between notes keeps its vector whatever the
# order in which the two notes are stored.
DEPARTED = """
CREATE TEMPORARY TABLE IF NOT EXISTS departed (content_hash BYTEA PRIMARY KEY, embedding vector NOT NULL)
"""
KEEP_DEPARTED = """
INSERT INTO departed
SELECT DISTINCT ON (content_hash) content_hash, embedding FROM documents
WHERE file_path = ANY(%(paths)s) AND content_hash IS NOT NULL AND content_hash <> ALL(%(staying)s::bytea[])
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


def forget_departed(conn: Connection) -> None:
    """Forget the vectors of removed chunks: the index now holds another model's."""
    conn.execute("TRUNCATE departed")


def find_vectors(conn: Connection, hashes: Iterable[bytes]) -> dict[bytes, np.ndarray]:
    """Vectors already in the index, by the hash of the text they belong to."""
    rows = conn.execute(FIND_VECTORS, {"hashes": list(hashes)}, binary=True).fetchall()
    return {bytes(content_hash): as_array(embedding) for content_hash, embedding in rows}


def as_array(embedding: Any) -> np.ndarray:
    """A vector from the database as numpy, whatever the adapter made of it."""
    return np.asarray(embedding.to_numpy() if hasattr(embedding, "to_numpy") else embedding, dtype=np.float32)


# --- notes -------------------------------------------------------------------------------------------


LOAD_NOTES = """
SELECT n.file_path, n.file_hash, n.size, n.mtime_ns, n.ctime_ns, n.indexed_at, n.parser_version,
       d.file_path IS NOT NULL
FROM notes n
LEFT JOIN (SELECT DISTINCT file_path FROM documents WHERE content_hash IS NULL) AS d USING (file_path)
"""


def load_notes(conn: Connection) -> dict[str, StoredNote]:
    """All notes of the index by path, as the diff needs them. One of which chunks were lost has no
    `parser_version`: it is read again like one that an older parser read.
    """
    notes = {row[0]: StoredNote(*row) for row in conn.execute(LOAD_NOTES).fetchall()}
    for path in find_torn_notes(conn):
        notes[path] = replace(notes[path], parser_version=None)
    return notes


def load_aliases(conn: Connection) -> dict[str, list[str]]:
    """Aliases by note path, for notes that have any."""
    return dict(conn.execute("SELECT file_path, aliases FROM notes WHERE aliases <> '{}'").fetchall())


UPSERT_NOTE = """
INSERT INTO notes (file_path, file_hash, title, aliases, tags, front_matter, content, warnings,
                   size, mtime_ns, ctime_ns, modified_at, parser_version, indexed_at, fts_config,
                   keyword_version, note_date)
VALUES (%(file_path)s, %(file_hash)s, %(title)s, %(aliases)s, %(tags)s, %(front_matter)s, %(content)s,
        %(warnings)s, %(size)s, %(mtime_ns)s, %(ctime_ns)s, %(modified_at)s, %(parser_version)s, %(read_at)s,
        %(fts_config)s, %(keyword_version)s, %(note_date)s)
ON CONFLICT (file_path) DO UPDATE SET
    file_hash = excluded.file_hash, title = excluded.title, aliases = excluded.aliases,
    tags = excluded.tags, front_matter = excluded.front_matter, content = excluded.content,
    warnings = excluded.warnings, size = excluded.size, mtime_ns = excluded.mtime_ns,
    ctime_ns = excluded.ctime_ns, modified_at = excluded.modified_at,
    parser_version = excluded.parser_version, indexed_at = excluded.indexed_at,
    fts_config = excluded.fts_config, keyword_version = excluded.keyword_version,
    note_date = excluded.note_date
RETURNING id
"""
INSERT_CHUNK = f"""
INSERT INTO documents (file_path, file_hash, chunk_index, heading, heading_path, content, embedding,
                       content_tsv, search_tsv, path_terms, metadata, start_line, end_line, overlap,
                       content_hash, repeated)
VALUES (%(file_path)s, %(file_hash)s, %(chunk_index)s, %(heading)s, %(heading_path)s, %(content)s,
        %(embedding)s, {CONTENT_TSV}, {SEARCH_TSV}, %(path_terms)s,
        %(metadata)s, %(start_line)s, %(end_line)s, %(overlap)s, %(content_hash)s,
        EXISTS (SELECT FROM documents WHERE content_hash = %(content_hash)s AND NOT repeated))
"""  # noqa: S608 - constants, no value


def store_note(
    conn: Connection,
    read: ReadNote,
    chunks: Sequence[Chunk],
    vectors: Sequence[np.ndarray],
    old_path: str | None = None,
) -> None:
    """Replace a note with all that belongs to it, in one transaction; with `old_path`, a renamed one.

    `vectors` has one vector a chunk. A reader sees the old note or the new one, never a mixture.
    """
    path = read.note.file_path
    rows = [_chunk_row(read, chunk, vector) for chunk, vector in zip(chunks, vectors, strict=True)]
    with conn.transaction():
        staying = [row["content_hash"] for row in rows]
        _delete_rows(conn, [path], staying)
        if old_path is not None:
            delete_notes(conn, [old_path], staying)
        note_id = upsert_note(conn, read)
        insert_links(conn, read.note, read.resolutions, read.relations)
        with conn.cursor() as cur:
            cur.executemany(INSERT_CHUNK, rows)
        write_postings(conn, note_id, _words_of(read, chunks))


def _words_of(read: ReadNote, chunks: Sequence[Chunk]) -> NoteWords:
    note = read.note
    return NoteWords(
        file_path=note.file_path,
        title=note.title,
        aliases=note.aliases,
        called=note.front_matter.get("title"),
        config=read.fts_config,
        chunks=tuple(
            ChunkWords(c.chunk_index, c.heading, format_heading_path(c.heading_path), c.content[c.overlap :])
            for c in chunks
        ),
    )


def _chunk_row(read: ReadNote, chunk: Chunk, vector: np.ndarray) -> dict[str, Any]:
    note = read.note
    heading_path = format_heading_path(chunk.heading_path)
    return keyword_values(read.fts_config, note.file_path, heading_path, chunk.content) | {
        "file_path": note.file_path,
        "file_hash": read.file_hash,
        "chunk_index": chunk.chunk_index,
        "heading": chunk.heading,
        "heading_path": heading_path,
        "embedding": vector,
        "metadata": Jsonb({"title": note.title, "tags": list(note.tags)}),
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "overlap": chunk.overlap,
        "content_hash": hash_text(embedding_text(chunk)),
    }


def upsert_note(conn: Connection, read: ReadNote) -> int:
    """Write the note's own row; return its id."""
    note, file = read.note, read.file
    row = conn.execute(
        UPSERT_NOTE,
        {
            "file_path": note.file_path,
            "file_hash": read.file_hash,
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
            "parser_version": read.parser_version,
            "read_at": read.read_at,
            "fts_config": read.fts_config,
            "keyword_version": KEYWORD_VERSION,
            "note_date": find_note_date(note.title, note.front_matter),
        },
    ).fetchone()
    assert row is not None
    return int(row[0])


def delete_notes(conn: Connection, paths: Sequence[str], staying: Sequence[bytes] = ()) -> None:
    """Remove notes with all that belongs to them, each whole, in one transaction. `staying` are the hashes of
    chunks that this transaction puts in again.
    """
    with conn.transaction():
        _delete_rows(conn, paths, staying)
        ids = conn.execute("SELECT id FROM notes WHERE file_path = ANY(%s)", (list(paths),)).fetchall()
        delete_postings(conn, [row[0] for row in ids])
        conn.execute("DELETE FROM notes WHERE file_path = ANY(%s)", (list(paths),))


DELETE_CHUNKS = """
WITH gone AS (DELETE FROM documents WHERE file_path = ANY(%(paths)s) RETURNING content_hash, repeated)
SELECT DISTINCT content_hash FROM gone
WHERE NOT repeated AND content_hash <> ALL(%(staying)s::bytea[])
"""
# Of rows with the same text the vector index has one; where that is deleted, another takes its place.
STAND_IN = """
UPDATE documents SET repeated = FALSE
WHERE id IN (SELECT min(id) FROM documents WHERE content_hash = ANY(%s) GROUP BY content_hash
    HAVING bool_and(repeated))
"""


def _delete_rows(conn: Connection, paths: Sequence[str], staying: Sequence[bytes]) -> None:
    """Remove chunks and links; vectors are kept for this run but for those `staying` in the same note."""
    values = {"paths": list(paths), "staying": list(staying)}
    conn.execute(KEEP_DEPARTED, values)
    indexed = [row[0] for row in conn.execute(DELETE_CHUNKS, values).fetchall()]
    if indexed:
        conn.execute(STAND_IN, (indexed,))
    conn.execute("DELETE FROM note_links WHERE source_path = ANY(%s)", (list(paths),))


def touch_notes(conn: Connection, files: Iterable[VaultFile], read_at: datetime) -> None:
    """Record new times of notes whose bytes are the same, so that the next run need not read them."""
    rows = [(f.size, f.mtime_ns, f.ctime_ns, _as_datetime(f.mtime_ns), read_at, f.path) for f in files]
    with conn.transaction(), conn.cursor() as cur:
        cur.executemany(
            "UPDATE notes SET size = %s, mtime_ns = %s, ctime_ns = %s, modified_at = %s, indexed_at = %s"
            " WHERE file_path = %s",
            rows,
        )


def _as_datetime(nanoseconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(nanoseconds / 1e9, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(0, UTC)  # a file system's nonsense must not lose the note


def _dump_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
