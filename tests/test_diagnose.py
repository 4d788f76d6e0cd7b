"""Why a note is not higher: facts, plain words, and what would help."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from dig_vault import DIG, ESSAY
from search_bench import SearchBench, open_search_bench

from obsidian_rag.cli import cli
from obsidian_rag.diagnose import diagnose_target
from obsidian_rag.diagnosis import Diagnosis, NamedUse, StepUse, render_diagnosis
from obsidian_rag.errors import QueryError
from obsidian_rag.search.fusion import rank_calibrated
from obsidian_rag.search.query import make_filters, make_request

NOTES = {
    "Pump": "---\naliases: [warm thing]\ntags: [heat]\n---\nThe pump feeds the floor with warm water.\n",
    "Deep": "# Deep\n\nNothing yet.\n\n## Warm\n\nWarm words.\n\n## Water\n\nWater only.\n",
    "Empty": "",
    "Garden/Beans": "Beans and tomatoes grow.\n",
    **{f"Crowd/n{n:02}": f"The pump feeds the floor with warm water, number {n}.\n" for n in range(40)},
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, server: str, migrated: str) -> Iterator[SearchBench]:
    folder = tmp_path_factory.mktemp("diagnose")
    with open_search_bench(folder, server, migrated, NOTES, fts_config="english") as bench:
        bench.bench.vault.write("New.md", "Not indexed yet.\n")
        bench.bench.vault.write(".obsidian/app.json", '{"userIgnoreFilters": ["Hidden/"]}')
        bench.bench.vault.write("Hidden/secret.md", "Left out.\n")
        yield bench


def diagnose(
    index: SearchBench, query: str, target: str, mode: str = "hybrid", limit: int = 5, **filters: Any
) -> Diagnosis:
    request = make_request(query, mode, limit, make_filters(**filters))
    return diagnose_target(index.reader, request, target, index.bench.settings.vaults)


def test_the_first_result_is_told_to_be_that(index: SearchBench) -> None:
    found = diagnose(index, "pump", "Pump")
    assert (found.target, found.rank, found.above) == ("Pump.md", 1, ())
    assert found.findings == ("It is the first result.",)
    assert found.retrievers["names"].detail == "exact_title: Pump"


def test_each_retriever_ranks_the_note_among_all_notes(index: SearchBench) -> None:
    found = diagnose(index, "warm floor water", "Garden/Beans.md")
    assert found.rank is None
    vector, keyword = found.retrievers["vector"], found.retrievers["keyword"]
    assert vector.rank is not None
    assert vector.rank > 15
    assert (vector.found, vector.fused) == (len(NOTES) - 1, False)
    assert vector.score is not None
    assert -1 <= vector.score < 0.6
    assert (keyword.rank, keyword.score, keyword.found) == (None, None, 42)
    assert any("No retriever has it among its first 15 notes" in text for text in found.findings)
    assert any(text.startswith("By nearness it is note") for text in found.findings)


def test_words_that_the_note_holds_and_lacks_are_told(index: SearchBench) -> None:
    found = diagnose(index, "tomatoes xyzzy floor", "Garden/Beans")
    assert [(use.word, use.in_note, use.in_chunk) for use in found.words] == [
        ("tomatoes", True, True),
        ("xyzzy", False, False),
        ("floor", False, False),
    ]
    assert [use.notes for use in found.words] == [1, 0, 41]
    lacking = next(
        text for text in diagnose(index, "grow warm floor xyzzy", "Beans").findings if "lacks" in text
    )
    assert "warm (in 42 other notes)" in lacking
    assert "xyzzy (in no note)" in lacking


def test_words_spread_over_a_note_are_told(index: SearchBench) -> None:
    found = diagnose(index, "warm water", "Deep")
    assert all(use.in_note for use in found.words)
    assert any("no single passage of it does" in text for text in found.findings)
    assert found.best_chunk is not None
    assert found.best_chunk["chunk_index"] > 0


def test_the_notes_above_are_named_with_their_reason(index: SearchBench) -> None:
    found = diagnose(index, "warm thing", "Crowd/n07")
    assert found.above[0].file_path == "Pump.md"
    assert found.above[0].because == "the query is its name (alias: warm thing)"
    assert [rival.rank for rival in found.above] == list(range(1, len(found.above) + 1))
    assert all(rival.score >= (found.score or 0) for rival in found.above)


def test_the_calibrated_score_is_the_one_that_the_search_ranks_by(index: SearchBench) -> None:
    """The diagnosis computes the sum itself: it must order notes as the fusion does."""
    query = "warm floor water number"
    order = rank_calibrated(index.retrieve(query))
    scores = [diagnose(index, query, path).retrievers["text"].score for path in order[:12]]
    assert None not in scores
    assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        ({"folder": "Garden"}, "it is not in the folder Garden"),
        ({"tags": ["cold"]}, "it has no tag cold"),
        ({"properties": ["status=done"]}, "its property status is not done"),
        ({"after": "2999-01-01"}, "its day is before 2999-01-01"),
        ({"before": "1999-01-01"}, "its day is after 1999-01-01"),
    ],
)
def test_a_filter_that_leaves_the_note_out_is_named(
    index: SearchBench, filters: dict[str, Any], reason: str
) -> None:
    found = diagnose(index, "pump", "Pump", tags=filters.pop("tags", ["heat"]), **filters)
    assert found.findings == (f"The filters leave it out: {reason}.",)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("New.md", "The file is in the vault but not in the index. Run: obsidian-rag index"),
        ("Hidden/secret.md", 'The vault\'s own setting "Excluded files" leaves it out.'),
        ("Garden/Bean.md", "No note 'Garden/Bean.md' in the index. Nearest paths: Garden/Beans.md"),
    ],
)
def test_a_note_that_is_not_in_the_index_is_a_finding(index: SearchBench, target: str, reason: str) -> None:
    found = diagnose(index, "pump", target)
    assert not found.indexed
    assert found.findings[0].startswith(reason)
    assert "It is not in the index." in render_diagnosis(found)


def test_a_note_that_failed_says_why(index: SearchBench) -> None:
    index.bench.execute(
        "INSERT INTO index_failures (run_id, file_path, stage, error)"
        " SELECT run_id, 'Broken.md', 'decode', 'not text' FROM last_run"
    )
    assert diagnose(index, "pump", "Broken.md").findings == (
        "The last run could not index Broken.md (decode): not text",
    )


def test_a_note_without_text_can_only_be_found_by_name(index: SearchBench) -> None:
    assert diagnose(index, "warm water", "Empty").findings == (
        "The note holds no text; only its name or an alias can find it.",
    )
    assert diagnose(index, "empty", "Empty").rank == 1


def test_quotes_that_leave_the_note_out_are_told(index: SearchBench) -> None:
    found = diagnose(index, '"warm water" floor', "Deep", mode="keyword")
    assert any("the quotes, OR or -words of the query leave it out" in text for text in found.findings)


def test_each_mode_tells_of_its_own_retrievers(index: SearchBench) -> None:
    assert set(diagnose(index, "pump", "Deep", mode="vector").retrievers) == {"vector"}
    assert set(diagnose(index, "pump", "Deep", mode="keyword").retrievers) == {"keyword", "names"}
    assert set(diagnose(index, "pump", "Deep").retrievers) == {"vector", "keyword", "text", "names"}


def test_a_path_that_is_none_is_an_error(index: SearchBench) -> None:
    with pytest.raises(QueryError):
        diagnose(index, "pump", " ")


def test_the_command_tells_it_in_words_and_as_one_document(index: SearchBench) -> None:
    def run(*arguments: str) -> str:
        result = CliRunner().invoke(cli, ["diagnose", *arguments], env=index.bench.environment)
        assert result.exit_code == 0, result.output
        return result.stdout

    text = run("warm", "water", "--target", "Deep")
    assert text.startswith("# Deep.md for: warm water\nPlace: ")
    assert all(part in text for part in ("keyword", "vector", "Best passage: chunk", "Above it:", "Why:\n- "))

    found = json.loads(run("warm water", "--target", "Deep", "--json", "--folder", "Garden"))
    assert found["findings"] == ["The filters leave it out: it is not in the folder Garden."]
    assert {"query", "target", "rank", "retrievers", "words", "best_chunk", "above", "g"} <= set(found)


@pytest.fixture(scope="module")
def dig(tmp_path_factory: pytest.TempPathFactory, server: str, migrated: str) -> Iterator[SearchBench]:
    with open_search_bench(tmp_path_factory.mktemp("dig"), server, migrated, DIG) as bench:
        yield bench


TWO_HOPS = "Who invested in the company that Ilse Brandt founded?"


def test_what_the_query_names_and_asks_of_it_is_told(dig: SearchBench) -> None:
    found = diagnose(dig, TWO_HOPS, "Petra Quill")
    assert found.named == (
        NamedUse(
            text="Ilse Brandt",
            notes={"People/Ilse Brandt.md": 1.0},
            steps=(StepUse({"founded": 1.0}, "organisation"), StepUse({"invested_in": 1.0}, "person")),
            kind="person",
            share=1.0,
            is_clear=True,
        ),
    )
    assert diagnose(dig, "boots and a van", "Mud").named == ()
    named = diagnose(dig, "the Mudlark Works in winter", "Bram Otto").named
    assert [use.notes for use in named] == [{"?mudlark works": 0.8}]  # not written yet


def test_the_way_to_each_note_is_told(dig: SearchBench) -> None:
    found = diagnose(dig, TWO_HOPS, "Petra Quill")
    above = found.above[0]
    assert above.file_path == "People/Teodor Vasko.md"
    assert [step.relation for step in above.linked_by] == ["founded", "invested_in"]
    assert above.because.endswith("links 1 against none")
    assert found.linked_by == ()
    own = diagnose(dig, TWO_HOPS, "Teodor Vasko")
    assert (own.rank, own.linked_by) == (1, above.linked_by)
    links = own.retrievers["links"]
    assert (links.rank, links.fused) == (1, True)


@pytest.mark.parametrize(
    ("query", "target", "reason"),
    [
        (TWO_HOPS, "Petra Quill", "and no link that it asks for leads from there to this note."),
        (TWO_HOPS, "Ilse Brandt", "The query names it, and asks for what is linked with it."),
        ("Who invested in Peat Lens?", "Hamid Rezai", "Links put it in place"),
        (
            "Peat Lens in winter",
            "Petra Quill",
            "It is linked with 'Peat Lens'; the query does not say clearly",
        ),
    ],
)
def test_what_links_say_of_a_note_is_a_finding(
    dig: SearchBench, query: str, target: str, reason: str
) -> None:
    findings = [text for text in diagnose(dig, query, target, limit=3).findings if reason in text]
    assert len(findings) == 1


def test_links_that_do_not_count_are_told_to_be_so(dig: SearchBench) -> None:
    """The query is a note's whole title: links have no say."""
    found = diagnose(dig, ESSAY, "Ilse Brandt", limit=3)
    assert found.named != ()
    assert (found.retrievers["links"].rank, found.retrievers["links"].fused) == (1, False)
    assert not any("place" in text and "Links" in text for text in found.findings)


def test_the_plan_and_the_ways_read_as_lines(dig: SearchBench) -> None:
    text = render_diagnosis(diagnose(dig, TWO_HOPS, "Petra Quill"))
    assert (
        '\nNames "Ilse Brandt" (People/Ilse Brandt.md 1.00): founded > organisation, invested_in > person;'
        " clear, 100% of the words\n"
    ) in text
    assert "\n     Organisations/Fenland Digs.md ← invested_in – People/Teodor Vasko.md" in text
    own = render_diagnosis(diagnose(dig, TWO_HOPS, "Teodor Vasko"))
    assert "\n  People/Ilse Brandt.md – founded → Organisations/Fenland Digs.md" in own
    unclear = render_diagnosis(diagnose(dig, "Peat Lens in winter", "Mud"))
    assert 'Names "Peat Lens" (Organisations/Peat Lens.md 1.00): nothing asked; not clear, 0%' in unclear
