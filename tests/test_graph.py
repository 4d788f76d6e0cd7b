"""The link graph in the database: hops, directions, previews."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conftest import Workbench

from obsidian_rag.errors import NoteNotFound, QueryError
from obsidian_rag.graph import PREVIEW_LENGTH, Graph, format_link, make_preview, walk_graph
from obsidian_rag.postgres import connect


class Walker:
    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.conn = connect(bench.database_url, read_only=True)

    def walk(self, file_path: str, depth: int = 1, include_content: bool = False) -> Graph:
        return walk_graph(self.conn, file_path, depth, include_content)

    def index(self, **notes: str) -> None:
        for name, text in notes.items():
            self.bench.vault.write(f"{name}.md", text)
        self.bench.index()


@pytest.fixture
def walker(bench: Workbench) -> Iterator[Walker]:
    found = Walker(bench)
    yield found
    found.conn.close()


def paths(graph: Graph, hop: int) -> list[tuple[str, str]]:
    return [(edge.direction, edge.file_path) for edge in graph.edges if edge.hop == hop]


def test_links_are_followed_both_ways_to_the_depth_asked(walker: Walker) -> None:
    walker.index(A="[[B]]", B="[[C]]", C="[[D]]", D="[[E]]", E="end", Z="[[A]]", Y="[[Z]]")

    assert walker.walk("A").hops == (2,)
    graph = walker.walk("A", 3)
    assert graph.hops == (2, 2, 1)
    assert graph.total == 5
    assert paths(graph, 1) == [("out", "B.md"), ("in", "Z.md")]
    assert paths(graph, 2) == [("out", "C.md"), ("in", "Y.md")]
    assert paths(graph, 3) == [("out", "D.md")]
    assert [edge.from_path for edge in graph.edges] == ["A.md", "A.md", "B.md", "Z.md", "C.md"]


def test_a_note_stands_once_at_its_shortest_distance(walker: Walker) -> None:
    walker.index(A="[[B]] [[C]] [[A]] [[B|again]]", B="[[C]] [[A]]", C="[[D]] [[B]]", D="[[A]]")

    graph = walker.walk("A", 3)

    assert sorted(edge.file_path for edge in graph.edges) == ["B.md", "C.md", "D.md"]
    assert graph.hops == (3,)
    assert paths(graph, 1) == [("out", "B.md"), ("out", "C.md"), ("in", "D.md")]


def test_a_link_is_shown_as_it_is_written(walker: Walker) -> None:
    walker.index(
        A="---\nup: '[[B#Top]]'\n---\n\n![[C]] and [text](D.md#^x1) and [[E#One#Two|shown]]\n",
        B="b", C="c", D="d ^x1", E="e",
    )  # fmt: skip
    assert {edge.file_path: edge.via for edge in walker.walk("A").edges} == {
        "B.md": "up: [[B#Top]]",
        "C.md": "![[C]]",
        "D.md": "[…](D.md#^x1)",
        "E.md": "[[E#One#Two]]",
    }


def test_links_to_nothing_and_to_attachments_are_no_notes(walker: Walker) -> None:
    walker.bench.vault.write("image.png", b"\x89PNG")
    walker.index(A="[[Nowhere]] ![[image.png]]")

    graph = walker.walk("A", 2)

    assert (graph.edges, graph.hops, graph.total) == ((), (), 0)
    assert graph.notices == ("No note links here, and this note links to none that exists.",)


def test_a_preview_is_the_text_without_its_properties(walker: Walker) -> None:
    walker.index(A="[[B]] [[C]]", B=f"---\nkey: {'x' * 600}\n---\n\n# B\n\n{'word ' * 200}", C="")

    b, c = walker.walk("A", 1, include_content=True).edges

    assert b.preview is not None
    assert b.preview.startswith("# B\n\nword word")
    assert len(b.preview) == PREVIEW_LENGTH
    assert c.preview == ""
    assert walker.walk("A").edges[0].preview is None


def test_a_preview_of_text_that_only_looks_like_properties_is_that_text() -> None:
    assert make_preview("---\nnever closed\n") == "---\nnever closed\n"
    assert make_preview("Text\n---\nmore") == "Text\n---\nmore"
    assert make_preview("---\n---\nbody") == "body"


@pytest.mark.parametrize("depth", [0, 4, -1])
def test_a_depth_out_of_range_is_refused(walker: Walker, depth: int) -> None:
    walker.index(A="a")
    with pytest.raises(QueryError, match=f"depth is {depth}. Use a number from 1 to 3"):
        walker.walk("A", depth)


def test_an_unknown_note_is_refused(walker: Walker) -> None:
    walker.index(Alpha="a")
    with pytest.raises(NoteNotFound, match=r"Nearest paths: Alpha\.md"):
        walker.walk("Alpah")


@pytest.mark.parametrize("asked", ["A.md#One", "[[A#One]]", "A#^block"])
def test_a_walk_from_a_section_says_that_it_is_from_the_whole_note(walker: Walker, asked: str) -> None:
    walker.index(A="# One\n\n[[B]] ^block\n\n# Two\n\n[[C]]\n", B="", C="")

    graph = walker.walk(asked)

    assert [edge.file_path for edge in graph.edges] == ["B.md", "C.md"]
    assert graph.notices[0].startswith("These are the links of the whole note, not only of ")
    assert walker.walk("A.md").notices == ()


def test_every_kind_of_link_has_a_form() -> None:
    assert format_link("wikilink", "A", None, None, None) == "[[A]]"
    assert format_link("wikilink", "", "Top", None, None) == "[[#Top]]"
    assert format_link("embed", "A", None, "id", None) == "![[A#^id]]"
    assert format_link("markdown", "A.md", None, None, None) == "[…](A.md)"
    assert format_link("markdown_embed", "A.md", "H", None, None) == "![…](A.md#H)"
    assert format_link("property", "A", None, None, "rel.0") == "rel.0: [[A]]"
