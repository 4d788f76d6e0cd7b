"""Metrics, intervals, saved runs, and the command that measures."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from conftest import Workbench
from hypothesis import given
from hypothesis import strategies as st
from search_bench import SearchBench, open_search_bench

from obsidian_rag.cli import cli
from obsidian_rag.errors import EmbedderError, EmbedderUnavailable, QueryError
from obsidian_rag.evaluate import (
    METRICS,
    Question,
    estimate,
    evaluate_run,
    read_questions,
    read_run,
    save_run,
    score_ranking,
    score_run,
    search_all,
    summarize,
)
from obsidian_rag.search.facts import load_facts
from obsidian_rag.search.keyword import search_keywords
from obsidian_rag.search.query import BESIDE_PLAIN_RRF, STAGES, make_request

NOTES = {
    "Pump": "The pump feeds the floor with warm water.\n",
    "Garden": "Tomatoes and beans need water every day.\n",
    "Bread": "Flour and salt, baked hot.\n",
    "Parts": "# Sun\n\nWarm light.\n\n# Can\n\nHolds water.\n",
}
QUESTIONS = [
    {"id": "1", "query": "pump", "relevant": ["Pump.md"], "family": "word"},
    {"id": "2", "query": "what do tomatoes need", "relevant": ["Garden.md", "Pump.md"], "family": "question"},
    {"id": 3, "query": "bread", "relevant": ["Bread.md"], "family": "word"},
    {"id": "4", "query": "no right note", "relevant": []},
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, server: str, migrated: str) -> Iterator[SearchBench]:
    with open_search_bench(tmp_path_factory.mktemp("evaluate"), server, migrated, NOTES) as bench:
        yield bench


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    return write(tmp_path / "queries.jsonl", QUESTIONS)


def write(file: Path, rows: list[Any]) -> Path:
    file.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return file


def metrics(ranked: list[str], relevant: list[str]) -> dict[str, float]:
    return dict(zip(METRICS, score_ranking(ranked, relevant), strict=True))


def test_a_perfect_answer_scores_one_but_for_precision_over_five() -> None:
    assert metrics(["a", "b", "c"], ["a", "b"]) == pytest.approx(
        {"P@5": 0.4, "R@5": 1, "R@10": 1, "MRR@10": 1, "nDCG@5": 1, "nDCG@10": 1, "hit@1": 1}
    )


def test_the_metrics_are_those_of_the_textbooks() -> None:
    found = metrics(["x", "a", "y", "z", "u", "v", "b"], ["a", "b", "c"])
    ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert found == pytest.approx(
        {
            "P@5": 1 / 5,
            "R@5": 1 / 3,
            "R@10": 2 / 3,
            "MRR@10": 1 / 2,
            "nDCG@5": 1 / math.log2(3) / ideal,
            "nDCG@10": (1 / math.log2(3) + 1 / math.log2(8)) / ideal,
            "hit@1": 0,
        }
    )


def test_beyond_ten_nothing_counts_and_a_note_counts_once() -> None:
    assert set(metrics([*"bcdefghijk", "a"], ["a"]).values()) == {0.0}
    assert metrics(["x", "x", "a", "a"], ["a"])["MRR@10"] == 0.5
    assert set(metrics([], ["a"]).values()) == {0.0}


@given(
    st.lists(st.sampled_from("abcdefghijklmno"), max_size=15),
    st.lists(st.sampled_from("abcdefghijklmno"), min_size=1, max_size=15),
)
def test_every_metric_lies_between_none_and_all(ranked: list[str], relevant: list[str]) -> None:
    found = metrics(ranked, relevant)
    assert all(0 <= value <= 1 + 1e-9 for value in found.values())
    assert found["R@5"] <= found["R@10"]
    assert (found["hit@1"] == 1) == (bool(ranked) and ranked[0] in relevant)


def test_questions_are_grouped_by_family_and_all_come_last(queries: Path) -> None:
    questions = read_questions(queries)
    assert [question.id for question in questions] == ["1", "2", "3"]
    run = {"1": ["Pump.md"], "3": ["Pump.md", "Bread.md"]}
    groups = summarize(questions, score_run(questions, run))
    assert [(group.family, group.questions) for group in groups] == [("question", 1), ("word", 2), ("ALL", 3)]
    assert [group.metrics["MRR@10"].mean for group in groups] == [0.0, 0.75, 0.5]


def test_an_interval_holds_its_mean_is_the_same_each_time_and_narrows_with_more_questions() -> None:
    scores = np.random.default_rng(0).random((400, len(METRICS)))
    wide, narrow = estimate(scores[:40]), estimate(scores)
    assert estimate(scores) == narrow
    for name in METRICS:
        assert wide[name].low < wide[name].mean < wide[name].high
        assert narrow[name].high - narrow[name].low < wide[name].high - wide[name].low
    # Of 400 uniform numbers the mean is .5 with a standard error of .0144.
    assert narrow["P@5"].high - narrow["P@5"].low == pytest.approx(4 * 0.0144, rel=0.15)


def test_a_comparison_is_paired() -> None:
    questions = [Question(str(n), "q", ("a",), "f") for n in range(100)]
    better = {str(n): ["a"] if n % 2 else ["x", "a"] for n in range(100)}
    worse = {str(n): ["x", "a"] if n % 2 else ["x", "y", "a"] for n in range(100)}
    result = evaluate_run(questions, better, make_request("any"), other=worse)
    difference = result.comparison[-1].metrics["MRR@10"]
    assert difference.mean == pytest.approx((0.5 + 1 / 6) / 2, abs=1e-4)
    assert difference.low > 0
    same = evaluate_run(questions, better, make_request("any"), other=better)
    assert {(e.mean, e.low, e.high) for e in same.comparison[-1].metrics.values()} == {(0.0, 0.0, 0.0)}


def test_a_run_is_saved_as_it_can_be_read_again(tmp_path: Path) -> None:
    run = {"1": ["Größe.md", "b/c.md"], "2": []}
    save_run(tmp_path / "run.jsonl", run)
    assert read_run(tmp_path / "run.jsonl") == run
    rows = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text("utf-8").splitlines()]
    assert rows == [{"id": "1", "ranked": ["Größe.md", "b/c.md"]}, {"id": "2", "ranked": []}]
    with pytest.raises(QueryError, match=r"none/run.jsonl cannot be written"):
        save_run(tmp_path / "none" / "run.jsonl", run)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}\n", ":1 is no question"),
        ('{"id": "1", "query": "a", "relevant": ["a"]}\n[]\n', ":2 is no question"),
        ('\n{"id": "1", \n', ":2 is no JSON"),
        ('{"id": "1", "query": "a", "relevant": "a.md"}\n', ":1 is no question"),
        ('{"id": true, "query": "a", "relevant": ["a"]}\n', ":1 is no question"),
        ('{"id": "1", "query": "a", "relevant": ["a"]}\n' * 2, ":2: the id '1' is there twice"),
        ('{"id": "1", "query": "a", "relevant": []}\n', "no question with a right note"),
        ("", "no question with a right note"),
    ],
)
def test_a_file_that_holds_no_questions_is_an_error_with_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text(text)
    with pytest.raises(QueryError, match=message) as caught:
        read_questions(file)
    assert '"relevant"' in caught.value.mend or "own" in caught.value.mend or "JSON" in caught.value.mend


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="cannot be read: No such file"):
        read_questions(tmp_path / "none.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"id": "\xe9"}')
    with pytest.raises(QueryError, match="is not UTF-8"):
        read_run(tmp_path / "latin.jsonl")
    (tmp_path / "run.jsonl").write_text('{"id": "1"}\n')
    with pytest.raises(QueryError, match=r":1 is no row of a run.*--save"):
        read_run(tmp_path / "run.jsonl")


def test_a_run_holds_the_notes_of_each_answer_without_neighbours(index: SearchBench, queries: Path) -> None:
    run, seconds = search_all(index.reader, read_questions(queries), make_request("any", limit=2))
    assert [ranked[0] for ranked in run.values()] == ["Pump.md", "Garden.md", "Bread.md"]
    assert all(len(ranked) == len(set(ranked)) <= 2 for ranked in run.values())
    assert len(seconds) == 3


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_can_be_left_out(index: SearchBench, queries: Path, stage: str) -> None:
    template = make_request("any", without=frozenset({stage}))
    run, _ = search_all(index.reader, read_questions(queries), template)
    assert run["1"][0] == "Pump.md"


def test_leaving_out_a_stage_makes_a_difference(index: SearchBench) -> None:
    def ranks(*without: str) -> set[str]:
        return {name for hit in index.ask("pump", without=without).results for name in hit.ranks}

    assert ranks() == {"vector", "keyword", "names"}
    assert ranks("vector") == {"keyword", "names"}
    assert ranks("keyword", "names") == {"vector"}


def test_the_share_of_the_whole_note_can_be_left_out(index: SearchBench) -> None:
    def score(*without: str) -> float:
        found = index.run(
            lambda conn: search_keywords(conn, load_facts(conn), "warm water", 5, without=without)
        )
        return next(hit.score for hit in found.hits if hit.file_path == "Parts.md")

    assert score() > score("note")


def test_what_cannot_be_measured_is_an_error(index: SearchBench) -> None:
    template = make_request("any")
    with pytest.raises(
        QueryError, match=r"1 of the 2 right notes is not in the index: Gone.md.*Index the vault"
    ):
        search_all(index.reader, [Question("1", "pump", ("Pump.md", "Gone.md"), "-")], template)
    with pytest.raises(QueryError, match="Question '7' cannot be asked: The query is empty"):
        search_all(index.reader, [Question("7", " ", ("Pump.md",), "-")], template)


def test_figures_of_another_thing_are_never_given_for_those_asked(bench: Workbench, queries: Path) -> None:
    """Without its embedder a hybrid search answers by words; its measurement does not."""
    from obsidian_rag.index_reader import IndexReader

    for path, text in NOTES.items():
        bench.vault.write(f"{path}.md", text)
    bench.index()
    questions = read_questions(queries)
    reader = IndexReader(bench.settings, lambda text: None)
    try:
        bench.ollama.stop()
        with pytest.raises(EmbedderError):
            search_all(reader, questions, make_request("any"))
        run, _ = search_all(reader, questions, make_request("any", "keyword"))
        assert run["1"] == ["Pump.md"]
    finally:
        reader.close()


def test_an_embedder_that_goes_away_meanwhile_is_an_error_too(bench: Workbench, queries: Path) -> None:
    from obsidian_rag.index_reader import IndexReader

    for path, text in NOTES.items():
        bench.vault.write(f"{path}.md", text)
    bench.index()
    reader = IndexReader(bench.settings, lambda text: None)

    def stop(done: int) -> None:
        if done == 1:
            bench.ollama.stop()

    try:
        with pytest.raises(EmbedderUnavailable, match="Question '2' was answered without vectors"):
            search_all(reader, read_questions(queries), make_request("any"), stop)
    finally:
        reader.close()


def run_eval(index: SearchBench, *arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(cli, ["eval", *arguments], env=index.bench.environment | environment)


def test_the_command_prints_every_metric_by_family_with_latency(
    index: SearchBench, queries: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "run.jsonl"
    result = run_eval(index, "--queries", str(queries), "--save", str(saved))
    assert result.exit_code == 0, result.output
    assert all(name in result.stdout for name in (*METRICS, "question", "word", "ALL", "p50", "p95"))

    result = run_eval(
        index, "--queries", str(queries), "--json", "--compare", str(saved), "--mode", "keyword"
    )
    found = json.loads(result.stdout)
    assert (found["mode"], found["limit"], found["without"]) == ("keyword", 10, [])
    assert [group["family"] for group in found["groups"]] == ["question", "word", "ALL"]
    assert set(found["groups"][0]["metrics"]) == set(METRICS)
    assert found["comparison"][-1]["metrics"]["hit@1"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert 0 < found["latency_ms"]["p50"] <= found["latency_ms"]["p95"]


def test_two_saved_runs_are_compared_without_any_index(queries: Path, tmp_path: Path) -> None:
    better = write(tmp_path / "a.jsonl", [{"id": n, "ranked": ["Pump.md", "Bread.md"]} for n in "123"])
    worse = write(tmp_path / "b.jsonl", [{"id": n, "ranked": []} for n in "123"])
    arguments = ["eval", "--queries", str(queries), "--run", str(better), "--compare", str(worse)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert "difference, this run less the other" in result.stdout
    assert "latency" not in result.stdout


def test_plain_rrf_is_measured_by_the_setting(index: SearchBench, queries: Path) -> None:
    for arguments, environment in ((["--search-fusion", "rrf"], {}), ([], {"SEARCH_FUSION": "rrf"})):
        result = run_eval(index, "--queries", str(queries), "--json", *arguments, **environment)
        assert json.loads(result.stdout)["without"] == sorted(BESIDE_PLAIN_RRF)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--without", "magic"], "There is no stage 'magic'"),
        (["--mode", "magic"], "mode is 'magic'"),
        (["--limit", "99"], "limit is 99"),
        (["--compare", "nowhere.jsonl"], "nowhere.jsonl cannot be read"),
        (["--run", "nowhere.jsonl"], "nowhere.jsonl cannot be read"),
        (["--search-fusion", "magic"], "SEARCH_FUSION is 'magic'. Set it to one of calibrated, rrf"),
    ],
)
def test_what_the_command_cannot_do_it_says(
    index: SearchBench, queries: Path, arguments: list[str], message: str
) -> None:
    result = run_eval(index, "--queries", str(queries), "--json", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert json.loads(result.stdout)["status"] == "failed"
