"""The link graph by what links say: filters of relation and direction, at every hop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from search_bench import SearchBench, open_search_bench

from obsidian_rag import graph
from obsidian_rag.cli import cli
from obsidian_rag.errors import QueryError
from obsidian_rag.graph import SENTENCE_LENGTH, Graph, clip_sentence, load_links, walk_graph
from obsidian_rag.picture import load_picture
from obsidian_rag.render import BUDGET, fit_graph, render_graph
from obsidian_rag.tokens import estimate_tokens

DAYS = 160
NOTES = {
    "Acme": "# Acme\n\nAcme was founded by [[Ann]] in a shed.\n\nThe colour is that of [[Moss]].\n",
    "Ann": "climbed_with:: [[Ben]]\n",
    "Ben": "climbed_with:: [[Cem]]\n\nMoss: [[Moss]]\n",
    "Cem": "---\nclimbed_with: '[[Dora]]'\n---\n",
    "Dora": "Dora invested in [[Acme]] last spring.\n",
    "Seed": "Seed Fund invested in [[Acme]] as well.\n",
    "Eli": "Eli founded [[Acme]] with others.\n\nMuch later, Eli invested in [[Acme]] again.\n",
    "Moss": "Green.\n",
    "Hub": "All days lead here.\n",
    **{f"Days/{n:03}": f"Day {n} of [[Hub]].\n" for n in range(DAYS)},
}


@pytest.fixture(scope="module")
def index(server: str, migrated: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchBench]:
    with open_search_bench(tmp_path_factory.mktemp("graph"), server, migrated, NOTES) as bench:
        yield bench


def walk(index: SearchBench, note: str, depth: int = 1, **how: Any) -> Graph:
    found = index.run(lambda conn: walk_graph(conn, note, depth, **how))
    assert isinstance(found, Graph)
    return found


def steps(found: Graph) -> list[tuple[int, str, str, str | None]]:
    """Hop, direction, note without `.md`, relation."""
    return [(e.hop, e.direction, e.file_path.removesuffix(".md"), e.relation) for e in found.edges]


def run(index: SearchBench, *arguments: str) -> Result:
    environment: dict[str, str] = index.bench.environment
    return CliRunner().invoke(cli, ["graph", *arguments], env=environment, prog_name="obsidian-rag")


def test_an_edge_says_how_the_two_are_connected_and_where_it_stands(index: SearchBench) -> None:
    ann, moss, *_ = walk(index, "Acme").edges
    assert (ann.file_path, ann.direction, ann.via, ann.relation) == ("Ann.md", "out", "[[Ann]]", "founded")
    assert ann.sentence == "Acme was founded by Ann in a shed."
    assert (moss.file_path, moss.relation) == ("Moss.md", None)
    assert moss.sentence == "The colour is that of Moss."


def test_of_several_things_said_of_a_note_the_surest_is_shown_and_each_is_found(index: SearchBench) -> None:
    assert {"founded", "invested_in"} == {
        relation
        for asked in ("founded", "invested_in")
        for _, _, note, relation in steps(walk(index, "Eli", relations=[asked]))
        if note == "Acme"
    }
    said = walk(index, "Eli", relations=["invested_in"]).edges[0]
    assert said.sentence == "Much later, Eli invested in Acme again."


def test_a_relation_holds_for_every_step(index: SearchBench) -> None:
    found = walk(index, "Ann", 3, relations=["climbed_with"])
    assert steps(found) == [
        (1, "out", "Ben", "climbed_with"),
        (2, "out", "Cem", "climbed_with"),
        (3, "out", "Dora", "climbed_with"),
    ]
    assert found.relations == ("climbed_with",)
    assert "Moss.md" in {edge.file_path for edge in walk(index, "Ann", 2).edges}


def test_several_relations_are_followed_together(index: SearchBench) -> None:
    found = walk(index, "Cem", 2, relations=["invested_in", "climbed_with"], direction="out")
    assert steps(found) == [(1, "out", "Dora", "climbed_with"), (2, "out", "Acme", "invested_in")]
    assert steps(walk(index, "Cem", 2, relations=["climbed_with"], direction="out")) == steps(found)[:1]


def test_a_direction_is_seen_from_the_note_that_the_walk_has_reached(index: SearchBench) -> None:
    outward = walk(index, "Ann", 2, direction="out")
    assert {edge.direction for edge in outward.edges} == {"out"}
    assert [(hop, note) for hop, _, note, _ in steps(outward)] == [(1, "Ben"), (2, "Cem"), (2, "Moss")]
    inward = walk(index, "Ann", 2, direction="in")
    assert {edge.direction for edge in inward.edges} == {"in"}
    assert [(hop, note) for hop, _, note, _ in steps(inward)] == [
        (1, "Acme"), (2, "Dora"), (2, "Eli"), (2, "Seed"),
    ]  # fmt: skip
    assert walk(index, "Ann").total == outward.hops[0] + inward.hops[0]


def test_a_relation_and_a_direction_both_hold(index: SearchBench) -> None:
    found = walk(index, "Acme", relations=["invested_in"], direction="in")
    assert [note for _, _, note, _ in steps(found)] == ["Dora", "Eli", "Seed"]
    none = walk(index, "Acme", relations=["invested_in"], direction="out")
    assert (none.edges, none.total) == ((), 0)
    assert none.notices[0].startswith("No invested_in link leaves this note. The links here: → founded 1, ")
    assert "← invested_in " in none.notices[0]


def test_a_relation_may_be_written_in_other_ways(index: SearchBench) -> None:
    plain = walk(index, "Acme", relations=["invested_in"])
    for written in ("Invested In", "invested-in", "INVESTED_IN"):
        assert walk(index, "Acme", relations=[written]) == plain


def test_an_unknown_relation_is_refused_with_those_that_there_are(index: SearchBench) -> None:
    with pytest.raises(QueryError) as caught:
        walk(index, "Acme", relations=["founded", "invests in"])
    assert caught.value.message == "No link has the relation 'invests in'"
    assert caught.value.mend == (
        "Perhaps invested_in? The index has: climbed_with (3), invested_in (3), founded (2), works_at (2)."
    )


def test_an_unknown_direction_is_refused(index: SearchBench) -> None:
    with pytest.raises(QueryError, match=r"direction is 'up'\. Use both, out, in\."):
        walk(index, "Acme", direction="up")


def test_the_answer_keeps_its_shape_and_names_the_relation(index: SearchBench) -> None:
    lines = render_graph(walk(index, "Seed", 2, relations=["invested_in", "founded"])).splitlines()
    assert lines[:4] == [
        "# Wikilink Graph: Seed.md",
        "## Hop 1 (1 links)",
        "- → Acme.md (via [[Acme]], invested_in)",
        '  "Seed Fund invested in Acme as well."',
    ]
    assert lines[4] == "## Hop 2 (3 links)"
    assert lines[5] == "- → Ann.md (via [[Ann]], founded)"
    assert lines[-1] == "Total: 4 links across 2 hops"
    assert "- → Moss.md (via [[Moss]])" in render_graph(walk(index, "Acme"))


def test_links_among_the_notes_are_of_the_relations_asked_for(index: SearchBench) -> None:
    found = walk(index, "Acme", relations=["founded"])
    paths = ["Acme.md", "Ann.md", "Eli.md"]
    links = index.run(lambda conn: load_links(conn, found, paths))
    assert [(link.source, link.target, link.relation) for link in links] == [
        ("Acme.md", "Ann.md", "founded"),
        ("Eli.md", "Acme.md", "founded"),
    ]


def test_what_else_a_link_may_say_is_drawn_only_where_it_is_sure(
    index: SearchBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(**how: Any) -> list[str | None]:
        found = walk(index, "Acme", **how)
        links = index.run(lambda conn: load_links(conn, found, ["Acme.md", "Eli.md"]))
        return [link.relation for link in links]

    assert said()[0] == "founded"
    assert "invested_in" in said()
    monkeypatch.setattr(graph, "SURE_ENOUGH", 1.1)
    assert said() == ["founded"]
    assert said(relations=["invested_in"]) == ["invested_in"]


def test_a_hub_is_counted_whole_and_named_in_part(index: SearchBench) -> None:
    found = walk(index, "Hub", 2)
    assert found.hops == (DAYS,)
    assert len(found.edges) == DAYS
    text = render_graph(fit_graph(found, 1_000))
    assert estimate_tokens(text) < 1_000 < BUDGET
    assert f"of {DAYS} links" in text
    assert f"Total: {DAYS} links across 1 hops" in text
    fewer = walk(index, "Hub", most=20)
    assert (len(fewer.edges), fewer.total) == (20, DAYS)
    assert fewer.notices == (
        f"Only the nearest 20 of {DAYS} notes are named: ask for a relation, a direction or fewer hops.",
    )
    assert fewer.edges == found.edges[:20]


def test_a_walk_ends_where_nothing_farther_could_be_named(index: SearchBench) -> None:
    found = walk(index, "Hub", 3, most=20)
    assert found.hops == (DAYS,)
    assert found.notices == (
        f"Only the nearest 20 of {DAYS} notes are named, and hop 2 was not walked: ask for a relation, a"
        " direction or fewer hops.",
    )


def test_a_picture_of_a_hub_says_how_many_notes_it_leaves_out(index: SearchBench) -> None:
    picture = index.run(lambda conn: load_picture(conn, walk_graph(conn, "Hub")))
    assert len(picture.notes) == 150
    assert picture.notices == (
        f"{DAYS - 149} of {DAYS} notes are left out: the farthest, first those without a relation.",
    )


def test_a_long_sentence_is_cut_around_the_name() -> None:
    cut = clip_sentence(f"{'a ' * 400}Acme {'b ' * 400}", "[[companies/Acme#Past]]")
    assert cut is not None
    assert "Acme" in cut
    assert cut.startswith("…")
    assert cut.endswith("…")
    assert len(cut) <= SENTENCE_LENGTH + 2
    assert clip_sentence(None, "[[Acme]]") is None


def test_the_command_filters_as_the_tool_does(index: SearchBench) -> None:
    result = run(index, "Acme", "--relation", "invested in", "--direction", "in", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    expected = walk(index, "Acme", relations=["invested_in"], direction="in").to_json()
    assert document == json.loads(json.dumps(expected))
    assert document["edges"][0]["relation"] == "invested_in"
    refused = run(index, "Acme", "--relation", "invests", "--json")
    assert refused.exit_code == 2
    assert "climbed_with (3)" in json.loads(refused.stdout)["mend"]


def test_the_command_prints_a_chart_instead_of_the_list(index: SearchBench) -> None:
    result = run(index, "Seed", "--depth", "2", "--mermaid")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("flowchart LR\n")
    assert '-->|"invested#95;in"|' in result.stdout
    both = run(index, "Seed", "--mermaid", "--json")
    assert both.exit_code == 2
    assert "--mermaid and --json" in json.loads(both.stdout)["error"]


def test_the_command_writes_a_page_beside_what_it_prints(index: SearchBench, tmp_path: Any) -> None:
    page = tmp_path / "picture.html"
    page.write_text("an older one")
    result = run(index, "Seed", "--html", str(page), "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["total"] == 1
    assert str(page) in result.stderr
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert run(index, "Seed", "--html", str(page)).stdout == ""


def test_no_page_is_written_over_a_note_or_where_nothing_can_be(index: SearchBench, tmp_path: Any) -> None:
    note = tmp_path / "Note.md"
    note.write_text("mine")
    result = run(index, "Seed", "--html", str(note))
    assert (result.exit_code, note.read_text()) == (2, "mine")
    assert "Name a file that ends in .html" in result.stderr
    missing = run(index, "Seed", "--html", str(tmp_path / "none" / "x.html"))
    assert missing.exit_code == 2
    assert "cannot be written: No such file" in missing.stderr
    unknown = run(index, "Nothing", "--html", str(tmp_path / "x.html"))
    assert unknown.exit_code == 2
    assert not (tmp_path / "x.html").exists()
