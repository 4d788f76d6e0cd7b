"""The link graph: what a note links to, what links to it, up to three hops, by direction and relation."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from obsidian_rag.catalog import find_place
from obsidian_rag.counts import choose
from obsidian_rag.errors import QueryError
from obsidian_rag.front_matter import find_body
from obsidian_rag.postgres import Connection

MOST_HOPS = 3
MOST_EDGES = 5_000  # notes that an answer names
NARROW = "ask for a relation, a direction or fewer hops."
PREVIEW_LENGTH = 500  # characters
BEGINNING = 20_000  # characters of a note among which its properties end, but for rare ones
SENTENCE_LENGTH = 300  # characters; a table's row or a list written as one line can be far longer
MOST_RELATIONS_NAMED = 30
SURE_ENOUGH = 0.5  # for a link to be shown as saying more than one thing; asked for, it need not be

Direction = Literal["out", "in"]
Directions = Literal["both", "out", "in"]

# Each link with each relation that the sentences around it give. First what the link itself is said to be,
# then what else is said at its other places.
SAID = """
SELECT id, source_path, target_path, kind, target_name, heading, block, property, line, relation, sentence,
       2.0 AS sure
FROM note_links WHERE target_type = 'note'
UNION ALL
SELECT l.id, l.source_path, target_path, kind, target_name, heading, block, property, m.line, said.relation,
       nullif(m.sentence, ''), said.sure::float
FROM note_links l JOIN link_mentions m ON m.link_id = l.id
    CROSS JOIN LATERAL jsonb_each_text(m.relations) AS said (relation, sure)
WHERE target_type = 'note' AND m.relations <> '{}' AND said.relation IS DISTINCT FROM l.relation
"""
# Joined rather than compared with an array: to plan that takes longer than to find the links.
_FRONTIER = "JOIN unnest(%(frontier)s::text[]) AS f (path)"
# The notes one link further: those that are linked to first, then by path, so that the same graph always
# reads the same.
# OFFSET has the links looked up note by note: the planner would read all links for a few hundred notes.
NEIGHBORS = """
SELECT neighbor FROM (
    SELECT l.neighbor, TRUE AS is_out
    FROM unnest(%(frontier)s::text[]) AS f (path) CROSS JOIN LATERAL (
        SELECT target_path AS neighbor FROM note_links
        WHERE source_path = f.path AND target_type = 'note' OFFSET 0) AS l
    WHERE %(direction)s::text <> 'in'
    UNION ALL
    SELECT l.neighbor, FALSE
    FROM unnest(%(frontier)s::text[]) AS f (path) CROSS JOIN LATERAL (
        SELECT source_path AS neighbor FROM note_links
        WHERE target_path = f.path AND target_type = 'note' OFFSET 0) AS l
    WHERE %(direction)s::text <> 'out') AS step
GROUP BY neighbor ORDER BY bool_or(is_out) DESC, neighbor
"""
NEIGHBORS_BY_RELATION = f"""
SELECT neighbor FROM (
    SELECT target_path AS neighbor, TRUE AS is_out FROM ({SAID}) AS s {_FRONTIER} ON source_path = f.path
    WHERE %(direction)s::text <> 'in' AND relation = ANY(%(relations)s)
    UNION ALL
    SELECT source_path, FALSE FROM ({SAID}) AS s {_FRONTIER} ON target_path = f.path
    WHERE %(direction)s::text <> 'out' AND relation = ANY(%(relations)s)) AS step
