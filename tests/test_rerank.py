"""Reranking, through fastembed with a cross-encoder that the tests write, on a real index."""

from __future__ import annotations

import importlib.util
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import Workbench
from search_bench import SearchBench, local_today, open_search_bench

from obsidian_rag.cli import cli
from obsidian_rag.embedding import cross_encoder, weights
from obsidian_rag.embedding.cross_encoder import EXAMPLE, CrossEncoder
from obsidian_rag.errors import EmbedderError, EmbedderUnavailable, EmbeddingRejected, ModelMissing
from obsidian_rag.evaluate import Question, search_all
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.search.fusion import Fused
from obsidian_rag.search.query import make_request
from obsidian_rag.search.rerank import NOT_RERANKED, deepen, reorder

pytest.importorskip("fastembed", reason="the `rerank` extra is not installed")
from tiny_cross_encoder import WINDOW, Fault, write_cross_encoder

QUERY = "warm water for the valve"
OLD = "---\ndate: 2020-05-05\n---\n"
NOTES = {
    "Bath": "Warm water, warm water and more warm water.\n",
    "Tap": "Warm water from the tap.\n",
    "Circuit": "# Circuit\n\nNothing here.\n\n## Valve\n\nIt mixes warm and cold.\n",
    "Pressure": "The valve keeps the water from the boiler at one bar.\n",
    "Spanner": "A tool that turns.\n",
    "Workshop": "The spanner hangs beside the saw.\n",
    "Boiler": "---\naliases: [hot thing]\n---\nIt burns gas.\n",
    "Stove": "The hot thing in the kitchen is the stove.\n",
    "Empty": "",
    f"Journal/{local_today()}": "We spoke about heating.\n",
    "Warmth": f"{OLD}Heating: a radiator stands below the window.\n",
    **{f"Crowd/n{n:02}": f"{OLD}Rivers and lakes, page {n}.\n" for n in range(45)},
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, server: str, migrated: str) -> Iterator[SearchBench]:
    folder = tmp_path_factory.mktemp("rerank")
    with open_search_bench(folder, server, migrated, NOTES, fts_config="english") as bench:
        yield bench


@contextmanager
def reranked_by(index: SearchBench, model: Path | str) -> Iterator[SearchBench]:
    """The index with RERANK_MODEL set."""
    reader = IndexReader(replace(index.bench.settings, rerank_model=str(model)), lambda text: None)
    try:
        yield SearchBench(index.bench, reader)
    finally:
        reader.close()


@pytest.fixture
def model(tmp_path: Path) -> Callable[..., Path]:
    """Writes a cross-encoder that knows some words."""
    return lambda *words, **others: write_cross_encoder(tmp_path / "model", words, **others)


def ranks(bench: SearchBench, query: str, **others: Any) -> dict[str, int | None]:
    """The reranker's rank of each note of an answer, in the answer's order."""
    return {
        hit.file_path.removesuffix(".md"): hit.ranks.get("rerank")
        for hit in bench.ask(query, **others).results
        if hit.ranks
    }


def test_the_first_notes_are_ordered_by_what_the_model_reads(
    index: SearchBench, model: Callable[..., Path]
) -> None:
    assert index.found(QUERY)[:2] != ["Pressure", "Circuit"]
    with reranked_by(index, model("valve")) as bench:
        found = bench.ask(QUERY)
    paths = [hit.file_path for hit in found.results if hit.ranks]
    assert {hit.ranks["rerank"] for hit in found.results if hit.ranks} <= set(range(1, 31))
    # `Circuit` says the word in a heading only.
    assert set(paths[:2]) == {"Pressure.md", "Circuit.md"}
    assert not any(notice.startswith(NOT_RERANKED) for notice in found.notices)


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_every_mode_is_reranked(index: SearchBench, model: Callable[..., Path], mode: str) -> None:
    with reranked_by(index, model("bar")) as bench:
        assert bench.found("water bar", mode=mode)[0] == "Pressure"


def test_scores_fall_with_the_places(index: SearchBench, model: Callable[..., Path]) -> None:
    with reranked_by(index, model("valve")) as bench:
        scores = [hit.score for hit in bench.ask(QUERY).results if hit.ranks]
    assert scores == sorted(scores, reverse=True)


