"""The link graph: what a note links to, what links to it, up to three hops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from obsidian_rag.catalog import find_note
from obsidian_rag.errors import QueryError
from obsidian_rag.front_matter import find_body
from obsidian_rag.postgres import Connection

MOST_HOPS = 3
PREVIEW_LENGTH = 500  # characters
BEGINNING = 20_000  # characters of a note among which its properties end, but for rare ones

Direction = Literal["out", "in"]

# Outgoing links first, then by path, so that the same graph always reads the same.
STEP = """
SELECT DISTINCT ON (neighbor) neighbor, direction, source, kind, target_name, heading, block, property
FROM (
    SELECT target_path AS neighbor, 'out' AS direction, source_path AS source, kind, target_name, heading,
           block, property, line
    FROM note_links WHERE source_path = ANY(%(frontier)s) AND target_type = 'note'
    UNION ALL
    SELECT source_path, 'in', target_path, kind, target_name, heading, block, property, line
    FROM note_links WHERE target_path = ANY(%(frontier)s) AND target_type = 'note') AS step
WHERE neighbor <> ALL(%(seen)s)
ORDER BY neighbor, direction DESC, source, line
"""
BEGINNINGS = "SELECT file_path, left(content, %s) FROM notes WHERE file_path = ANY(%s)"


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """A note reached at `hop` from `from_path`; `via` is the link as it is written."""

    file_path: str
    hop: int
    direction: Direction
    from_path: str
    via: str
    preview: str | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """The neighbourhood of a note: each note once, at its shortest distance, nearest first.

    `hops` counts the notes at each distance, also where a shortened answer leaves some out of `edges`.
    """

    file_path: str
    depth: int
    edges: tuple[GraphEdge, ...]
    hops: tuple[int, ...]
    notices: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """How many notes there are at all distances."""
        return sum(self.hops)

    def to_json(self) -> dict[str, Any]:
        """The object that `graph --json` prints and the tool returns."""
        return asdict(self) | {"total": self.total}


def walk_graph(conn: Connection, file_path: str, depth: int = 1, include_content: bool = False) -> Graph:
    """The notes within `depth` links of a note, in both directions.

    Raises QueryError for a depth out of range, NoteNotFound for an unknown path.
    """
    if not 1 <= depth <= MOST_HOPS:
        raise QueryError(f"depth is {depth}", f"Use a number from 1 to {MOST_HOPS}.")
    start = find_note(conn, file_path)
    seen, frontier, edges, hops = [start], [start], [], []
    for hop in range(1, depth + 1):
        rows = conn.execute(STEP, {"frontier": frontier, "seen": seen}).fetchall()
        if not rows:
            break
        edges += [
            GraphEdge(row[0], hop, row[1], row[2], format_link(*row[3:]))
            for row in sorted(rows, key=lambda row: (row[1] != "out", row[0]))
        ]
        hops.append(len(rows))
        frontier = [row[0] for row in rows]
        seen += frontier
    notices = () if edges else ("No note links here, and this note links to none that exists.",)
    if include_content:
        edges = _add_previews(conn, edges)
    return Graph(start, depth, tuple(edges), tuple(hops), notices)


def format_link(
    kind: str, target: str, heading: str | None, block: str | None, property_key: str | None
) -> str:
    """A link as it is written, without display text."""
    subpath = f"#{heading}" if heading else f"#^{block}" if block else ""
    if kind.startswith("markdown"):
        return f"{'!' if kind == 'markdown_embed' else ''}[…]({target}{subpath})"
    written = f"{'!' if kind == 'embed' else ''}[[{target}{subpath}]]"
    return f"{property_key}: {written}" if property_key else written


def _add_previews(conn: Connection, edges: Sequence[GraphEdge]) -> list[GraphEdge]:
    paths = [edge.file_path for edge in edges]
    beginnings = dict(conn.execute(BEGINNINGS, (BEGINNING, paths)).fetchall())
    return [replace(e, preview=make_preview(beginnings.get(e.file_path, ""))) for e in edges]


def make_preview(text: str) -> str:
    """The first characters of a note's text, without its properties: they would fill the preview."""
    return text[find_body(text) :].lstrip()[:PREVIEW_LENGTH]
