"""Names: a query that is one, or part of one, or one with a slip, finds its note first and says why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from search_bench import SearchBench, open_search_bench

from obsidian_rag.search.names import search_names, search_similar_names

NOTES = {
    "Projects/Rotella Plan": "---\naliases: [mind game, MG]\n---\nBreathe before each stroke.\n",
    "Projects/Kitchen renovation budget": "Tiles and taps.\n\n## Worktop choices\n\nOak or stone.\n",
    "People/Ann Müller": "---\naliases: [Anni]\n---\nShe has the keys.\n",
    "GitHub": "Where the code lives.\n",
    "MeetingNotes": "A template.\n",
    "Café list": "Good places.\n",
    "日本語の勉強": "毎日すこしずつ。\n",
    "2024-03-05": "Rain all day.\n",
    "The Who": "A band.\n",
    "C++": "A language.\n",
    "Place Template": "Name, town.\n",
    "Place Type Template": "Kinds of places.\n",
    "Long text": "The rotella plan, the kitchen renovation budget and Ann Müller are all named here, and so"
    " is the mind game; github and the worktop choices come up as well. Place, type, template.\n" * 4,
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, server: str, migrated: str) -> Iterator[SearchBench]:
    with open_search_bench(tmp_path_factory.mktemp("names"), server, migrated, NOTES) as bench:
        yield bench


@pytest.mark.parametrize(
    ("query", "note", "evidence"),
    [
        ("Rotella Plan", "Projects/Rotella Plan", "exact_title"),
        ("rotella plan", "Projects/Rotella Plan", "exact_title"),
        ("ROTELLA PLAN?", "Projects/Rotella Plan", "exact_title"),
        ("rotella-plan", "Projects/Rotella Plan", "exact_title"),
        ('"Rotella Plan"', "Projects/Rotella Plan", "exact_title"),
        ("ann muller", "People/Ann Müller", "exact_title"),
        ("Ann Mu\u0308ller", "People/Ann Müller", "exact_title"),
        ("cafe list", "Café list", "exact_title"),
        ("github", "GitHub", "exact_title"),
        ("Git Hub", "GitHub", "exact_title"),
        ("meeting notes", "MeetingNotes", "exact_title"),
        ("meetingnotes", "MeetingNotes", "exact_title"),
        ("日本語の勉強", "日本語の勉強", "exact_title"),
        ("2024-03-05", "2024-03-05", "exact_title"),
        ("the who", "The Who", "exact_title"),
        ("mind game", "Projects/Rotella Plan", "alias"),
        ("mg", "Projects/Rotella Plan", "alias"),
        ("anni", "People/Ann Müller", "alias"),
        ("worktop choices", "Projects/Kitchen renovation budget", "heading"),
        ("kitchen renovation", "Projects/Kitchen renovation budget", "title_phrase"),
        ("renovation budget", "Projects/Kitchen renovation budget", "title_phrase"),
        ("rotela plan", "Projects/Rotella Plan", "fuzzy_title"),
        ("Rotlela Plan", "Projects/Rotella Plan", "fuzzy_title"),
        ("kitchen renovatoin budget", "Projects/Kitchen renovation budget", "fuzzy_title"),
        ("Place Templatte", "Place Template", "fuzzy_title"),
        ("place tipe templatte", "Place Type Template", "fuzzy_title"),
    ],
)
def test_a_name_finds_its_note_first_and_says_why(
    index: SearchBench, query: str, note: str, evidence: str
) -> None:
    first = index.ask(query).results[0]
    assert (first.file_path, first.evidence) == (f"{note}.md", evidence)
    assert first.ranks["names"] == 1


@pytest.mark.parametrize(
    ("query", "safety"),
    [("rotella plan", "exists"), ("mind game", "exists"), ("kitchen renovation", "probable")],
)
def test_a_name_tells_that_a_note_exists(index: SearchBench, query: str, safety: str) -> None:
    assert index.ask(query).create_safety == safety


@pytest.mark.parametrize(
    "query", ["rotella", "budget", "the plan", "a", "…", "breathe before each stroke", "plan rotella"]
)
def test_one_common_word_or_a_text_names_nothing(index: SearchBench, query: str) -> None:
    assert index.retrieve(query).names == []


def test_an_alias_leads_to_its_note_though_no_word_is_shared(index: SearchBench) -> None:
    assert index.found("mind game", mode="keyword")[0] == "Projects/Rotella Plan"
    assert index.ask("mind game").intent == "entity"


def test_a_slip_is_forgiven_only_where_exact_matching_has_nothing(index: SearchBench) -> None:
    names = index.retrieve("place type template").names
    assert [(hit.file_path, hit.match) for hit in names] == [("Place Type Template.md", "exact_title")]
    assert index.retrieve("stone taps").names == []


def test_a_word_like_no_name_is_no_slip(index: SearchBench) -> None:
    assert index.run(lambda conn: search_similar_names(conn, "xqzwvk plan", ["xqzwvk"], 10)) == []
    assert index.run(lambda conn: search_similar_names(conn, "", [], 10)) == []


def test_names_stay_within_what_is_allowed(index: SearchBench) -> None:
    assert index.run(lambda conn: search_names(conn, "rotella plan", 10, 2, allowed=[])) == []
    assert index.found("rotella plan", folder="People") == ["People/Ann Müller"]


def test_a_very_long_query_names_nothing(index: SearchBench) -> None:
    assert index.run(lambda conn: search_names(conn, "rotella plan " * 100, 10, 2)) == []


@pytest.mark.parametrize(
    "query",
    [
        "who serviced the boiler and what did the plon of rotela say",
        "budjet of the boiler service",
        "rotela boiler",
    ],
)
def test_one_word_with_a_slip_does_not_speak_for_a_whole_question(index: SearchBench, query: str) -> None:
    assert not [hit for hit in index.retrieve(query).names if hit.match == "fuzzy_title"]
