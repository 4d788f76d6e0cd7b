"""The chunks shown with a hit: others of its note that answer as well, and those beside it, so that an agent
reads on without a second call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from obsidian_rag.models import Hit
from obsidian_rag.postgres import Connection
from obsidian_rag.search.evidence import HIGH_DEVIATIONS, cosine_at
from obsidian_rag.search.retrieval import Retrieved

TOP_HITS = 5
MOST_PASSAGES = 2  # further chunks of one note: more of them are better read as the note

ChunkKey = tuple[str, int]

LOAD = """
SELECT d.file_path, d.chunk_index, d.heading_path, d.start_line, d.end_line, d.content
FROM documents d
JOIN unnest(%(paths)s::text[], %(indexes)s::int[]) AS w (file_path, chunk_index)
    USING (file_path, chunk_index)
"""


def add_passages(conn: Connection, hits: Sequence[Hit], retrieved: Retrieved) -> list[Hit]:
    """Put further strong chunks of each of the first notes behind its hit, with its score."""
    least = cosine_at(retrieved, HIGH_DEVIATIONS)
    wanted = {
        hit.file_path: retrieved.further_chunks(hit.file_path, least)[:MOST_PASSAGES]
        for hit in hits[:TOP_HITS]
    }
    rows = load_chunks(conn, [(path, index) for path, indexes in wanted.items() for index in indexes])
    result = []
    for hit in hits:
        result.append(hit)
        for index in wanted.get(hit.file_path, ()):
            if (hit.file_path, index) in rows:
                further = _take_place(hit, rows[hit.file_path, index])
                result.append(replace(further, evidence="same_note"))
    return result


def add_neighbors(conn: Connection, hits: Sequence[Hit]) -> list[Hit]:
    """Put the chunks before and after the hits of the first notes behind them, scored 0.0, none twice."""
    shown = {(hit.file_path, hit.chunk_index) for hit in hits}
    first = set(list(dict.fromkeys(hit.file_path for hit in hits))[:TOP_HITS])
    wanted: dict[ChunkKey, ChunkKey] = {}
    for hit in hits:
        for index in (hit.chunk_index - 1, hit.chunk_index + 1):
            if hit.file_path in first and index >= 0 and (hit.file_path, index) not in shown:
                wanted.setdefault((hit.file_path, index), (hit.file_path, hit.chunk_index))
    rows = load_chunks(conn, list(wanted))
    result = []
    for hit in hits:
        result.append(hit)
        for key, owner in wanted.items():
            if owner == (hit.file_path, hit.chunk_index) and key in rows:
                beside = _take_place(hit, rows[key])
                result.append(replace(beside, score=0.0, neighbor=True, evidence="neighbor"))
    return result


def load_chunks(conn: Connection, keys: Sequence[ChunkKey]) -> Mapping[ChunkKey, Any]:
    """Rows of LOAD by path and chunk index; a chunk that is not there any more is left out."""
    if not keys:
        return {}
    wanted = {"paths": [path for path, _ in keys], "indexes": [index for _, index in keys]}
    return {(row[0], row[1]): row for row in conn.execute(LOAD, wanted).fetchall()}


def _take_place(hit: Hit, row: Any) -> Hit:
    _, index, heading_path, start_line, end_line, content = row
    return replace(
        hit,
        chunk_index=index,
        heading_path=heading_path,
        start_line=start_line,
        end_line=end_line,
        content=content,
        ranks={},
        linked_by=(),  # a way leads to a note, and is told once
    )