GROUP BY neighbor ORDER BY bool_or(is_out) DESC, neighbor
"""  # noqa: S608 - constants of this module, no value
# Of several links to the same note the one that says most. OFFSET has what is said looked up link by link:
# the planner would read what all links say.
STEP = f"""
WITH pair AS MATERIALIZED (
    SELECT l.id, target_path AS neighbor, 'out' AS direction, source_path AS source
    FROM note_links l {_FRONTIER} ON source_path = f.path
    JOIN unnest(%(named)s::text[]) AS named (neighbor) ON target_path = named.neighbor
    WHERE %(direction)s::text <> 'in' AND target_type = 'note'
    UNION ALL
    SELECT l.id, source_path, 'in', target_path
    FROM note_links l {_FRONTIER} ON target_path = f.path
    JOIN unnest(%(named)s::text[]) AS named (neighbor) ON source_path = named.neighbor
    WHERE %(direction)s::text <> 'out' AND target_type = 'note')
SELECT DISTINCT ON (neighbor) neighbor, direction, source, kind, target_name, heading, block, property,
       relation, sentence
FROM pair CROSS JOIN LATERAL (SELECT * FROM ({SAID}) AS s WHERE s.id = pair.id OFFSET 0) AS said
WHERE cardinality(%(relations)s::text[]) = 0 OR relation = ANY(%(relations)s)
ORDER BY neighbor, relation IS NULL, sure DESC, direction DESC, source, line
"""  # noqa: S608 - a constant of this module, no value
LINKS_BETWEEN = f"""
SELECT DISTINCT ON (source_path, target_path, relation) source_path, target_path, kind, target_name, heading,
       block, property, relation, sentence, sure
FROM ({SAID}) AS s
WHERE source_path = ANY(%(paths)s) AND target_path = ANY(%(paths)s) AND source_path <> target_path
    AND (cardinality(%(relations)s::text[]) = 0 OR relation = ANY(%(relations)s))
ORDER BY source_path, target_path, relation, sure DESC, line
"""  # noqa: S608 - a constant of this module, no value
RELATIONS = f"""
SELECT relation, count(DISTINCT id) AS links FROM ({SAID}) AS s
WHERE relation IS NOT NULL GROUP BY relation ORDER BY links DESC, relation
"""  # noqa: S608 - a constant of this module, no value
RELATIONS_HERE = """
SELECT CASE WHEN source_path = %(path)s THEN '→' ELSE '←' END AS arrow, coalesce(relation, 'not said'),
       count(*) AS links
