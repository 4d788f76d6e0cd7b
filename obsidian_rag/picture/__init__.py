"""The neighbourhood of a note as a picture: which notes and links are drawn, and what is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from obsidian_rag.counts import choose
from obsidian_rag.graph import Graph, GraphEdge, GraphLink, load_links
from obsidian_rag.postgres import Connection

MOST_NOTES = 150  # drawn: more cannot be told apart
MOST_LINKS = 450  # drawn: Mermaid refuses more than 500

# Without `title` a note is called by its file's name, as Obsidian does.
TITLES = """
SELECT file_path, front_matter ->> 'title' FROM notes
WHERE file_path = ANY(%s) AND jsonb_typeof(front_matter -> 'title') = 'string'
"""


@dataclass(frozen=True, slots=True)
class PictureNote:
    """A note to be drawn, `hop` links from the one the picture is of; `url` opens it in Obsidian."""

    file_path: str
    title: str
    hop: int
    url: str


@dataclass(frozen=True, slots=True)
class PictureLink:
    """What one note says of another: `source` and `target` count the picture's notes, from 0."""

    source: int
    target: int
    links: tuple[GraphLink, ...]

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations, without a link that has none."""
        return tuple(link.relation for link in self.links if link.relation)


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn. `notes[0]` is the note it is a picture of; `links` have the walked ones first.

    `parents[i]` is the note from which notes[i] was reached, 0 for the first. `notices` say what is left out.
    """

    notes: tuple[PictureNote, ...]
    parents: tuple[int, ...]
    links: tuple[PictureLink, ...]
    notices: tuple[str, ...]


def load_picture(conn: Connection, graph: Graph) -> Picture:
    """The picture of a neighbourhood: its nearest notes with all links among them that it may show."""
    paths = [graph.file_path, *(edge.file_path for edge in choose_edges(graph))]
    row = conn.execute("SELECT vaults FROM index_settings").fetchone()
    return make_picture(
        graph,
        load_links(conn, graph, paths),
        dict(conn.execute(TITLES, (paths,)).fetchall()),
        row[0] if row else (),
    )


def choose_edges(graph: Graph) -> list[GraphEdge]:
    """What is drawn of a neighbourhood: the nearest, and of those as near first the ones with a relation."""
    return sorted(graph.edges, key=lambda edge: (edge.hop, edge.relation is None))[: MOST_NOTES - 1]


def make_picture(
    graph: Graph, links: Sequence[GraphLink], titles: Mapping[str, str], vaults: Sequence[str]
) -> Picture:
    """The picture of a neighbourhood. `titles` has what notes are called other than by their file's name,
    `vaults` the folders of the index.
    """
    edges = choose_edges(graph)
    hops = {graph.file_path: 0} | {edge.file_path: edge.hop for edge in edges}
    number = {path: n for n, path in enumerate(hops)}
    names = name_notes(list(hops), titles)
    notes = [PictureNote(path, names[path], hop, make_url(path, vaults)) for path, hop in hops.items()]
    parents = (0, *(number[edge.from_path] for edge in edges))
    walked = {frozenset((n, parent)) for n, parent in enumerate(parents) if n}
    drawn = _group(links, hops, number, graph)
    drawn.sort(key=lambda link: frozenset((link.source, link.target)) not in walked)
    left_out = graph.total - len(edges)
    notices = [
        f"{left_out} of {graph.total} notes {choose(left_out, 'is', 'are')} left out: the farthest,"
        " first those without a relation."
    ]
    if not left_out:
        notices = [*graph.notices]
    if (more := len(drawn) - MOST_LINKS) > 0:
        notices.append(f"{more} of {len(drawn)} links {choose(more, 'is', 'are')} left out.")
    return Picture(tuple(notes), parents, tuple(drawn[:MOST_LINKS]), tuple(notices))


def _group(
    links: Sequence[GraphLink], hops: Mapping[str, int], number: Mapping[str, int], graph: Graph
) -> list[PictureLink]:
    """The links of each pair of notes as one; of a walk in one direction, none that leads back."""
    grouped: dict[tuple[int, int], list[GraphLink]] = {}
    for link in links:
        ahead = hops[link.target] - hops[link.source]
        if (graph.direction == "out" and ahead < 0) or (graph.direction == "in" and ahead > 0):
            continue
        grouped.setdefault((number[link.source], number[link.target]), []).append(link)
    return [PictureLink(source, target, tuple(said)) for (source, target), said in grouped.items()]


def name_notes(paths: Sequence[str], titles: Mapping[str, str]) -> dict[str, str]:
    """What notes are called in a picture: by title or file name, and where two share that, by folder too."""
    stems = {path: path.rsplit("/", 1)[-1].removesuffix(".md") for path in paths}
    names = {path: (titles.get(path) or "").strip() or stem for path, stem in stems.items()}
    twice = {name for name, count in Counter(names.values()).items() if count > 1}
    for path in (path for path in paths if names[path] in twice):
        folder = path.rsplit("/", 2)[-2] if "/" in path else ""
        longer = f"{folder}/{stems[path]}" if folder else stems[path]
        names[path] = longer if names[path] == stems[path] else f"{names[path]} ({longer})"
    return names


def make_url(file_path: str, vaults: Sequence[str]) -> str:
    """The address by which Obsidian opens a note."""
    vault, path = vaults[0].rstrip("/").rsplit("/", 1)[-1] if vaults else "", file_path
    if len(vaults) > 1:  # paths begin with the vault's name
        vault, _, path = file_path.partition("/")
    return f"obsidian://open?vault={quote(vault, safe='')}&file={quote(path, safe='')}"


def count_relations(picture: Picture) -> list[tuple[str, int]]:
    """The relations drawn with how many links say each, the commonest first."""
    counts = Counter(relation for link in picture.links for relation in link.relations)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
