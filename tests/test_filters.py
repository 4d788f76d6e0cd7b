"""Filters: folder, tag, property, days; and never an empty answer because a filter came too late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from search_bench import SearchBench, open_search_bench

from obsidian_rag.search import vector as vector_module
from obsidian_rag.search.vector import READ_WHOLE, keep_best, search_chunks

MANY = 700  # notes, all nearer to the query than those that a filter leaves
NOTES = {
    **{f"Crowd/n{n}": "Notes about the pump and the heat of the pump.\n" for n in range(MANY)},
    "Rare/one": "---\ntags: [Home/Garden]\nstatus: Done\ndate: 2024-05-01\n---\nQuite another subject.\n",
    "Rare/two": "---\ntags: [home]\nstatus: [open, Urgent]\ndate: 2024-06-01\n---\nSomething else again.\n",
    "Rare/deep/three": "---\nprio: 3\nflag: true\ndate: 2024-07-01\n---\nBeans. #homestead\n",
    "Rarest": "---\ndate: 2024-07-02\n---\nNothing of the kind.\n",
}
RARE = ["Rare/deep/three", "Rare/one", "Rare/two"]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, server: str, migrated: str) -> Iterator[SearchBench]:
    folder = tmp_path_factory.mktemp("filters")
    with open_search_bench(folder, server, migrated, NOTES, fts_config="english") as bench:
        yield bench


@pytest.mark.parametrize(
    ("filters", "notes"),
    [
        ({"folder": "Rare"}, RARE),
        ({"folder": "/rare/"}, RARE),
        ({"folder": "Rare/deep"}, ["Rare/deep/three"]),
        ({"tags": ["home"]}, ["Rare/one", "Rare/two"]),
        ({"tags": ["#Home/Garden"]}, ["Rare/one"]),
        ({"tags": ["homestead"]}, ["Rare/deep/three"]),
        ({"properties": ["status=done"]}, ["Rare/one"]),
        ({"properties": ["STATUS=urgent"]}, ["Rare/two"]),
        ({"properties": ["prio=3", "flag=true"]}, ["Rare/deep/three"]),
        ({"folder": "Rare", "after": "2024-06-01"}, ["Rare/deep/three", "Rare/two"]),
        ({"folder": "Rare", "before": "2024-05-01"}, ["Rare/one"]),
        ({"after": "2024-05-02", "before": "2024-06-30"}, ["Rare/two"]),
        ({"folder": "Rare", "tags": ["home"], "properties": ["status=open"]}, ["Rare/two"]),
    ],
)
@pytest.mark.parametrize("mode", ["hybrid", "vector"])
def test_only_notes_that_pass_all_filters_answer_and_each_of_them_can(
    index: SearchBench, filters: dict[str, Any], notes: list[str], mode: str
) -> None:
    assert sorted(index.found("heat of the pump", mode=mode, **filters)) == notes


def test_words_are_filtered_as_well(index: SearchBench) -> None:
    assert index.found("beans pump", mode="keyword", folder="Rare") == ["Rare/deep/three"]


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        ({"folder": "Rar"}, 'none is in the folder "Rar" (did you mean Rare?)'),
        ({"folder": "deep"}, 'none is in the folder "deep" (did you mean Rare/deep?)'),
        ({"folder": "Rare/dep"}, 'none is in the folder "Rare/dep" (did you mean Rare/deep?)'),
        ({"folder": "Quarry"}, 'none is in the folder "Quarry" (list_topics names'),
        ({"tags": ["gard"]}, "none has the tag #gard (did you mean #Home/Garden?)"),
        ({"tags": ["#hoem"]}, "none has the tag #hoem (did you mean #Home?)"),
        ({"properties": ["status=do"]}, "none has the property status=do (did you mean Done?)"),
        ({"properties": ["status=x"]}, "none has the property status=x (status is Done, Urgent, open)"),
        ({"properties": ["stauts=done"]}, "none has a property stauts (did you mean status?)"),
        ({"before": "1990-01-01"}, "none is of a day before 1990-01-01 (the notes are of 2024-05-01 to "),
        ({"after": "2024-05-03", "before": "2024-05-09"}, "of a day after 2024-05-03 before 2024-05-09 ("),
        (
            {"folder": "Rar", "tags": ["gard", "home"]},
            'none is in the folder "Rar" (did you mean Rare?); none has the tag #gard (did',
        ),
    ],
)
def test_a_filter_that_matches_nothing_is_named_with_what_is_near(
    index: SearchBench, filters: dict[str, Any], told: str
) -> None:
    answer = index.ask("heat of the pump", **filters)
    assert answer.results == ()
    assert answer.notices[0].startswith("No note passes the filters: none ")
    assert told in answer.notices[0]


def test_filters_that_only_together_match_nothing_are_said_to(index: SearchBench) -> None:
    filters = {"folder": "Rare", "tags": ["home"], "properties": ["prio=3"], "after": "2024-05-01"}
    (told,) = index.ask("pump", **filters).notices
    assert told.startswith("No note passes all the filters together, though each matches some: ")
    assert 'folder "Rare" (3), tag #home (2), property prio=3 (1), after 2024-05-01 (' in told


def test_filters_that_leave_notes_are_not_blamed_for_words_that_none_holds(index: SearchBench) -> None:
    told = index.ask("xyzzy", mode="keyword", folder="Rare").notices
    assert (
        "No note that passes the filters holds any of these words. Try mode=hybrid, or other words." in told
    )


@pytest.mark.parametrize("read_whole", [READ_WHOLE, 0])
def test_a_scan_of_the_graph_goes_on_until_enough_notes_pass(
    index: SearchBench, monkeypatch: pytest.MonkeyPatch, read_whole: int
) -> None:
    """Where few notes pass they are read whole; the scan that serves many must not come back empty either."""
    monkeypatch.setattr(vector_module, "READ_WHOLE", read_whole)
    allowed = [row[0] for row in index.bench.rows("SELECT id FROM notes WHERE file_path LIKE 'Rare%'")]
    vector = index.reader.embed_query("the heat of the pump")

    hits = index.run(lambda conn: keep_best(search_chunks(conn, vector, 20, allowed)))

    assert sorted(hit.file_path for hit in hits) == [
        "Rare/deep/three.md",
        "Rare/one.md",
        "Rare/two.md",
        "Rarest.md",
    ]
    assert [hit.cosine for hit in hits] == sorted((hit.cosine for hit in hits), reverse=True)