FROM note_links
WHERE target_type = 'note' AND %(path)s IN (source_path, target_path) AND source_path <> target_path
GROUP BY arrow, relation ORDER BY arrow DESC, relation IS NULL, links DESC, relation
"""
BEGINNINGS = "SELECT file_path, left(content, %s) FROM notes WHERE file_path = ANY(%s)"


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """A note reached at `hop` from `from_path`; `via` is the link as it is written. `relation` is how the
    text says that the two are connected, None where it does not; `sentence` the one that holds the link.
    """

    file_path: str
    hop: int
    direction: Direction
    from_path: str
    via: str
    preview: str | None = None
    relation: str | None = None
    sentence: str | None = None


@dataclass(frozen=True, slots=True)
class GraphLink:
    """A link between two notes of a neighbourhood; see GraphEdge."""

    source: str
    target: str
    via: str
    relation: str | None
    sentence: str | None


@dataclass(frozen=True, slots=True)
class Graph:
    """The neighbourhood of a note: each note once, at its shortest distance, nearest first.

    `hops` counts the notes at each distance that was walked, also those that are left out of `edges`; once so
    many are named as an answer holds, nothing farther is looked for.
    `relations` and `direction` say which links were followed; no relations: all links.
    """

    file_path: str
    depth: int
    edges: tuple[GraphEdge, ...]
    hops: tuple[int, ...]
    notices: tuple[str, ...] = ()
    relations: tuple[str, ...] = ()
    direction: Directions = "both"

    @property
    def total(self) -> int:
        """How many notes there are at all distances."""
        return sum(self.hops)

    def to_json(self) -> dict[str, Any]:
        """The object that `graph --json` prints and the tool returns."""
        return asdict(self) | {"total": self.total}


def walk_graph(
    conn: Connection,
    file_path: str,
    depth: int = 1,
    include_content: bool = False,
    relations: Sequence[str] = (),
    direction: str = "both",
    most: int = MOST_EDGES,
) -> Graph:
    """The notes within `depth` links of a note, the nearest `most` of them by name.

    Every step goes only over links of one of the `relations`, where any are given, and in `direction`: "out"
    from the note that links, "in" from the one linked to.

    Raises QueryError for a depth out of range, an unknown relation or direction, NoteNotFound for an unknown
    path.
    """
    if not 1 <= depth <= MOST_HOPS:
        raise QueryError(f"depth is {depth}", f"Use a number from 1 to {MOST_HOPS}.")
    towards = _check_direction(direction)
    place = find_place(conn, file_path)
    start = place.file_path
    wanted = match_relations(conn, relations) if relations else ()
    seen, frontier, hops = {start}, [start], []
    edges: list[GraphEdge] = []
    for hop in range(1, depth + 1):
        if len(edges) >= most:
            break  # nothing that lies farther could be named
        step = {"frontier": frontier, "relations": list(wanted), "direction": towards}
        found = conn.execute(NEIGHBORS_BY_RELATION if wanted else NEIGHBORS, step).fetchall()
        frontier = [path for (path,) in found if path not in seen]
        if not frontier:
            break
        seen.update(frontier)
        hops.append(len(frontier))
        rows = conn.execute(STEP, step | {"named": frontier[: most - len(edges)]}).fetchall()
        edges += [
            GraphEdge(row[0], hop, row[1], row[2], format_link(*row[3:8]), None, row[8], row[9])
            for row in sorted(rows, key=lambda row: (row[1] != "out", row[0]))
        ]
    edges = [replace(edge, sentence=clip_sentence(edge.sentence, edge.via)) for edge in edges]
    if include_content:
        edges = _add_previews(conn, edges)
    graph = Graph(start, depth, tuple(edges), tuple(hops), (), wanted, towards)
    whole = (f"These are the links of the whole note, not only of {place.heading}.",) if place.heading else ()
    return replace(graph, notices=(*whole, *_explain(conn, graph)))


def load_links(conn: Connection, graph: Graph, paths: Sequence[str]) -> list[GraphLink]:
    """All links between notes of a neighbourhood, also those not walked, of the relations that were asked
    for: of each pair one for each relation, the surest first, and one without a relation only where there
    is none with.
    """
    rows = conn.execute(LINKS_BETWEEN, {"paths": list(paths), "relations": list(graph.relations)}).fetchall()
    least = 0.0 if graph.relations else SURE_ENOUGH
    said = [row for row in rows if row[7] is None or row[9] >= least]
    typed = {(row[0], row[1]) for row in said if row[7]}
    links = []
    for source, target, *written, relation, sentence, _ in sorted(said, key=lambda r: (r[0], r[1], -r[9])):
        if relation or (source, target) not in typed:
            via = format_link(*written)
            links.append(GraphLink(source, target, via, relation, clip_sentence(sentence, via)))
    return links


def match_relations(conn: Connection, asked: Sequence[str]) -> tuple[str, ...]:
    """The relations of the index that are meant, in whatever case and with spaces or dashes.

    Raises QueryError for one that no link has, with those that there are.
    """
    counts: dict[str, int] = dict(conn.execute(RELATIONS).fetchall())
    by_key: dict[str, list[str]] = {}
    for relation in counts:
        by_key.setdefault(_fold_relation(relation), []).append(relation)
    found: dict[str, None] = {}
    for relation in asked:
        meant = by_key.get(_fold_relation(relation))
        if not meant:
            raise _refuse_relation(relation, counts, list(by_key))
        found |= dict.fromkeys(meant)
    return tuple(found)


def _fold_relation(relation: str) -> str:
    return re.sub(r"[\W_]+", "_", relation.casefold()).strip("_")


def _refuse_relation(relation: str, counts: dict[str, int], keys: Sequence[str]) -> QueryError:
    if not counts:
        return QueryError(
            f"No link of the index has a relation, so none is {relation!r}",
            "Leave the relation out; an index of an older version gains relations by: obsidian-rag index",
        )
    close = difflib.get_close_matches(_fold_relation(relation), keys, n=1, cutoff=0.6)
    named = ", ".join(f"{name} ({count})" for name, count in list(counts.items())[:MOST_RELATIONS_NAMED])
    more = len(counts) - MOST_RELATIONS_NAMED
    return QueryError(
        f"No link has the relation {relation[:100]!r}",
        (f"Perhaps {close[0]}? " if close else "")
        + f"The index has: {named}{f' and {more} more' if more > 0 else ''}.",
    )


def _check_direction(direction: str) -> Directions:
    for known in get_args(Directions):
        if direction == known:
            return known  # type: ignore[no-any-return]
    raise QueryError(f"direction is {direction!r}", f"Use {', '.join(get_args(Directions))}.")


def _explain(conn: Connection, graph: Graph) -> tuple[str, ...]:
    """Why there is nothing, or not everything."""
    if graph.total > len(graph.edges):
        are = choose(len(graph.edges), "is", "are")
        told = f"Only the nearest {len(graph.edges)} of {graph.total} notes {are} named"
        if len(graph.hops) < graph.depth:
            return (f"{told}, and hop {len(graph.hops) + 1} was not walked: {NARROW}",)
        return (f"{told}: {NARROW}",)
    if graph.edges:
        return ()
    here = conn.execute(RELATIONS_HERE, {"path": graph.file_path}).fetchall()
    if not here:
        return ("No note links here, and this note links to none that exists.",)
    which = f"{' or '.join(graph.relations)} " if graph.relations else ""
    ways = {"out": "leaves this note", "in": "leads to this note", "both": "leaves this note or leads to it"}
    links = ", ".join(f"{arrow} {relation} {count}" for arrow, relation, count in here)
    return (f"No {which}link {ways[graph.direction]}. The links here: {links}.",)


def format_link(
    kind: str, target: str, heading: str | None, block: str | None, property_key: str | None
) -> str:
    """A link as it is written, without display text."""
    subpath = f"#{heading}" if heading else f"#^{block}" if block else ""
    if kind.startswith("markdown"):
        return f"{'!' if kind == 'markdown_embed' else ''}[…]({target}{subpath})"
    written = f"{'!' if kind == 'embed' else ''}[[{target}{subpath}]]"
    return f"{property_key}: {written}" if property_key else written


def clip_sentence(sentence: str | None, via: str) -> str | None:
    """At most SENTENCE_LENGTH characters of a sentence, those around the name that is linked."""
    if sentence is None or len(sentence) <= SENTENCE_LENGTH:
        return sentence
    name = re.split(r"[/#\]]", via.rsplit("[[", 1)[-1].rsplit("/", 1)[-1])[0]
    start = max(0, sentence.find(name) - SENTENCE_LENGTH // 2) if name else 0
    start = min(start, len(sentence) - SENTENCE_LENGTH)
    end = start + SENTENCE_LENGTH
    return f"{'…' if start else ''}{sentence[start:end].strip()}{'…' if end < len(sentence) else ''}"


def _add_previews(conn: Connection, edges: Sequence[GraphEdge]) -> list[GraphEdge]:
    paths = [edge.file_path for edge in edges]
    beginnings = dict(conn.execute(BEGINNINGS, (BEGINNING, paths)).fetchall())
    return [replace(e, preview=make_preview(beginnings.get(e.file_path, ""))) for e in edges]


def make_preview(text: str) -> str:
    """The first characters of a note's text, without its properties: they would fill the preview."""
    return text[find_body(text) :].lstrip()[:PREVIEW_LENGTH]