def test_where_few_notes_are_wanted_thirty_are_read_all_the_same(
    index: SearchBench, model: Callable[..., Path]
) -> None:
    with reranked_by(index, model("valve", "bar")) as bench:
        assert bench.found("warm water bar", limit=1) == ["Pressure"]
        assert list(ranks(bench, "page of rivers", limit=50).values()).count(None) >= 20


@pytest.mark.parametrize(("query", "first"), [("Spanner", "Spanner"), ("hot thing", "Boiler")])
def test_a_note_of_exactly_that_name_stays_first(
    index: SearchBench, model: Callable[..., Path], query: str, first: str
) -> None:
    with reranked_by(index, model("spanner", "hot", "thing")) as bench:
        found = ranks(bench, query)
        assert next(iter(found)) == first
        assert (found[first] or 0) > 1  # the model would have put another first
        assert bench.found("Empty")[0] == "Empty"  # and this one has nothing to read


def test_a_note_of_the_day_in_question_keeps_its_place(
    index: SearchBench, model: Callable[..., Path]
) -> None:
    day = f"Journal/{local_today()}"
    assert index.found("heating radiator today")[0] == day
    with reranked_by(index, model("radiator")) as bench:
        found = ranks(bench, "heating radiator today")
        assert next(iter(found)) == day
        assert (found[day] or 0) > 1


def test_equal_scores_keep_the_order(index: SearchBench, model: Callable[..., Path]) -> None:
    with reranked_by(index, model("zeppelin")) as bench:
        assert bench.found(QUERY) == index.found(QUERY)


@pytest.mark.parametrize("brought_by", ["dates", "links"])
def test_places_that_stay_are_not_moved_over(brought_by: str) -> None:
    notes = [Fused(name, 1 - n / 10, {}) for n, name in enumerate("abcde")]
    notes[3] = replace(notes[3], ranks={brought_by: 1})
    scores = {"a": 0.1, "b": 0.2, "d": 0.0, "e": 0.9}  # c has no text
    result = reorder(notes, scores, named={"a"})
    assert [note.file_path for note in result] == ["a", "e", "c", "d", "b"]
    assert [note.score for note in result] == [1, 0.9, 0.8, 0.7, 0.6]
    assert [note.ranks.get("rerank") for note in result] == [3, 1, None, 4, 2]
    assert result[3].ranks[brought_by] == 1


def test_the_stage_can_be_left_out(index: SearchBench, model: Callable[..., Path]) -> None:
    with reranked_by(index, model("valve")) as bench:
        assert bench.found(QUERY, without=["rerank"]) == index.found(QUERY)
        assert set(ranks(bench, QUERY, without=["rerank"]).values()) == {None}


def test_without_the_setting_nothing_of_it_is_there(index: SearchBench) -> None:
    request = make_request(QUERY, limit=1)
    assert index.reader.reranker is None
    assert deepen(request, index.reader.reranker) is request
    assert set(ranks(index, QUERY).values()) == {None}


def spoil(folder: Path, spoiled: str) -> Path:
    """A folder that holds no cross-encoder fit for use."""
    if spoiled in ("nan", "classes", "twice"):
        fault: Fault = spoiled  # type: ignore[assignment]
        return write_cross_encoder(folder, ["valve"], fault)
    write_cross_encoder(folder, ["valve"])
    if spoiled == "no folder":
        shutil.rmtree(folder)
    elif spoiled == "a file":
        shutil.rmtree(folder)
        folder.write_text("")
    elif spoiled == "several":
        (folder / "model.onnx").rename(folder / "a.onnx")
        (folder / "b.onnx").write_bytes(b"")
    elif spoiled == "damaged":
        (folder / "model.onnx").write_bytes(b"not a model")
    else:
        (folder / spoiled).unlink()
    return folder


