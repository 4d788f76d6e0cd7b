"""Questions that the links of notes answer, from the question to the answer on a real index."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from checkout import ROOT
from click.testing import CliRunner
from conftest import VaultFolder, Workbench
from dig_vault import DIG, ESSAY, flatten
from fastmcp import Client
from search_bench import SearchBench, open_search_bench

from obsidian_rag import schemas
from obsidian_rag.cli import cli
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.mcp_tools import make_server
from obsidian_rag.models import Hit
from obsidian_rag.render import render_answer
from obsidian_rag.search.links import MOST_EDGES, Walker
from obsidian_rag.search.phrases import list_seeds
from obsidian_rag.search.pipeline import Answer, search
from obsidian_rag.search.query import make_request

FOUNDED = "Who invested in the company that Ilse Brandt founded?"
THREE_HOPS = "Which meetings were attended by people who work at the company founded by Ilse Brandt?"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, server: str, migrated: str) -> Iterator[SearchBench]:
    with open_search_bench(tmp_path_factory.mktemp("dig"), server, migrated, DIG) as bench:
        yield bench


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory, server: str, migrated: str) -> Iterator[SearchBench]:
    with open_search_bench(tmp_path_factory.mktemp("flat"), server, migrated, flatten(DIG)) as bench:
        yield bench


def linked(answer: Answer) -> list[str]:
    """The notes that links brought, in the order of links, by name."""
    hits = [hit for hit in answer.results if "links" in hit.ranks]
    return [hit.title for hit in sorted(hits, key=lambda hit: hit.ranks["links"])]


def first(answer: Answer) -> Hit:
    return answer.results[0]


def show_way(hit: Hit) -> list[tuple[str, str, str | None, str]]:
    return [
        (_name(step.from_path), step.direction, step.relation, _name(step.to_path)) for step in hit.linked_by
    ]


def _name(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".md")


def write_days(bench: Workbench) -> None:
    """Notes about nothing: among very few notes no word is rare enough to be a name."""
    for number in range(9):
        bench.vault.write(f"Log/{number}.md", f"Day {number}.\n")


@pytest.mark.parametrize(
    ("query", "notes"),
    [
        ("Who founded Fenland Digs?", ["Ilse Brandt"]),
        ("Which companies did Ilse Brandt start?", ["Fenland Digs"]),  # the other direction
        ("Trowel's company", ["Fenland Digs"]),  # an alias, and no word for it but the kind
        ("Peat Lens investors", ["Petra Quill", "Teodor Vasko"]),
        ("who advises Fenland Digs", ["Osric Bell"]),
        ("Which meetings had Osric Bell in them?", ["2024-03-02 Trench briefing"]),
        ("Who was there at the Trench briefing?", ["Maren Okafor", "Osric Bell"]),
        (FOUNDED, ["Teodor Vasko"]),
        ("Who was at the meetings about Stratigraphy?", ["Maren Okafor", "Osric Bell"]),
        ("Who co-invested with Petra Quill?", ["Teodor Vasko"]),
        (THREE_HOPS, ["2024-03-02 Trench briefing"]),
        ("What ideas came up in meetings with people who advise Fenland Digs?", ["Stratigraphy"]),
    ],
)
def test_the_notes_that_the_links_say_come_first(index: SearchBench, query: str, notes: list[str]) -> None:
    answer = index.ask(query)
    found = [hit.title for hit in answer.results if not hit.neighbor and hit.evidence != "same_note"]
    assert sorted(found[: len(notes)]) == notes
    assert sorted(linked(answer)[: len(notes)]) == notes
    assert {hit.evidence for hit in answer.results if hit.title in notes and hit.linked_by} == {"linked"}


def test_without_links_these_notes_do_not_come_first(index: SearchBench) -> None:
    """The vault is one on which words and vectors fail; else the test above would say little."""
    for query, note in ((FOUNDED, "Teodor Vasko"), (THREE_HOPS, "2024-03-02 Trench briefing")):
        answer = index.ask(query, without=["links"])
        assert first(answer).title != note
        assert linked(answer) == []
        assert all(hit.linked_by == () for hit in answer.results)


def test_every_hop_of_the_way_is_told_with_its_sentence(index: SearchBench) -> None:
    hit = first(index.ask(FOUNDED))
    assert show_way(hit) == [
        ("Ilse Brandt", "out", "founded", "Fenland Digs"),
        ("Fenland Digs", "in", "invested_in", "Teodor Vasko"),
    ]
    told = [(step.sentence, step.source_path, step.line) for step in hit.linked_by]
    assert told == [
        ("She founded Fenland Digs in 2011.", "People/Ilse Brandt.md", 4),
        ("Invested in Fenland Digs twice.", "People/Teodor Vasko.md", 1),
    ]


def test_two_notes_of_one_sentence_are_connected_by_what_it_says(index: SearchBench) -> None:
    """The sentence shown is the one of both, though another of the same note says as much of one of them."""
    hit = first(index.ask("Whom did Osric Bell introduce?"))
    assert hit.title == "Petra Quill"
    step = hit.linked_by[0]
    assert (step.direction, step.relation) == ("beside", "knows")
    assert step.sentence == "Osric Bell introduced Petra Quill to it."
    assert (step.source_path, step.line) == ("Journal/Rain.md", 1)


def test_a_note_that_is_not_written_yet_is_passed_and_never_an_answer(index: SearchBench) -> None:
    answer = index.ask("Who invested in the company that Sefa Lund founded?")
    assert first(answer).title == "Bram Otto"
    assert [step.to_path for step in first(answer).linked_by] == ["?mudlark works", "People/Bram Otto.md"]
    assert index.ask("Who founded Mudlark Works?").results[0].title == "Sefa Lund"
    for query in ("Mudlark Works", "Which companies did Sefa Lund start?"):
        assert not any("mudlark" in hit.file_path.lower() for hit in index.ask(query).results)


def test_a_link_that_says_what_is_asked_stands_before_others(index: SearchBench) -> None:
    """All are people linked with the firm; one by a link that says nothing, the others by another thing."""
    order = linked(index.ask("Who is an adviser of Fenland Digs?"))
    assert order[:2] == ["Osric Bell", "Gus Pike"]
    assert set(order[2:]) <= {"Ilse Brandt", "Maren Okafor", "Teodor Vasko"}


def test_links_that_are_far_weaker_than_the_best_do_not_answer_a_clear_question(index: SearchBench) -> None:
    order = linked(index.ask("Who founded Fenland Digs?"))
    assert order == ["Ilse Brandt", "Gus Pike"]


def test_a_way_does_not_come_back_to_a_note(index: SearchBench) -> None:
    """The investor of the one firm backs it and another; the question is not about the one."""
    answer = index.ask("Which companies did the investors of Ilse Brandt's company invest in?")
    assert first(answer).title == "Peat Lens"
    paths = [[step.to_path for step in hit.linked_by] for hit in answer.results]
    assert all(len(path) == len(set(path)) for path in paths)


def test_a_note_of_another_kind_than_asked_stands_behind(index: SearchBench) -> None:
    """An idea says as much of investing in the firm as the people do."""
    order = linked(index.ask("Who invested in Peat Lens?"))
    assert set(order[:2]) == {"Petra Quill", "Teodor Vasko"}
    assert "Pollen dating" in order[2:]


def test_where_the_question_is_not_clear_the_named_note_comes_first(index: SearchBench) -> None:
    answer = index.ask("Peat Lens in the wet season")
    assert linked(answer)[0] == first(answer).title == "Peat Lens"
    assert set(linked(answer)[1:]) == {"Hamid Rezai", "Petra Quill", "Teodor Vasko", "Pollen dating"}
    assert first(answer).linked_by == ()


def test_neighbours_of_an_unclear_question_stand_in_the_order_of_their_text(index: SearchBench) -> None:
    assert linked(index.ask("Peat Lens and bees in a shed"))[:2] == ["Peat Lens", "Hamid Rezai"]
    assert linked(index.ask("Peat Lens, also twice"))[:2] == ["Peat Lens", "Teodor Vasko"]


def test_without_kinds_the_named_note_comes_first_and_what_is_asked_next(flat: SearchBench) -> None:
    """Nothing tells what a note is: what the links say speaks for it alone."""
    assert linked(flat.ask("Who founded Fenland Digs?"))[:2] == ["Fenland Digs", "Ilse Brandt"]
    answer = flat.ask(FOUNDED)
    assert linked(answer)[:3] == ["Ilse Brandt", "Fenland Digs", "Teodor Vasko"]
    found = next(hit for hit in answer.results if hit.title == "Teodor Vasko")
    assert [step.relation for step in found.linked_by] == ["founded", "invested_in"]


@pytest.mark.parametrize("query", ["boots and a van", "who is stuck", "wet soil cameras", "layers in order"])
def test_a_question_that_names_nothing_is_not_answered_by_links(index: SearchBench, query: str) -> None:
    answer = index.ask(query)
    assert linked(answer) == []
    assert all(hit.linked_by == () for hit in answer.results)
    assert answer.to_json() == index.ask(query, without=["links"]).to_json()


def test_a_named_note_whose_links_lead_to_no_answer_is_left_to_its_words(index: SearchBench) -> None:
    """All that it links is not written yet; that it is named does not bring it forward by itself."""
    for filters in ({}, {"folder": "People"}):
        assert linked(index.ask("Sefa Lund in the wet season", **filters)) == []
    assert linked(index.ask("Causeway Fund and its boots", folder="Organisations")) == []


def test_an_exact_title_is_never_displaced(index: SearchBench) -> None:
    """Its words also ask for who invested in a firm, and who founded one."""
    for title in ("Causeway Fund investors", ESSAY):
        answer = index.ask(title)
        assert (first(answer).title, first(answer).evidence) == (title, "exact_title")
    assert first(index.ask("Trowel")).evidence == "alias"
    for title in ("Fenland Digs", "Pollen dating", "peat lens"):
        assert first(index.ask(title)).evidence == "exact_title"


def test_filters_restrict_the_answers_and_not_the_way(index: SearchBench) -> None:
    answer = index.ask(FOUNDED, folder="People")
    assert first(answer).title == "Teodor Vasko"
    assert show_way(first(answer))[0][3] == "Fenland Digs"
    elsewhere = index.ask(FOUNDED, folder="Journal")
    assert {Path(hit.file_path).parts[0] for hit in elsewhere.results} <= {"Journal"}
    assert linked(elsewhere) == []


def test_excludes_restrict_the_answers_and_not_the_way(index: SearchBench) -> None:
    settings = replace(index.bench.settings, search_excludes=("Organisations", "People/Petra Quill.md"))
    reader = IndexReader(settings, lambda text: None)
    try:
        assert first(search(reader, make_request(FOUNDED))).title == "Teodor Vasko"
        assert linked(search(reader, make_request("Who invested in Peat Lens?")))[0] == "Teodor Vasko"
        assert "Petra Quill" not in linked(search(reader, make_request("Who invested in Peat Lens?")))
    finally:
        reader.close()


def test_links_answer_up_to_the_limit(index: SearchBench) -> None:
    assert [hit.title for hit in index.ask("Who invested in Peat Lens?", limit=1).results if hit.ranks] == [
        linked(index.ask("Who invested in Peat Lens?"))[0]
    ]


@pytest.mark.parametrize("mode", ["keyword", "vector"])
def test_only_hybrid_uses_links(index: SearchBench, mode: str) -> None:
    assert linked(index.ask(FOUNDED, mode)) == []


def test_plain_rrf_does_not_use_links(index: SearchBench) -> None:
    reader = IndexReader(replace(index.bench.settings, search_fusion="rrf"), lambda text: None)
    try:
        answer = search(reader, make_request(FOUNDED))
    finally:
        reader.close()
    assert linked(answer) == []
    assert {name for hit in answer.results for name in hit.ranks} <= {"vector", "keyword"}


@pytest.mark.parametrize("query", [f'"sieves" {FOUNDED}', f"{FOUNDED} -twice"])
def test_quotes_and_exclusions_hold_for_what_links_bring(index: SearchBench, query: str) -> None:
    answer = index.ask(query)
    assert linked(answer) == []
    assert "Teodor Vasko" not in [hit.title for hit in answer.results]


def test_a_name_of_two_notes_is_walked_from_both(bench: Workbench) -> None:
    for path, text in {
        "People/Ann": "Founded [[Weir (mill)]].\n",
        "People/Bea": "Founded [[Weir (brewery)]].\n",
        "Organisations/Weir (mill)": "Flour.\n",
        "Organisations/Weir (brewery)": "Beer.\n",
    }.items():
        bench.vault.write(f"{path}.md", text)
    write_days(bench)
    bench.index()
    assert set(linked(bench.search("Who founded Weir?"))) == {"Ann", "Bea"}


def test_what_two_named_notes_have_in_common_comes_first(bench: Workbench) -> None:
    for path, text in {
        "Meetings/June walk": "Attendees: [[Ann Reed]], [[Bea Holt]]\n",
        "Meetings/April walk": "Attendees: [[Ann Reed]], [[Cy Moss]]\n\nDid Bea Holt attend meetings?\n",
        "Meetings/March walk": "Attendees: [[Bea Holt]], [[Cy Moss]]\n",
        **{f"People/{name}": "Walks.\n" for name in ("Ann Reed", "Bea Holt", "Cy Moss")},
    }.items():
        bench.vault.write(f"{path}.md", text)
    bench.index()
    query = "Which meetings did Ann Reed and Bea Holt attend?"
    answer = bench.search(query)
    assert first(answer).title == "June walk"
    assert first(answer).ranks["keyword"] > 1  # its text is not why


def test_a_property_says_what_its_key_says(bench: Workbench) -> None:
    bench.vault.write(
        "Organisations/Weir.md", '---\nfounder: "[[Ann Reed]]"\nadvisor: "[[Cy Moss]]"\n---\nFlour.\n'
    )
    bench.vault.write("People/Ann Reed.md", "Walks.\n")
    bench.vault.write("People/Cy Moss.md", "Walks.\n")
    write_days(bench)
    bench.index()
    answer = bench.search("Who started Weir?")
    assert first(answer).title == "Ann Reed"
    assert [(step.relation, step.sentence) for step in first(answer).linked_by] == [("founded", None)]


def test_words_of_a_persons_own_table_ask_for_links(bench: Workbench, tmp_path: Path) -> None:
    table = tmp_path / "relations.toml"
    table.write_text(
        '[relations.sieved]\nwords = ["sieved", "sieves"]\nbetween = [["person", "trench"]]\n'
        '[kinds.trench]\nwords = ["trench", "trenches"]\nplaces = ["trenches"]\n'
    )
    bench.vault.write("People/Ann Reed.md", "Sieved [[Trench B]] in the rain. Saw [[Trench C]].\n")
    bench.vault.write("Trenches/Trench B.md", "Bone.\n")
    bench.vault.write("Trenches/Trench C.md", "Flint.\n")
    bench.index({"link_relations": table})
    reader = IndexReader(replace(bench.settings, link_relations=table), lambda text: None)
    try:
        answer = search(reader, make_request("Which trenches were sieved by Ann Reed?"))
    finally:
        reader.close()
    assert linked(answer)[0] == "Trench B"
    assert first(answer).linked_by[0].relation == "sieved"


def test_a_hub_gives_what_is_asked_before_its_other_links(bench: Workbench) -> None:
    """It has more links than one hop loads, and the one that says what is asked is the last of them."""
    bench.vault.write("Organisations/Weir.md", "Flour.\n")
    bench.vault.write("People/Zoe Last.md", "Founded [[Weir]].\n")
    write_days(bench)
    bench.index()
    bench.execute(
        "INSERT INTO note_links (id, source_path, target_name, target_path, target_type, kind)"
        " SELECT -n, 'Crowd/n' || n || '.md', 'Weir', 'Organisations/Weir.md', 'note', 'wikilink'"
        " FROM generate_series(1, 5000) AS n"
    )
    reader = IndexReader(bench.settings, lambda text: None)
    try:
        edges = reader.run(
            lambda conn: Walker(conn, reader.table).load_edges(["Organisations/Weir.md"], ["founded"])
        )
    finally:
        reader.close()
    assert len(edges) == MOST_EDGES < 5000
    assert edges[0].end == "People/Zoe Last.md"
    assert linked(bench.search("Who founded Weir?")) == ["Zoe Last"]


def test_where_the_embedder_is_down_links_answer_still(bench: Workbench) -> None:
    for path, text in DIG.items():
        bench.vault.write(f"{path}.md", text)
    bench.index()
    bench.ollama.stop()
    answer = bench.search(FOUNDED)
    assert first(answer).title == "Teodor Vasko"
    assert any(notice.startswith("Answered by keywords only") for notice in answer.notices)


def test_the_embedder_is_asked_once_for_a_question_its_phrases_and_the_seeds(index: SearchBench) -> None:
    reader = IndexReader(index.bench.settings, lambda text: None)
    seeds = {seed for _, seed in list_seeds(reader.table)}

    def ask(query: str, without: frozenset[str] = frozenset()) -> list[list[str]]:
        """The texts of each request that a search makes."""
        index.bench.ollama.forget()
        search(reader, make_request(query, without=without))
        calls = index.bench.ollama.embed_calls
        return [[text.removeprefix("search_query: ") for text in call.inputs] for call in calls]

    try:
        open_first = ask("boots")  # opens the embedder, which probes it
        assert ["boots"] in open_first
        begun = [text for texts in ask("who bankrupted Fenland Digs yesterday") for text in texts]
        assert begun[0] == "who bankrupted Fenland Digs yesterday"
        assert set(begun[1:]) == {"bankrupted", "yesterday"} | seeds
        assert len(begun) == len(set(begun))
        again = ask("who soaked Peat Lens yesterday")
        assert again == [["who soaked Peat Lens yesterday", "soaked"]]  # the rest is remembered
        assert ask("who soaked Peat Lens yesterday") == []
        assert ask("who rented Peat Lens", frozenset({"phrases"})) == [["who rented Peat Lens"]]
        assert ask("who hired a punt", frozenset({"links"})) == [["who hired a punt"]]
    finally:
        reader.close()


def test_words_that_no_table_holds_ask_by_what_they_are_like(index: SearchBench) -> None:
    """`alma mater` is a phrase that the table compares with, and no word of it."""
    query = "Which institution is the alma mater of Ilse Brandt?"
    answer = index.ask(query)
    assert (first(answer).title, first(answer).linked_by[0].relation) == ("Silt College", "studied_at")
    without = index.ask(query, without=["phrases"])
    assert linked(without)[0] == "Ilse Brandt"  # not clear: the named note first


def test_an_answer_is_the_same_whatever_the_order_of_rows(index: SearchBench) -> None:
    queries = [FOUNDED, THREE_HOPS, "Who invested in Peat Lens?", "Peat Lens in the wet season"]
    before = [index.ask(query).to_json() for query in queries]
    index.bench.execute("UPDATE note_links SET updated_at = now() WHERE id % 2 = 0")
    index.bench.execute("UPDATE link_mentions SET line = line WHERE link_id % 3 = 0")
    index.bench.execute("UPDATE note_names SET name = name WHERE note_id % 2 = 1")
    assert [index.ask(query).to_json() for query in queries] == before


def test_the_chunks_beside_a_hit_do_not_repeat_its_way(index: SearchBench) -> None:
    results = [hit for hit in index.ask("Who invested in Peat Lens?").results if hit.title == "Petra Quill"]
    assert len(results) > 1
    assert results[0].linked_by
    assert all(hit.linked_by == () for hit in results[1:])


def test_the_way_is_in_the_json_of_the_command_and_of_the_tool(index: SearchBench) -> None:
    result = CliRunner().invoke(cli, ["search", FOUNDED, "--json"], env=index.bench.environment)
    assert result.exit_code == 0, result.output
    by_command = json.loads(result.stdout)

    async def call() -> Any:
        async with Client(make_server(index.bench.settings)) as client:
            return await client.call_tool("search_notes", {"query": FOUNDED})

    by_tool = asyncio.run(call()).structured_content
    for answer in (by_command, by_tool):
        jsonschema.validate(answer, schemas.SEARCH)
        assert answer["results"][0]["linked_by"][1] == {
            "from_path": "Organisations/Fenland Digs.md",
            "to_path": "People/Teodor Vasko.md",
            "direction": "in",
            "relation": "invested_in",
            "sentence": "Invested in Fenland Digs twice.",
            "source_path": "People/Teodor Vasko.md",
            "line": 1,
        }


def test_the_way_is_in_what_an_agent_reads(index: SearchBench) -> None:
    text = render_answer(index.ask(FOUNDED))
    assert (
        "People/Ilse Brandt.md – founded → Organisations/Fenland Digs.md"
        ' "She founded Fenland Digs in 2011."\n'
        "Organisations/Fenland Digs.md ← invested_in – People/Teodor Vasko.md"
        ' "Invested in Fenland Digs twice."\n'
    ) in text


def test_an_index_without_sentences_is_walked_untyped(
    vault: VaultFolder, new_bench: Callable[[VaultFolder], Workbench]
) -> None:
    """As one is that a newer program reads before the next run of the indexer."""
    bench = new_bench(vault)
    for path, text in DIG.items():
        bench.vault.write(f"{path}.md", text)
    bench.index()
    bench.execute("DELETE FROM link_mentions")
    answer = bench.search("Who founded Fenland Digs?")
    assert "Ilse Brandt" in linked(answer)
    step = next(hit for hit in answer.results if hit.title == "Ilse Brandt").linked_by[0]
    assert (step.relation, step.sentence, step.source_path) == (None, None, "People/Ilse Brandt.md")


def test_the_readme_shows_what_the_example_vault_answers(bench: Workbench) -> None:
    block = next(part for part in (ROOT / "README.md").read_text("utf-8").split("```") if "(linked;" in part)
    query, shown = re.search(r'search_notes\("(.*)", limit=1\)\n\n(.*)', block, re.DOTALL).groups()  # type: ignore[union-attr]
    shutil.copytree(ROOT / "examples" / "vault", bench.vault.root, dirs_exist_ok=True)
    bench.index()

    text = render_answer(bench.search(query, limit=1))

    lines = [line for line in shown.splitlines() if line.startswith(("## 1.", "Projects/", "Meetings/"))]
    assert len(lines) == 3
    assert all(f"\n{line}\n" in text for line in lines)
