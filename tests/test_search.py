"""Search from request to answer: notes, chunks, neighbours, and what an answer says of itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import Workbench
from fastmcp import Client
from search_bench import SearchBench, open_search_bench

from obsidian_rag.cli import cli
from obsidian_rag.errors import EmbedderUnavailable
from obsidian_rag.mcp_tools import make_server

LONG = "".join(f"## Part {n}\n\nThis part is about subject{n} and nothing else.\n\n" for n in range(8))
NOTES = {
    "Long": LONG,
    "Garden/Beans": "---\ntags: [plant/bean]\nstatus: done\ndate: 2024-05-01\n---\nBeans climb up high.\n",
    "Garden/Peas": "---\ntags: [plant]\ndate: 2025-05-01\n---\nPeas climb up as well.\n",
    "Pump": "The pump feeds the floor with warm water.\n",
    "Twice": "# Climb\n\nBeans climb.\n\n# Climb again\n\nBeans climb and climb.\n",
    **{f"Filler/n{n}": f"Filler text about thing{n}.\n" for n in range(12)},
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, server: str, migrated: str) -> Iterator[SearchBench]:
    with open_search_bench(tmp_path_factory.mktemp("search"), server, migrated, NOTES) as bench:
        yield bench


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
def test_the_best_chunk_of_the_right_note_comes_first(index: SearchBench, mode: str) -> None:
    first = index.ask("the part about subject5", mode).results[0]
    assert (first.file_path, first.heading_path) == ("Long.md", "Part 5")
    assert "subject5" in first.content
    assert (first.start_line, first.end_line) == (21, 23)
    assert first.score > 0


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
def test_a_note_is_in_the_answer_once_and_its_further_passages_stand_under_it(
    index: SearchBench, mode: str
) -> None:
    results = [hit for hit in index.ask("beans climb", mode).results if not hit.neighbor]
    hits = [hit for hit in results if hit.evidence != "same_note"]
    assert len({hit.file_path for hit in hits}) == len(hits)
    assert "Twice.md" in {hit.file_path for hit in hits}
    order = list(dict.fromkeys(hit.file_path for hit in results))
    assert [hit.file_path for hit in hits] == order
    assert sorted(results, key=lambda hit: order.index(hit.file_path)) == results


def test_a_second_strong_passage_of_a_long_note_is_shown_under_it(index: SearchBench) -> None:
    results = [hit for hit in index.ask("subject2 subject6", "hybrid").results if not hit.neighbor]
    of_long = [hit for hit in results if hit.file_path == "Long.md"]
    assert {"Part 2", "Part 6"} <= {hit.heading_path for hit in of_long}
    assert [hit.evidence == "same_note" for hit in of_long] == [False] + [True] * (len(of_long) - 1)
    assert len({hit.score for hit in of_long}) == 1


@pytest.mark.parametrize("limit", [1, 3, 50])
def test_an_answer_holds_up_to_limit_notes(index: SearchBench, limit: int) -> None:
    results = index.ask("filler climb subject1", limit=limit).results
    hits = [hit for hit in results if not hit.neighbor and hit.evidence != "same_note"]
    assert len(hits) == min(limit, len(NOTES))
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_the_chunks_beside_a_hit_follow_it_scored_nothing_and_marked(index: SearchBench) -> None:
    results = index.ask("subject5", "keyword").results
    assert [(hit.heading_path, hit.neighbor) for hit in results] == [
        ("Part 5", False),
        ("Part 4", True),
        ("Part 6", True),
    ]
    for hit in results[1:]:
        assert (hit.score, hit.evidence, hit.ranks, hit.file_path) == (0.0, "neighbor", {}, "Long.md")


def test_the_first_and_last_chunk_have_one_neighbour(index: SearchBench) -> None:
    for subject, beside in (("subject0", ["Part 1"]), ("subject7", ["Part 6"])):
        results = index.ask(subject, "keyword").results
        assert [hit.heading_path for hit in results if hit.neighbor] == beside


def test_only_the_first_five_have_neighbours(bench: Workbench) -> None:
    for number in range(7):
        bench.vault.write(f"n{number}.md", "# A\n\nFirst.\n\n# B\n\nThe word quokka.\n\n# C\n\nLast.\n")
    bench.index()
    results = bench.search("quokka", "keyword").results
    hits = [hit.file_path for hit in results if not hit.neighbor]
    assert len(hits) == 7
    neighbors = [hit.file_path for hit in results if hit.neighbor]
    assert neighbors == [path for path in hits[:5] for _ in range(2)]


def test_a_stage_left_out_leaves_its_mark_out(index: SearchBench) -> None:
    assert not any(hit.neighbor for hit in index.ask("subject5", without=["neighbors"]).results)
    assert all("vector" not in hit.ranks for hit in index.ask("subject5", without=["vector"]).results)


def test_where_the_embedder_is_down_hybrid_answers_by_words_and_says_so(bench: Workbench) -> None:
    bench.vault.write("Pump.md", NOTES["Pump"])
    bench.index()
    bench.ollama.stop()

    answer = bench.search("warm water")

    assert [hit.file_path for hit in answer.results] == ["Pump.md"]
    assert any(n.startswith("Answered by keywords only, without the embedder: ") for n in answer.notices)
    assert bench.search("warm water", "keyword").notices == ()
    with pytest.raises(EmbedderUnavailable) as caught:
        bench.search("warm water", "vector")
    assert caught.value.mend


def test_an_empty_index_says_that_it_is(bench: Workbench) -> None:
    answer = bench.search("anything")
    assert answer.results == ()
    assert any("The index is empty. Run: obsidian-rag init" in notice for notice in answer.notices)


def test_a_note_without_text_is_found_by_its_name(bench: Workbench) -> None:
    bench.vault.write("Stub to fill.md", "")
    bench.index()
    for query in ("stub to fill", "Stub to fill"):
        first = bench.search(query, "keyword").results[0]
        assert (first.file_path, first.evidence, first.content) == ("Stub to fill.md", "exact_title", "")


def test_a_subject_that_is_not_there_is_recognisable(index: SearchBench) -> None:
    answer = index.ask("xylograph zephyr quorum")
    assert answer.create_safety == "unknown"
    assert any("The vault may hold nothing on it." in notice for notice in answer.notices)


def test_a_failed_run_and_a_stale_index_are_told(bench: Workbench) -> None:
    bench.vault.write("Pump.md", NOTES["Pump"])
    bench.index()
    assert bench.search("pump").notices == ()
    bench.execute("UPDATE index_runs SET finished_at = now() - interval '9 days'")
    assert any("The index is 9 days old. Run: obsidian-rag index" in n for n in bench.search("pump").notices)
    bench.execute("UPDATE index_runs SET status = 'failed', error = 'disk full'")
    assert any("last run of the indexer failed: disk full" in n for n in bench.search("pump").notices)


def test_the_intent_is_shown_and_can_be_overridden(index: SearchBench) -> None:
    assert index.ask("who climbs up").intent == "question"
    assert index.ask("garden of beans").intent == "general"
    assert index.ask("pump").intent == "entity"
    assert index.ask("pump", intent="general").intent == "general"


def test_an_answer_is_the_same_each_time(index: SearchBench) -> None:
    for query in ("climb up", "filler text", "part nothing"):
        assert index.ask(query).to_json() == index.ask(query).to_json()


def test_a_search_writes_nothing(index: SearchBench) -> None:
    before = index.bench.tables()
    index.ask("beans climb last week", folder="Garden")
    assert index.bench.tables() == before


FILTERED = [
    ({"folder": "Garden"}, {"Garden/Beans.md", "Garden/Peas.md"}),
    ({"tags": ["plant"]}, {"Garden/Beans.md", "Garden/Peas.md"}),
    ({"tags": ["plant", "#plant/bean"]}, {"Garden/Beans.md"}),
    ({"properties": ["status=done"]}, {"Garden/Beans.md"}),
    ({"folder": "Garden", "after": "2025-01-01"}, {"Garden/Peas.md"}),
    ({"folder": "Garden", "before": "2024-12-31"}, {"Garden/Beans.md"}),
]
FLAGS = {
    "folder": "--folder",
    "tags": "--tag",
    "properties": "--property",
    "after": "--after",
    "before": "--before",
}


@pytest.mark.parametrize(("filters", "notes"), FILTERED)
def test_the_command_takes_filters(index: SearchBench, filters: dict[str, Any], notes: set[str]) -> None:
    flags = [
        part
        for name, value in filters.items()
        for one in (value if isinstance(value, list) else [value])
        for part in (FLAGS[name], one)
    ]
    arguments = ["search", "climb up", "--json", "--intent", "general", *flags]
    result = CliRunner().invoke(cli, arguments, env=index.bench.environment)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert {hit["file_path"] for hit in found["results"]} == notes
    assert found["intent"] == "general"


@pytest.mark.parametrize(("filters", "notes"), FILTERED)
def test_the_tool_takes_filters(index: SearchBench, filters: dict[str, Any], notes: set[str]) -> None:
    result = call_tool(index, query="climb up", intent="general", **filters)
    assert not result.is_error
    assert {hit["file_path"] for hit in result.structured_content["results"]} == notes
    assert result.structured_content["intent"] == "general"


def call_tool(index: SearchBench, **arguments: Any) -> Any:
    async def ask() -> Any:
        async with Client(make_server(index.bench.settings)) as client:
            return await client.call_tool("search_notes", arguments, raise_on_error=False)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"after": "soon"}, "after is 'soon'. Write a day as year-month-day: 2025-09-30."),
        ({"properties": ["status"]}, "Write it as key=value"),
        ({"tags": "plant"}, "tags is 'plant'"),
        ({"intent": "guess"}, "intent is 'guess'"),
        ({"colour": "red"}, "colour is not one of its arguments"),
    ],
)
def test_a_filter_that_cannot_be_used_is_the_tools_error(
    index: SearchBench, filters: dict[str, Any], message: str
) -> None:
    result = call_tool(index, query="climb up", **filters)
    assert result.is_error
    assert message in result.content[0].text
    assert "Traceback" not in result.content[0].text


def test_a_filter_that_cannot_be_used_is_the_commands_error(index: SearchBench) -> None:
    for flags, message in (
        (["--after", "soon"], "after is 'soon'"),
        (["--property", "status"], "property is 'status'"),
        (["--tag", "#"], "tag is '#'"),
        (["--intent", "guess"], "intent is 'guess'"),
    ):
        result = CliRunner().invoke(cli, ["search", "climb", "--json", *flags], env=index.bench.environment)
        assert result.exit_code == 2
        assert message in result.stderr
        assert json.loads(result.stdout)["status"] == "failed"


def test_status_shows_what_words_and_vectors_are_weighed_by(index: SearchBench) -> None:
    result = CliRunner().invoke(cli, ["status"], env=index.bench.environment)
    assert f"Words:    {len(NOTES)} notes of " in result.stdout
    assert "Vectors:  how well they find the notes beside words is not measured yet" in result.stdout
    result = CliRunner().invoke(cli, ["status", "--json"], env=index.bench.environment)
    found = json.loads(result.stdout)
    assert found["keywords"]["notes"] == len(NOTES)
    assert found["languages"] == {"english": len(NOTES)}
    assert found["settings"]["fusion_g"] is None
