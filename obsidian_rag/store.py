"""Every write to the index, and the reads the indexer needs to decide what to write."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from psycopg.types.json import Jsonb

from obsidian_rag.frequent_lexemes import add_fresh, forget_champions
from obsidian_rag.keywords import SEARCH_TSV, add_configs
from obsidian_rag.link_rows import NoteLinks, insert_links, list_link_signs, load_link_signs
from obsidian_rag.models import Chunk, Note, VaultFile
from obsidian_rag.note_dates import find_note_date
from obsidian_rag.postgres import Connection
from obsidian_rag.postings import KEYWORD_VERSION, delete_postings, gather_terms, write_postings
from obsidian_rag.terms import NoteTerms
from obsidian_rag.torn_notes import find_torn_notes


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
    """A note with its links as it was read from its file at `read_at`."""

    links: NoteLinks
    file: VaultFile
    file_hash: str
    read_at: datetime
    parser_version: int
    fts_config: str

    @property
    def note(self) -> Note:
        return self.links.note


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


def has_chunks(conn: Connection) -> bool:
    """Whether the index holds any chunk."""
    row = conn.execute("SELECT EXISTS (SELECT FROM documents)").fetchone()
    return bool(row and row[0])


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


FIND_IDS = "SELECT file_path, id FROM notes WHERE file_path = ANY(%s)"
# A note of the first schema has no row of its own, and may have nothing but links.
FIND_PRESENT = """
SELECT file_path FROM notes WHERE file_path = ANY(%(paths)s)
UNION SELECT file_path FROM documents WHERE file_path = ANY(%(paths)s)
UNION SELECT source_path FROM note_links WHERE source_path = ANY(%(paths)s)
"""
NEW_IDS = "SELECT nextval(pg_get_serial_sequence('notes', 'id')) FROM generate_series(1, %s)"
COPY_NOTES = """
COPY notes (id, file_path, file_hash, title, aliases, tags, front_matter, content, warnings, size, mtime_ns,
            ctime_ns, modified_at, parser_version, indexed_at, fts_config, keyword_version, note_date, chunks)
FROM STDIN (FORMAT BINARY)
"""
NOTE_TYPES = (
    "int4", "text", "text", "text", "text[]", "text[]", "jsonb", "text", "text[]", "int8", "int8",
    "int8", "timestamptz", "int4", "timestamptz", "text", "int4", "date", "int4",
)  # fmt: skip
# Chunks on their way into `documents`, beside their words in arriving_terms.
ARRIVING_CHUNKS = """
DROP TABLE IF EXISTS pg_temp.arriving_chunks;
CREATE TEMPORARY TABLE arriving_chunks (
    note_id INTEGER, chunk_index INTEGER, file_path TEXT, file_hash TEXT, heading TEXT, heading_path TEXT,
    content TEXT, embedding vector, metadata JSONB, start_line INTEGER, end_line INTEGER, overlap INTEGER,
    content_hash BYTEA)
"""
COPY_CHUNKS = "COPY arriving_chunks FROM STDIN (FORMAT BINARY)"
CHUNK_TYPES = (
    "int4", "int4", "text", "text", "text", "text", "text", "vector", "jsonb", "int4", "int4", "int4",
    "bytea",
)  # fmt: skip
INSERT_CHUNKS = f"""
INSERT INTO documents (file_path, file_hash, chunk_index, heading, heading_path, content, embedding,
                       content_tsv, search_tsv, path_terms, metadata, start_line, end_line, overlap,
                       content_hash, repeated)
SELECT file_path, file_hash, chunk_index, c.heading, heading_path, content, embedding,
       to_tsvector(t.config, content), {SEARCH_TSV}, t.path, metadata, start_line, end_line, overlap,
       content_hash,
       row_number() OVER (PARTITION BY content_hash ORDER BY note_id, chunk_index) > 1
           OR EXISTS (SELECT FROM documents d WHERE d.content_hash = c.content_hash AND NOT d.repeated)