@pytest.mark.parametrize(
    ("spoiled", "says"),
    [
        ("no folder", "There is no folder"),
        ("a file", "There is no folder"),
        ("model.onnx", "holds no ONNX file"),
        ("several", "holds several models and none is model.onnx: a.onnx, b.onnx"),
        ("tokenizer.json", "does not load (Could not find tokenizer.json"),
        ("tokenizer_config.json", "does not load (Could not find tokenizer_config.json"),
        ("damaged", "does not load ("),
        ("classes", "gives ['pairs', 2] for a pair, and not one score"),
        ("twice", "gives 2 scores for one passage"),
        ("nan", "gives no number (nan) for the passage that starts “"),
    ],
)
def test_a_model_that_fails_leaves_the_order_and_is_named_with_its_mend(
    index: SearchBench, tmp_path: Path, spoiled: str, says: str
) -> None:
    folder = spoil(tmp_path / "model", spoiled)
    with reranked_by(index, folder) as bench:
        for _ in range(2):  # it is said of every answer
            answer = bench.ask(QUERY)
            notice = next(text for text in answer.notices if text.startswith(NOT_RERANKED))
            assert says in notice
            assert "RERANK_MODEL" in notice or "Put " in notice
            assert [hit.file_path for hit in answer.results] == [
                hit.file_path for hit in index.ask(QUERY).results
            ]
            assert not any("rerank" in hit.ranks for hit in answer.results)


def test_a_failed_load_is_not_tried_again_before_the_reader_is_closed(
    index: SearchBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[str] = []
    load = cross_encoder._load
    monkeypatch.setattr(
        cross_encoder, "_load", lambda name, *rest: (loads.append(name), load(name, *rest))[1]
    )
    with reranked_by(index, tmp_path / "model") as bench:
        first = bench.ask(QUERY).notices
        write_cross_encoder(tmp_path / "model", ["valve"])
        assert bench.ask(QUERY).notices == first
        assert len(loads) == 1
        bench.reader.close()
        assert "rerank" in bench.ask(QUERY).results[0].ranks
        assert len(loads) == 2


def test_a_package_that_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda asked, *rest: None if asked == "fastembed" else find_spec(asked)
    )
    with pytest.raises(ModelMissing, match=r"needs the Python package fastembed.*obsidian-rag\[rerank\]"):
        CrossEncoder(EXAMPLE, pytest.fail).score("a", ["b"])


def test_a_name_that_is_none_is_told_what_there_is() -> None:
    with pytest.raises(ModelMissing, match=f"No cross-encoder is called nobody/nothing.*{EXAMPLE}"):
        CrossEncoder("nobody/nothing", pytest.fail).score("a", ["b"])


def test_a_model_that_cannot_be_fetched_is_given_up_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail(f"waits {seconds} s"))
    with pytest.raises(ModelMissing, match=r"does not answer.*unset RERANK_MODEL"):
        CrossEncoder(EXAMPLE, pytest.fail, tmp_path / "models").score("a", ["b"])
    assert not (tmp_path / "models").exists()


def test_a_fetch_that_breaks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    said: list[str] = []
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(weights, "check_reachable", lambda *arguments: None)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with pytest.raises(EmbedderUnavailable, match=r"could not be fetched.*unset RERANK_MODEL"):
        CrossEncoder(EXAMPLE, said.append, tmp_path / "models").score("a", ["b"])
    assert said == [f"Fetching the model {EXAMPLE} (0.08 GB) into {tmp_path / 'models'}, once."]


