"""The chunks that an answer shows: of each note its best, others that answer as well, and those beside them,
so that an agent reads on without a second call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from obsidian_rag.models import Hit
from obsidian_rag.postgres import Connection
from obsidian_rag.search.evidence import HIGH_DEVIATIONS, cosine_at
from obsidian_rag.search.retrieval import Retrieved

TOP_HITS = 5
MOST_PASSAGES = 2  # further chunks of one note: more of them are better read as the note

ChunkKey = tuple[str, int]

# A note found by its name may hold no text; it is an answer all the same.
LOAD = """
SELECT w.file_path, w.chunk_index, coalesce(n.title, w.file_path),
       to_char(coalesce(n.note_date, n.modified_at::date), 'YYYY-MM-DD'),
       coalesce(d.heading_path, ''), d.start_line, d.end_line, coalesce(d.content, ''),
       d.file_path IS NOT NULL
FROM unnest(%(paths)s::text[], %(indexes)s::int[]) AS w (file_path, chunk_index)
LEFT JOIN notes n ON n.file_path = w.file_path
LEFT JOIN documents d ON d.file_path = w.file_path AND d.chunk_index = w.chunk_index
WHERE n.file_path IS NOT NULL OR d.file_path IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class ShownChunk:
    """A chunk as it is shown, with its note's title and day (2025-09-30). `is_there` is False for the chunk
    of a note that has none of this number; its text is empty.
    """

    file_path: str
    chunk_index: int
    title: str
    date: str | None
    heading_path: str
    start_line: int | None
    end_line: int | None
    content: str
    is_there: bool


def load_chunks(conn: Connection, keys: Sequence[ChunkKey]) -> dict[ChunkKey, ShownChunk]:
    """Chunks by path and index; those of notes that are not there are left out."""
    if not keys:
        return {}
    wanted = {"paths": [path for path, _ in keys], "indexes": [index for _, index in keys]}
    rows = conn.execute(LOAD, wanted).fetchall()
    return {(row[0], row[1]): ShownChunk(*row) for row in rows}


@dataclass(frozen=True, slots=True)
class Beside:
    """A chunk shown behind that of a hit: one beside it (`neighbor`), or another that answers as well."""

    key: ChunkKey
    neighbor: bool


def choose_beside(best: Sequence[ChunkKey], retrieved: Retrieved) -> dict[str, list[Beside]]:
    """By note, what is shown behind its best chunk, for the first notes of an answer: further strong chunks,
    and behind each of all these the chunks before and after it. None twice.
    """
    least = cosine_at(retrieved, HIGH_DEVIATIONS)
    beside: dict[str, list[Beside]] = {}
    for path, index in best[:TOP_HITS]:
        further = [at for at in retrieved.further_chunks(path, least) if at != index]
        strong = [index, *further[:MOST_PASSAGES]]
        shown = set(strong)
        found = beside[path] = []
        for at in strong:
            if at != index:
                found.append(Beside((path, at), neighbor=False))
            near = [i for i in (at - 1, at + 1) if i >= 0 and i not in shown]
            shown.update(near)
            found += [Beside((path, i), neighbor=True) for i in near]
    return beside


def place_beside(
    hits: Sequence[Hit], beside: Mapping[str, Sequence[Beside]], chunks: Mapping[ChunkKey, ShownChunk]
) -> Iterator[Hit]:
    """The hits, each with what is shown behind it: neighbours scored 0.0, further chunks as their note."""
    for hit in hits:
        yield hit
        for other in beside.get(hit.file_path, ()):
            chunk = chunks.get(other.key)
            if chunk is None or not chunk.is_there:
                continue
            yield replace(
                hit,
                chunk_index=chunk.chunk_index,
                heading_path=chunk.heading_path,
                start_line=chunk.start_line,
                end_line=chunk.end_line,
                content=chunk.content,
                ranks={},
                linked_by=(),  # a way leads to a note, and is told once
                score=0.0 if other.neighbor else hit.score,
                neighbor=other.neighbor,
                evidence="neighbor" if other.neighbor else "same_note",
            )