FROM arriving_chunks c JOIN arriving_terms t USING (note_id, chunk_index)
ORDER BY note_id, chunk_index
"""  # noqa: S608 - constants, no value


@dataclass(frozen=True, slots=True)
class Arrival:
    """A note to be stored, with its chunks, their hashes and terms; `old_path` is where a renamed one was."""

    read: ReadNote
    chunks: tuple[Chunk, ...]
    hashes: tuple[bytes, ...]
    terms: NoteTerms
    old_path: str | None = None


def store_notes(conn: Connection, arrivals: Sequence[Arrival], vectors: Mapping[bytes, np.ndarray]) -> bool:
    """Replace notes with all that belongs to them, in one transaction; returns whether what they link to, and
    by which words, is different now. `vectors` has one for each hash.

    A reader sees the old notes or the new ones, never a mixture.
    """
    reads = [arrival.read for arrival in arrivals]
    paths = [read.note.file_path for read in reads]
    paths += [arrival.old_path for arrival in arrivals if arrival.old_path is not None]
    with conn.transaction():
        ids = find_ids(conn, reads)
        present = [row[0] for row in conn.execute(FIND_PRESENT, {"paths": paths}).fetchall()]
        links_before = load_link_signs(conn, present)
        if present:
            delete_notes(conn, present, [key for arrival in arrivals for key in arrival.hashes])
        insert_note_rows(conn, reads, ids, [len(arrival.chunks) for arrival in arrivals])
        insert_links(conn, [read.links for read in reads])
        terms = [(note_id, arrival.terms) for note_id, arrival in zip(ids, arrivals, strict=True)]
        gather_terms(conn, terms)
        _insert_chunks(conn, list(zip(ids, arrivals, strict=True)), vectors)
        write_postings(conn, terms)
        add_fresh(conn, ids)
        add_configs(conn, [read.fts_config for read in reads])
    return links_before != Counter(sign for read in reads for sign in list_link_signs(read.links))


def _insert_chunks(
    conn: Connection, arrivals: Sequence[tuple[int, Arrival]], vectors: Mapping[bytes, np.ndarray]
) -> None:
    conn.execute(ARRIVING_CHUNKS)
    with conn.cursor() as cur, cur.copy(COPY_CHUNKS) as copy:
        copy.set_types(CHUNK_TYPES)
        for note_id, arrival in arrivals:
            for row in _chunk_rows(note_id, arrival, vectors):
                copy.write_row(row)
    conn.execute(INSERT_CHUNKS)


def _chunk_rows(
    note_id: int, arrival: Arrival, vectors: Mapping[bytes, np.ndarray]
) -> Iterator[tuple[object, ...]]:
    note = arrival.read.note
    metadata = Jsonb({"title": note.title, "tags": list(note.tags)})
    for c, key in zip(arrival.chunks, arrival.hashes, strict=True):
        yield (
            note_id, c.chunk_index, note.file_path, arrival.read.file_hash, c.heading,
            format_heading_path(c.heading_path), c.content, vectors[key], metadata, c.start_line, c.end_line,
            c.overlap, key,
        )  # fmt: skip


def find_ids(conn: Connection, reads: Sequence[ReadNote]) -> list[int]:
    """The ids of notes: those that they have, or new ones."""
    paths = [read.note.file_path for read in reads]
    known = dict(conn.execute(FIND_IDS, (paths,)).fetchall())
    new = iter(conn.execute(NEW_IDS, (len(paths) - len(known),)).fetchall())
    return [known[path] if path in known else next(new)[0] for path in paths]


def insert_note_rows(
    conn: Connection, reads: Sequence[ReadNote], ids: Sequence[int], chunks: Sequence[int]
) -> None:
    """Write the own rows of notes that have none; `chunks` is how many chunks each has."""
    with conn.cursor() as cur, cur.copy(COPY_NOTES) as copy:
        copy.set_types(NOTE_TYPES)
        for note_id, read, count in zip(ids, reads, chunks, strict=True):
            copy.write_row(_note_row(note_id, read, count))


def _note_row(note_id: int, read: ReadNote, chunks: int) -> tuple[object, ...]:
    note, file = read.note, read.file
    return (
        note_id, note.file_path, read.file_hash, note.title, list(note.aliases), list(note.tags),
        Jsonb(note.front_matter, dumps=_dump_json), note.text, list(note.warnings), file.size, file.mtime_ns,
        file.ctime_ns, _as_datetime(file.mtime_ns), read.parser_version, read.read_at, read.fts_config,
        KEYWORD_VERSION, find_note_date(note.title, note.front_matter), chunks,
    )  # fmt: skip


def delete_notes(conn: Connection, paths: Sequence[str], staying: Sequence[bytes] = ()) -> list[int]:
    """Remove notes with all that belongs to them, each whole, in one transaction. `staying` are the hashes of
    chunks that this transaction puts in again. Returns the ids that the notes had.
    """
    with conn.transaction():
        _delete_rows(conn, paths, staying)
        rows = conn.execute("SELECT id FROM notes WHERE file_path = ANY(%s)", (list(paths),)).fetchall()
        ids = [row[0] for row in rows]
        delete_postings(conn, ids)
        conn.execute("DELETE FROM notes WHERE file_path = ANY(%s)", (list(paths),))
    return ids


def forget_notes(conn: Connection, paths: Sequence[str]) -> None:
    """Remove notes for good, in one transaction."""
    with conn.transaction():
        forget_champions(conn, delete_notes(conn, paths))


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
