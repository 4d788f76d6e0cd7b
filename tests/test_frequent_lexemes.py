"""Searches for words that very many chunks hold."""

from __future__ import annotations

import random

import pytest
from conftest import Workbench

from obsidian_rag import frequent_lexemes
from obsidian_rag.search import candidates

WORDS = ["pump", "valve", "garden", "river", "engine", "cloud", "letter", "window"]
QUERIES = ["pump", "pump valve", "the garden pump by the river", "engine note7", "pump valve letter window"]


@pytest.fixture
def busy(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    """A vault in which a few words stand nearly everywhere, and bounds that such a small one reaches."""
    monkeypatch.setattr(frequent_lexemes, "FREQUENT", 5)
    monkeypatch.setattr(candidates, "MOST_POSTINGS", 10)
    chance = random.Random(1)
    for number in range(40):
        text = " ".join(chance.choices(WORDS, weights=range(8, 0, -1), k=chance.randint(5, 60)))
        bench.vault.write(f"Note {number}.md", f"note{number} {text}\n")
    bench.index()
    return bench


def answers(bench: Workbench, query: str) -> list[tuple[str, float]]:
    return [(hit.file_path, hit.score) for hit in bench.search(query, "keyword", 50).results]


def count_frequent(bench: Workbench) -> int:
    return int(bench.rows("SELECT count(*) FROM frequent_lexemes")[0][0])


@pytest.mark.parametrize("query", QUERIES)
def test_a_word_that_stands_everywhere_is_ranked_as_if_all_its_postings_were_read(
    busy: Workbench, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert count_frequent(busy) >= 4
    found = answers(busy, query)
    monkeypatch.setattr(candidates, "MOST_POSTINGS", 10**9)
    expected = answers(busy, query)
    assert [path for path, _ in found] == [path for path, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected])


def test_a_note_written_since_they_were_counted_is_found_by_frequent_words_alone(
    busy: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frequent_lexemes, "CHAMPIONS", 3)
    busy.index(full=True)
    monkeypatch.setattr(frequent_lexemes, "MOST_CHANGE", 0.5)
    counted = busy.rows("SELECT counted_chunks FROM index_settings")
    busy.vault.write("New.md", "pump pump valve\n")
    busy.vault.write("Note 3.md", "valve valve valve pump\n")
    busy.index()
    assert busy.rows("SELECT counted_chunks FROM index_settings") == counted
    assert {"New.md", "Note 3.md"} <= {path for path, _ in answers(busy, "pump valve")}


def test_only_the_best_notes_of_a_frequent_word_and_those_of_rarer_words_are_scored(
    busy: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frequent_lexemes, "CHAMPIONS", 3)
    busy.vault.write("Long.md", "pump and much else: " + "cloud " * 60 + "\n")
    busy.index(full=True)
    found = [path for path, _ in answers(busy, "pump")]
    assert 0 < len(found) <= 3
    assert answers(busy, "pump note7")[0][0] == "Note 7.md"


def test_they_are_counted_anew_once_the_index_has_changed_by_more_than_a_few_percent(busy: Workbench) -> None:
    chunks = busy.rows("SELECT counted_chunks, fresh_notes FROM index_settings")
    for number in range(10):
        busy.vault.write(f"More {number}.md", "harbour harbour\n")
    busy.index()
    assert busy.rows("SELECT counted_chunks, fresh_notes FROM index_settings") == [(chunks[0][0] + 10, [])]
    assert busy.rows("SELECT chunks, notes FROM frequent_lexemes WHERE lexeme = 'harbour'") == [(10, 10)]


def test_a_deleted_note_among_the_best_is_no_answer(busy: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frequent_lexemes, "MOST_CHANGE", 0.5)
    best = answers(busy, "pump")[0][0]
    busy.vault.delete(best)
    busy.index()
    assert best not in [path for path, _ in answers(busy, "pump")]


def test_an_index_of_few_chunks_counts_none(bench: Workbench) -> None:
    bench.vault.write("A.md", "pump\n")
    bench.index()
    assert count_frequent(bench) == 0
    assert bench.found("pump", "keyword") == ["A.md"]


def test_a_word_whose_best_notes_are_deleted_is_counted_anew(
    busy: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frequent_lexemes, "CHAMPIONS", 2)
    busy.index(full=True)
    monkeypatch.setattr(frequent_lexemes, "MOST_CHANGE", 0.5)
    for (path,) in busy.rows(
        "SELECT file_path FROM notes WHERE id = ANY(SELECT unnest(champions) FROM frequent_lexemes"
        " WHERE lexeme = 'pump')"
    ):
        busy.vault.delete(path)
    busy.index()
    assert len(answers(busy, "pump")) >= 2


def test_one_note_of_many_chunks_does_not_take_all_places(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frequent_lexemes, "FREQUENT", 5)
    monkeypatch.setattr(frequent_lexemes, "CHAMPIONS", 5)
    monkeypatch.setattr(candidates, "MOST_POSTINGS", 10)
    sections = "".join(f"## Day {day}\n\nAbout the pump.\n\n" for day in range(30))
    bench.vault.write("Pump log.md", sections)
    for number in range(12):
        bench.vault.write(f"Note {number}.md", f"The pump of house {number}.\n")
    bench.index()
    assert len(answers(bench, "pump")) >= 5


def test_an_index_that_shrinks_below_the_bound_forgets_what_was_counted(busy: Workbench) -> None:
    assert count_frequent(busy) > 0
    for number in range(4, 40):
        busy.vault.delete(f"Note {number}.md")
    for number in range(4):
        busy.vault.write(f"Note {number}.md", "pump\n")
    busy.index(allow_mass_delete=True)
    assert count_frequent(busy) == 0
    assert {path for path, _ in answers(busy, "pump")} == {f"Note {number}.md" for number in range(4)}


def test_a_rare_form_of_a_frequent_word_is_found_all_the_same(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frequent_lexemes, "FREQUENT", 5)
    monkeypatch.setattr(frequent_lexemes, "CHAMPIONS", 2)
    monkeypatch.setattr(candidates, "MOST_POSTINGS", 3)
    english = "The universities and the people of the town have a long history together, and it is told here"
    for number in range(12):
        bench.vault.write(f"English {number}.md", f"{english}, {number} times. {'university ' * number}\n")
    bench.vault.write(
        "Deutsch.md",
        "Die Geschichte der Stadt und ihrer Menschen ist lang und wird hier an der University erzählt.\n",
    )
    bench.index()
    assert "Deutsch.md" in [path for path, _ in answers(bench, "university")]


def test_the_counts_give_way_while_somebody_reads_them(busy: Workbench) -> None:
    import psycopg

    with psycopg.connect(busy.database_url) as reader:
        reader.execute("SELECT count(*) FROM frequent_lexemes")
        assert busy.index(full=True).status == "ok"
