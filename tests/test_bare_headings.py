"""A heading without text of its own: its note is shown with what stands below it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from search_bench import SearchBench, open_search_bench

from obsidian_rag.answers import render_answer
from obsidian_rag.models import Hit
from obsidian_rag.search.bare_headings import is_bare

NOTES = {
    "Boiler": (
        "# Boiler\n\n## Descaling\n\n### What it takes\n\nCitric acid and an hour.\n\n## Noise\n\nNone.\n"
    ),
    "Empty end": "Text before.\n\n# Zwieback\n",
    "Next is no part": "# Marzipan\n\n# Other\n\nNot about it.\n",
    **{f"Filler {n}": f"# Filler\n\n## Descaling\n\n### Step {n}\n\nRinse it {n} times.\n" for n in range(8)},
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, server: str, migrated: str) -> Iterator[SearchBench]:
    with open_search_bench(tmp_path_factory.mktemp("bare"), server, migrated, NOTES) as bench:
        yield bench


def best(index: SearchBench, query: str, path: str) -> Hit:
    hits = index.ask(query, "keyword").results
    return next(hit for hit in hits if hit.file_path == path and not hit.neighbor)


def test_the_text_below_a_heading_is_shown_in_its_place(index: SearchBench) -> None:
    hit = best(index, "boiler descaling", "Boiler.md")
    assert hit.heading_path == "Boiler > Descaling > What it takes"
    assert "Citric acid" in hit.content
    assert (hit.start_line, hit.end_line) == (5, 7)


def test_so_it_is_for_every_hit_and_no_chunk_beside_one_is_only_a_heading(index: SearchBench) -> None:
    answer = index.ask("descaling", "keyword")
    assert len({hit.file_path for hit in answer.results}) == 9
    assert "(only this heading)" not in render_answer(answer)
    places = [(hit.file_path, hit.chunk_index) for hit in answer.results]
    assert len(places) == len(set(places))


def test_the_order_is_that_of_the_headings(index: SearchBench) -> None:
    shown = [hit.file_path for hit in index.ask("descaling", "keyword").results if not hit.neighbor]
    ranks = [h.ranks["keyword"] for h in index.ask("descaling", "keyword").results if not h.neighbor]
    assert ranks == sorted(ranks) and len(shown) == len(ranks)


@pytest.mark.parametrize(
    ("query", "path"), [("zwieback", "Empty end.md"), ("marzipan", "Next is no part.md")]
)
def test_a_heading_with_nothing_below_it_is_shown_as_it_is(index: SearchBench, query: str, path: str) -> None:
    hit = best(index, query, path)
    assert hit.heading_path.lower() == query
    assert is_bare(hit.content, hit.heading_path)


@pytest.mark.parametrize(
    ("content", "bare"),
    [
        ("# A\n", True),
        ("\n## A ##\n\n", True),
        ("A\n===\n", True),
        ("# A\n\ntext", False),
        ("# A\n## B\n", False),
        ("text", False),
        ("", False),
        ("#tag\n", False),
    ],
)
def test_a_bare_heading_is_told_from_text(content: str, bare: bool) -> None:
    assert is_bare(content, "A") is bare
    assert not is_bare(content, "")
