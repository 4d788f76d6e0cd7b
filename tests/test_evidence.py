"""Evidence and create_safety: may an agent write a new note without making a duplicate?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from search_bench import SearchBench, open_search_bench

from obsidian_rag.models import Hit
from obsidian_rag.search.evidence import judge_creation

NOTES = {
    "Rotella Plan": "---\naliases: [mind game]\n---\n# Strokes\n\nBreathe before each stroke of the club.\n",
    "Heat pump": "The pump feeds the floor with warm water. It makes little noise at night.\n",
    "Bread": "Flour, water, salt and time. Fold it every hour, bake it hot.\n",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, server: str, migrated: str) -> Iterator[SearchBench]:
    with open_search_bench(tmp_path_factory.mktemp("evidence"), server, migrated, NOTES) as bench:
        yield bench


@pytest.mark.parametrize(
    ("query", "note", "evidence", "safety"),
    [
        ("rotella plan", "Rotella Plan", "exact_title", "exists"),
        ("mind game", "Rotella Plan", "alias", "exists"),
        ("strokes", "Rotella Plan", "heading", "probable"),
        ("noise at night", "Heat pump", "keyword_exact", "probable"),
    ],
)
def test_the_strongest_reason_is_told(
    index: SearchBench, query: str, note: str, evidence: str, safety: str
) -> None:
    answer = index.ask(query)
    assert (answer.results[0].file_path, answer.results[0].evidence) == (f"{note}.md", evidence)
    assert answer.create_safety == safety


def test_a_subject_that_the_vault_lacks_is_recognisable(index: SearchBench) -> None:
    answer = index.ask("xylograph quorum zephyr")
    assert answer.create_safety == "unknown"
    assert {hit.evidence for hit in answer.results if not hit.neighbor} <= {"weak_semantic"}
    assert any("may hold nothing on it" in notice for notice in answer.notices)
    assert any("Not found anywhere: xylograph, quorum, zephyr." in notice for notice in answer.notices)


def test_an_answer_that_is_one_does_not_say_that_it_is_none(index: SearchBench) -> None:
    for query in ("rotella plan", "mind game", "noise at night"):
        assert not any("may hold nothing" in notice for notice in index.ask(query).notices)


def test_words_alone_that_are_not_there_find_nothing(index: SearchBench) -> None:
    answer = index.ask("xylograph", mode="keyword")
    assert (answer.results, answer.create_safety) == ((), "unknown")
    assert any("No note holds any of these words" in notice for notice in answer.notices)


def test_without_a_hit_nothing_can_be_told() -> None:
    assert judge_creation([]) == "unknown"


@pytest.mark.parametrize(
    ("evidence", "safety"),
    [
        (["weak_semantic", "exact_title"], "exists"),
        (["keyword", "high_vector"], "probable"),
        (["keyword", "weak_semantic", "date", "fuzzy_title"], "unknown"),
    ],
)
def test_the_best_hit_decides(evidence: list[str], safety: str) -> None:
    hits = [Hit(f"{name}.md", name, "", 0, 1, 2, 0.1, "", evidence=name) for name in evidence]
    assert judge_creation(hits) == safety
