"""The retriever of links: what is connected with the notes that a question names, by what the links say.

Silent where nothing is named. A clear plan is walked hop by hop as a beam search over typed links in both
directions; a half clear one gives the neighbours of the named note in the order of their text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from obsidian_rag.link_types import combine
from obsidian_rag.models import LinkStep
from obsidian_rag.postgres import Connection
from obsidian_rag.relations import WORD, Table
from obsidian_rag.search.plans import Plan, Step, make_plan
from obsidian_rag.search.question import Question, name_nodes

BEAM = 60  # nodes that are walked on from
MOST_EDGES = 4000  # of one hop; those that say what is asked come first
HOP_DECAY = 0.9
UNTYPED = 0.25  # of a link that says nothing, against one that says what is asked
SOLE = 0.4  # of any link between kinds that nothing else connects: a person and a meeting
OTHER_TYPE = 0.1  # of a link that says something else
WRONG_KIND = 0.15
UNKNOWN_KIND = 0.35  # less than BESIDE: the journal that tells of two people is neither of them
BESIDE = 0.5  # of two notes linked from one sentence, against a link
MORE_PATHS = 0.2  # of the next three paths to a note
STRONG = 0.1  # of the best score, from which a note answers a clear question as well
TEXT_SHARE, TEXT_DEPTH = 0.5, 5  # what the text of a note adds to its links, and the rank at which half of it
ON_THE_WAY = 0.3  # of a note that the plan only passes
UNSURE_END = 0.5  # of a note at the end of several hops of a plan that is not clear

EDGES = """
WITH f AS (SELECT unnest(%(nodes)s::text[]) AS node), edge AS (
    SELECT f.node, 'out' AS direction, coalesce(l.target_path, '?' || lower(l.target_name)) AS other, l.id
    FROM f JOIN note_links l ON l.source_path = f.node WHERE l.target_type IN ('note', 'unresolved')
    UNION ALL
    SELECT f.node, 'in', l.source_path, l.id FROM f JOIN note_links l ON l.target_path = f.node
    WHERE l.target_type = 'note'
    UNION ALL
    SELECT f.node, 'in', l.source_path, l.id
    FROM f JOIN note_links l ON l.target_type = 'unresolved' AND lower(l.target_name) = substr(f.node, 2)
    WHERE starts_with(f.node, '?')
)
SELECT e.node, e.direction, e.other, e.id, m.sentence_no, nullif(m.relations, '{}')
FROM edge e LEFT JOIN link_mentions m ON m.link_id = e.id
WHERE e.other <> e.node
ORDER BY coalesce(m.relations ?| %(relations)s::text[], FALSE) DESC, e.id, m.sentence_no LIMIT %(most)s
"""
# Two notes that one sentence links: it says of both what it says of each.
BESIDES = """
WITH f AS (SELECT unnest(%(nodes)s::text[]) AS node)
SELECT f.node, 'beside', coalesce(b.target_path, '?' || lower(b.target_name)), b.id, m.sentence_no,
       CASE WHEN m.relations <> '{}' AND o.relations <> '{}'
            THEN jsonb_build_array(m.relations, o.relations) END
FROM f
JOIN note_links l ON l.target_path = f.node
    OR (l.target_type = 'unresolved' AND lower(l.target_name) = substr(f.node, 2) AND f.node LIKE '?%%')
JOIN link_mentions m ON m.link_id = l.id AND m.sentence <> ''
JOIN link_mentions o ON o.source_path = m.source_path AND o.sentence_no = m.sentence_no AND o.link_id <> l.id
JOIN note_links b ON b.id = o.link_id AND b.target_type IN ('note', 'unresolved')
WHERE coalesce(b.target_path, '?' || lower(b.target_name)) <> f.node
ORDER BY (m.relations ?| %(relations)s::text[] AND o.relations ?| %(relations)s::text[]) DESC,
         b.id, m.sentence_no
LIMIT %(most)s
"""
PLACES = """
SELECT file_path, array_remove(ARRAY[front_matter ->> 'type', front_matter ->> 'kind',
       front_matter ->> 'category', front_matter ->> 'categories', front_matter ->> 'class'], NULL) || tags
