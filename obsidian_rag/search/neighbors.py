"""The chunks beside a hit, so that an agent reads on without a second call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from obsidian_rag.models import Hit
from obsidian_rag.postgres import Connection

TOP_HITS = 5

BESIDE = """
SELECT d.file_path, d.chunk_index, d.heading_path, d.start_line, d.end_line, d.content
FROM documents d
JOIN unnest(%(paths)s::text[], %(indexes)s::int[]) AS w (file_path, chunk_index)
    USING (file_path, chunk_index)
"""


def add_neighbors(conn: Connection, hits: Sequence[Hit]) -> list[Hit]:
    """Put the chunks before and after each of the first hits behind it, scored 0.0, none of them twice."""
    shown = {(hit.file_path, hit.chunk_index) for hit in hits}
    wanted: dict[tuple[str, int], Hit] = {}
    for hit in hits[:TOP_HITS]:
        for index in (hit.chunk_index - 1, hit.chunk_index + 1):
            if index >= 0 and (hit.file_path, index) not in shown:
                wanted.setdefault((hit.file_path, index), hit)
    rows = conn.execute(
        BESIDE, {"paths": [path for path, _ in wanted], "indexes": [index for _, index in wanted]}
    ).fetchall()
    found = {(row[0], row[1]): row for row in rows}
    result = []
    for hit in hits:
        result.append(hit)
        for key, owner in wanted.items():
            if owner is hit and key in found:
                _, index, heading_path, start_line, end_line, content = found[key]
                result.append(
                    replace(
                        hit,
                        chunk_index=index,
                        heading_path=heading_path,
                        start_line=start_line,
                        end_line=end_line,
                        content=content,
                        score=0.0,
                        neighbor=True,
                        ranks={},
                        evidence="neighbor",
                    )
                )
    return result
