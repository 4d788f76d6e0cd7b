"""Chunks of a heading without text of its own: what stands below it is shown in their place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from obsidian_rag.postgres import Connection
from obsidian_rag.search.neighbors import ChunkKey, ShownChunk, load_chunks

DEEPEST = 3  # chunks below a heading in which its text is looked for: headings may follow one another

_BARE = re.compile(r"\s*(?:#{1,6}[ \t][^\n]*|[^\n]+\n[ \t]*(?:=+|-+)[ \t]*)\s*")


def is_bare(content: str, heading_path: str) -> bool:
    """Whether a chunk is nothing but its heading."""
    return bool(heading_path) and _BARE.fullmatch(content) is not None


def find_below(
    conn: Connection, best: Sequence[ChunkKey], chunks: Mapping[ChunkKey, ShownChunk]
) -> dict[ChunkKey, ChunkKey]:
    """For chunks that are bare headings the first one below with text. A heading with nothing below it has
    none.
    """
    bare = [key for key in best if key in chunks and is_bare(chunks[key].content, chunks[key].heading_path)]
    later = load_chunks(conn, [(path, at + step) for path, at in bare for step in range(1, DEEPEST + 1)])
    below: dict[ChunkKey, ChunkKey] = {}
    for path, at in bare:
        start = f"{chunks[path, at].heading_path} > "
        for step in range(1, DEEPEST + 1):
            chunk = later.get((path, at + step))
            if chunk is None or not chunk.heading_path.startswith(start):
                break
            if not is_bare(chunk.content, chunk.heading_path):
                below[path, at] = (path, at + step)
                break
    return below