FROM notes WHERE file_path = ANY(%s)
"""
PASSING = "SELECT file_path FROM notes WHERE file_path = ANY(%(paths)s) AND id = ANY(%(allowed)s::int[])"


@dataclass(frozen=True, slots=True)
class Said:
    """What one mention of a link says; `sentence_no` is None for a link of an index without sentences."""

    link_id: int
    sentence_no: int | None
    relations: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Edge:
    """A connection of two nodes. `relations` are what all its mentions say together."""

    start: str
    end: str
    direction: str
    relations: Mapping[str, float]
    mentions: tuple[Said, ...]

    def find_mention(self, relation: str | None) -> Said:
        """The mention that says a relation best."""
        return max(self.mentions, key=lambda mention: mention.relations.get(relation or "", 0.0))


@dataclass(frozen=True, slots=True)
class Hop:
    """An edge as a step takes it; `relation` is what it says of what is asked, None where it says nothing."""

    edge: Edge
    relation: str | None


Way = tuple[Hop, ...]
Ways = list[tuple[float, Way]]


@dataclass(frozen=True, slots=True)
class LinkHit:
    """A note reached by links: score, and the hops of the best way to it."""

    file_path: str
    score: float
    way: Way


@dataclass(frozen=True, slots=True)
class LinkResult:
    """Notes by the links that the question asks for, best first. `is_clear` tells that the question asks for
    just that. `named` are the notes named themselves, `plans` what is asked of each.
    """

    hits: tuple[LinkHit, ...] = ()
    named: tuple[str, ...] = ()
    is_clear: bool = False
    plans: tuple[Plan, ...] = ()

    @property
    def order(self) -> list[str]:
        """The notes as they answer: only what is asked for where that is clear, else what is named first."""
        hits = [hit.file_path for hit in self.hits]
        return hits if self.is_clear else [*self.named, *hits]

    def find(self, file_path: str) -> LinkHit | None:
        """The hit of a note, None where no link leads to it."""
        return next((hit for hit in self.hits if hit.file_path == file_path), None)


class Walker:
    """Walks links for one question; remembers the kinds of the nodes it has seen."""

    def __init__(self, conn: Connection, table: Table) -> None:
        self._conn = conn
        self._table = table
        self._kinds: dict[str, frozenset[str]] = {}
        self._edges: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Edge]] = {}

    def find_kinds(self, nodes: Iterable[str]) -> Mapping[str, frozenset[str]]:
        """The kinds of nodes, told by their folders, tags and properties; empty where nothing tells."""
        new = [node for node in dict.fromkeys(nodes) if node not in self._kinds]
        said = dict(self._conn.execute(PLACES, (new,)).fetchall())
        for node in new:
            words = [*node.lstrip("?").split("/")[:-1], *said.get(node, ())]
            self._kinds[node] = self._read_kinds(words)
        return self._kinds

    def _read_kinds(self, texts: Sequence[str]) -> frozenset[str]:
        said = {part for text in texts for part in (text.lower(), *WORD.findall(text.lower()))}
        return frozenset(kind.name for kind in self._table.kinds.values() if said & kind.places)

    def find_sole_pairs(self, step: Step) -> list[frozenset[str]]:
        """The pairs of kinds that only a relation of the step connects."""
        return [
            pair
            for pair, names in self._table.pairs.items()
            if len(names) == 1 and names[0] in step.relations
        ]

    def load_edges(self, nodes: Sequence[str], relations: Iterable[str]) -> list[Edge]:
        """The connections of nodes, links of both directions and links of one sentence; where there are very
        many, those that say one of `relations` before others.
        """
        asked = tuple(nodes), tuple(relations)
        if asked not in self._edges:  # a plan of one hop is walked again as what is beside the named notes
            self._edges[asked] = self._read_edges(*asked)
        return self._edges[asked]

    def _read_edges(self, nodes: tuple[str, ...], relations: tuple[str, ...]) -> list[Edge]:
        values = {"nodes": list(nodes), "relations": list(relations), "most": MOST_EDGES}
        said: defaultdict[tuple[str, str, str], list[Said]] = defaultdict(list)
        for node, direction, other, link_id, sentence, says in self._conn.execute(EDGES, values).fetchall():
            said[node, other, direction].append(Said(link_id, sentence, says or {}))
        for node, direction, other, link_id, sentence, pair in self._conn.execute(BESIDES, values).fetchall():
            one, two = pair or ({}, {})
            both = {name: min(one[name], two[name]) for name in one.keys() & two.keys()}
            said[node, other, direction].append(Said(link_id, sentence, both))
        return [
            Edge(node, other, direction, _combine_mentions(mentions), tuple(mentions))
            for (node, other, direction), mentions in said.items()
        ]


def _combine_mentions(mentions: Sequence[Said]) -> dict[str, float]:
    names = {name for mention in mentions for name in mention.relations}
    return {name: combine(mention.relations.get(name, 0.0) for mention in mentions) for name in names}


def search_links(
    conn: Connection,
    question: Question,
    table: Table,
    count: int,
    text_order: Sequence[str] = (),
    allowed: Sequence[int] | None = None,
) -> LinkResult:
    """The notes that links connect with what is named, best first; `text_order` ranks where links do not."""
    named, reading, tokens = question.named, question.reading, question.tokens
    walker = Walker(conn, table)
    kinds = walker.find_kinds(node for name in named for node in name.nodes)
    plans = [
        make_plan(reading, name, tokens, frozenset().union(*(kinds[n] for n in name.nodes)), table)
        for name in named
    ]
    anchors = name_nodes(named)
    walks = [walk(walker, plan) for plan in plans]
    is_clear = any(plan.is_clear and found.agrees for plan, found in zip(plans, walks, strict=True))
    ways = [found.ways for found in walks]
    if not is_clear:  # what is beside the named notes, whatever the question makes of them
        ways = [walk(walker, shorten(plan)).ways for plan in plans]
        ways += [_keep_said(found, plan) for found, plan in zip(walks, plans, strict=True)]
    scores: defaultdict[str, Ways] = defaultdict(list)
    for by_node in ways:
        for node, paths in by_node.items():
            scores[node] += paths
    place = {path: rank for rank, path in enumerate(text_order)}
    hits = [
        LinkHit(node, _score(paths) * _favour(place.get(node)), max(paths, key=_first)[1])
        for node, paths in scores.items()
        if node not in anchors
    ]
    hits.sort(key=lambda hit: (-hit.score, hit.file_path))
    if is_clear:
        hits = [hit for hit in hits if hit.score >= STRONG * hits[0].score]
    shown = _list_shown(conn, [*(hit.file_path for hit in hits), *anchors], allowed)
    kept = tuple(hit for hit in hits if hit.file_path in shown)[:count]
    if not kept:
        return LinkResult(plans=tuple(plans))  # what nothing links is the matter of its words and its name
    return LinkResult(kept, tuple(node for node in anchors if node in shown), is_clear, tuple(plans))


def _list_shown(conn: Connection, nodes: Sequence[str], allowed: Sequence[int] | None) -> set[str]:
    """The nodes that are notes, and pass."""
    paths = [node for node in nodes if not node.startswith("?")]
    if allowed is None:
        return set(paths)
    rows = conn.execute(PASSING, {"paths": paths, "allowed": list(allowed)}).fetchall()
    return {row[0] for row in rows}


def shorten(plan: Plan) -> Plan:
    """All that a plan asks for in one hop, to any kind of note."""
    relations: dict[str, float] = {}
    for step in plan.steps:
        for name, weight in step.relations.items():
            relations[name] = max(relations.get(name, 0.0), weight)
    return replace(plan, steps=(Step(relations, plan.kind, 0, 0),))


def _keep_said(found: Walked, plan: Plan) -> dict[str, Ways]:
    """The ends of a plan of several hops to which each hop says what is asked. Where no folder or type tells
    kinds, that is all that speaks for them.
    """
    kept: dict[str, Ways] = {}
    for node, paths in found.ways.items():
        said = [
            (UNSURE_END * score, way)
            for score, way in paths
            if len(way) == len(plan.steps) > 1 and all(hop.relation for hop in way)
        ]
        if said:
            kept[node] = said
    return kept


def _first(path: tuple[float, Way]) -> float:
    return path[0]


def _favour(rank: int | None) -> float:
    """The factor of a note by its rank among texts, from 0: 1.5 of the first, 1 of what has no such words."""
    return 1.0 if rank is None else 1.0 + TEXT_SHARE / (1.0 + rank / TEXT_DEPTH)


def _score(paths: Ways) -> float:
    best = sorted((score for score, _ in paths), reverse=True)
    return best[0] + MORE_PATHS * sum(best[1:4])


@dataclass(frozen=True, slots=True)
class Walked:
    """All ways along a plan by the node they lead to, with their scores. `agrees` tells that some of those at
    the end are of the kind that is asked for.
    """

    ways: Mapping[str, Ways]
    agrees: bool


def walk(walker: Walker, plan: Plan) -> Walked:
    """Walk from the named note along the plan's steps."""
    steps = plan.steps or (Step({}, plan.kind, 0, 0),)
    frontier: dict[str, Ways] = {node: [(weight, ())] for node, weight in plan.start.nodes.items()}
    found: defaultdict[str, Ways] = defaultdict(list)
    has_kind = False
    for number, step in enumerate(steps):
        is_last = number == len(steps) - 1
        edges = walker.load_edges(list(frontier), step.relations)
        kinds = walker.find_kinds([*frontier, *(edge.end for edge in edges)])
        sole = walker.find_sole_pairs(step)
        has_kind = step.kind is not None and any(step.kind in kinds[edge.end] for edge in edges)
        reached: defaultdict[str, Ways] = defaultdict(list)
        for edge in edges:
            is_sole = any({one, two} in sole for one in kinds[edge.start] for two in kinds[edge.end])
            said, strength = _judge_edge(edge, step, is_sole)
            strength *= HOP_DECAY
            if has_kind:
                strength *= _judge_kind(kinds[edge.end], step.kind)
            for score, way in frontier[edge.start]:
                if not any(edge.end in (hop.edge.start, hop.edge.end) for hop in way):
                    reached[edge.end].append((score * strength, (*way, Hop(edge, said))))
        best = {node: sorted(ways, key=lambda w: -w[0])[:4] for node, ways in reached.items()}
        for node, ways in best.items():
            share = 1.0 if is_last else ON_THE_WAY
            kept = 1.0 if is_last or plan.kind is None else _judge_kind(kinds[node], plan.kind)
            found[node] += [(score * share * kept, way) for score, way in ways]
        order = sorted(best, key=lambda node: -best[node][0][0])[:BEAM]
        frontier = {node: best[node] for node in order}
    return Walked(found, has_kind)