@pytest.mark.parametrize("name", [EXAMPLE, "ms-marco-minilm-l-6-v2"])
def test_a_model_that_was_fetched_once_works_without_internet(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    repository = tmp_path / "models--Xenova--ms-marco-MiniLM-L-6-v2"
    commit = "0123456789abcdef0123456789abcdef01234567"
    write_cross_encoder(repository / "snapshots" / commit, ["pump"], file="onnx/model.onnx")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    assert CrossEncoder(name, pytest.fail, tmp_path).score("pump", ["a lamp", "a pump"]) == [0.0, 1.0]


@pytest.mark.parametrize("file", ["model.onnx", "onnx/model.onnx", "onnx/model_quantized.onnx"])
def test_a_folder_is_read_as_models_are_exported(tmp_path: Path, file: str) -> None:
    folder = write_cross_encoder(tmp_path, ["pump", "floor"], file=file)
    model = CrossEncoder(str(folder), pytest.fail)
    assert model.score("the pump, the floor", ["Pump!", "floor pump", "lamp", ""]) == [1.0, 2.0, 0.0, 0.0]
    assert model.score("pump", []) == []
    assert list(folder.glob("**/*.lock")) == []
    model.close()
    assert model.score("pump", ["pump"]) == [1.0]


def test_any_text_can_be_scored(tmp_path: Path) -> None:
    model = CrossEncoder(str(write_cross_encoder(tmp_path, ["pump", "floor"])), pytest.fail)
    long = "lamp " * 2 * WINDOW
    assert model.score("pump", [f"pump {long}", f"{long} pump", "\0pump\ud800"]) == [1.0, 0.0, 1.0]
    assert model.score(f"pump {long}", ["pump"]) == [1.0]


def test_threads_that_come_first_together_load_the_model_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[str] = []
    load = cross_encoder._load
    monkeypatch.setattr(
        cross_encoder, "_load", lambda name, *rest: (loads.append(name), load(name, *rest))[1]
    )
    model = CrossEncoder(str(write_cross_encoder(tmp_path, ["pump"])), pytest.fail)
    scores: list[list[float]] = []
    threads = [
        threading.Thread(target=lambda: scores.append(model.score("pump", ["pump", "lamp"])))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert scores == [[1.0, 0.0]] * 4
    assert len(loads) == 1


def test_while_one_query_fetches_the_model_others_are_answered_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, release = threading.Event(), threading.Event()
    load = cross_encoder._load

    def load_slowly(*arguments: Any) -> Any:
        entered.set()
        release.wait(60)
        return load(*arguments)

    monkeypatch.setattr(cross_encoder, "_load", load_slowly)
    model = CrossEncoder(str(write_cross_encoder(tmp_path, ["pump"])), pytest.fail, patience=0.01)
    first = threading.Thread(target=model.score, args=("pump", ["pump"]))
    first.start()
    assert entered.wait(60)
    with pytest.raises(EmbedderUnavailable, match="is still being loaded"):
        model.score("pump", ["pump"])
    release.set()
    first.join()
    assert model.score("pump", ["pump"]) == [1.0]


def test_a_measurement_without_the_reranker_is_none(
    index: SearchBench, tmp_path: Path, model: Callable[..., Path]
) -> None:
    questions = [Question("1", QUERY, ("Pressure.md",), "-")]
    with reranked_by(index, tmp_path / "missing") as bench:
        with pytest.raises(EmbedderError, match=r"was answered without reranking.*--without rerank"):
            search_all(bench.reader, questions, make_request("any"))
        search_all(bench.reader, questions, make_request("any", without=frozenset({"rerank"})))
    with reranked_by(index, model("valve", "water")) as bench:
        run, _ = search_all(bench.reader, questions, make_request("any", limit=3))
    assert run["1"][0] == "Pressure.md"


def test_a_score_that_is_no_number_is_no_failure_of_the_model(tmp_path: Path) -> None:
    """Another passage may well have one: the model is not given up."""
    model = CrossEncoder(str(write_cross_encoder(tmp_path, ["pump"], "nan")), pytest.fail)
    for passage in ("one", "two"):
        with pytest.raises(EmbeddingRejected, match=f"starts “{passage}”"):
            model.score("pump", [passage])


def test_the_commands_take_it_as_a_flag(bench: Workbench, tmp_path: Path) -> None:
    write_cross_encoder(tmp_path / "model", ["valve"])
    for path, text in NOTES.items():
        if not path.startswith("Crowd"):
            bench.vault.write(f"{path}.md", text)
    bench.index()

    def run(*arguments: str) -> Any:
        given = [*arguments, "--json", "--rerank-model", str(tmp_path / "model")]
        result = CliRunner().invoke(cli, given, env=bench.environment)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    assert "rerank" in run("search", QUERY)["results"][0]["ranks"]
    found = run("diagnose", QUERY, "--target", "Tap")
    assert found["retrievers"]["rerank"]["score"] == 0.0
    assert found["above"][0]["ranks"]["rerank"] == 1
    assert "rerank 1 against" in found["above"][0]["because"]
    assert any(text.startswith("The reranker puts its best passage in place") for text in found["findings"])