def _judge_edge(edge: Edge, step: Step, is_sole: bool) -> tuple[str | None, float]:
    """What a link says of what is asked, and how well it does."""
    said = {name: weight * edge.relations.get(name, 0.0) for name, weight in step.relations.items()}
    best = max(said, key=lambda name: said[name], default=None)
    floor = SOLE if is_sole else OTHER_TYPE if edge.relations and step.relations else UNTYPED
    share = BESIDE if edge.direction == "beside" else 1.0
    if best is None or said[best] < floor:
        return None, floor * share
    return best, said[best] * share


def _judge_kind(kinds: frozenset[str], wanted: str | None) -> float:
    if wanted is None or wanted in kinds:
        return 1.0
    return WRONG_KIND if kinds else UNKNOWN_KIND


SENTENCES = """
SELECT w.place, l.source_path, m.sentence, m.line
FROM unnest(%(ids)s::int[], %(sentences)s::int[]) WITH ORDINALITY AS w (id, sentence_no, place)
JOIN note_links l ON l.id = w.id
LEFT JOIN LATERAL (
    SELECT sentence, line FROM link_mentions m WHERE m.link_id = w.id AND m.sentence_no = w.sentence_no
    ORDER BY m.line LIMIT 1) AS m ON TRUE
"""


def explain_hits(conn: Connection, hits: Sequence[LinkHit]) -> dict[str, tuple[LinkStep, ...]]:
    """How notes are connected with what is named, hop by hop, by path."""
    hops = [(hit.file_path, hop) for hit in hits for hop in hit.way]
    mentions = [hop.edge.find_mention(hop.relation) for _, hop in hops]
    values = {
        "ids": [mention.link_id for mention in mentions],
        "sentences": [mention.sentence_no for mention in mentions],
    }
    told = {row[0]: row[1:] for row in conn.execute(SENTENCES, values).fetchall()} if hops else {}
    steps: dict[str, tuple[LinkStep, ...]] = {}
    for place, (path, hop) in enumerate(hops, 1):
        source, sentence, line = told.get(place, (None, None, None))
        step = LinkStep(
            hop.edge.start, hop.edge.end, hop.edge.direction, hop.relation, sentence or None, source, line
        )
        steps[path] = (*steps.get(path, ()), step)
    return steps
