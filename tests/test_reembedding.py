"""Changing the embedder: search goes on with the old vectors, one transaction swaps, nothing is lost."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import VaultFolder, Workbench
from ollama_double import Hold, Model, OllamaDouble, embed, turn
from test_adoption import FIRST_SCHEMA, NOTES
from test_migrations import read_catalogs

from obsidian_rag import embedded, ledger, reembedding
from obsidian_rag.catalog import load_status
from obsidian_rag.cli import cli
from obsidian_rag.embedding import EmbeddingModel
from obsidian_rag.embedding.patience import Patience
from obsidian_rag.errors import (
    DatabaseUnsuitable,
    EmbedderError,
    EmbedderUnavailable,
    IndexMismatch,
    ModelUnsuitable,
    SettingsError,
    VaultError,
)
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.indexing import Options, run_indexer
from obsidian_rag.migrate import apply_migrations, load_migrations
from obsidian_rag.models import RunReport
from obsidian_rag.postgres import connect
from obsidian_rag.progress import SilentProgress
from obsidian_rag.query_embedder import QueryEmbedder
from obsidian_rag.render import render_status
from obsidian_rag.search.calibration import LEAST_CHUNKS
from obsidian_rag.search.pipeline import search
from obsidian_rag.search.query import make_request
from obsidian_rag.search.vector import VectorHit, search_chunks

OLD = Model("nomic-embed-text", 64)
WIDE = Model("all-minilm", 96)  # other dimensions
LIKE = Model("snowflake-arctic-embed2", 64, turn=7)  # other vectors of the same dimensions
SYLLABLES = ["ba", "ke", "lo", "mi", "nu", "pra", "sto", "tri", "vel", "zan"]
RECORDED = "SELECT embed_model, dimensions FROM index_settings"


def to(model: Model) -> dict[str, Any]:
    """The settings that ask for a model."""
    return {"embed_model": model.name}


def say(number: int) -> str:
    """A sentence of made-up words, unlike any other."""
    chance = random.Random(number)
    return " ".join("".join(chance.choices(SYLLABLES, k=3)) for _ in range(8)).capitalize() + "."


def fill(vault: VaultFolder, count: int) -> None:
    for number in range(count):
        vault.write(f"n{number}.md", say(number))


@pytest.fixture
def indexed(bench: Workbench) -> Workbench:
    """An index of 70 notes, one chunk each, by the old model; the others are pulled."""
    fill(bench.vault, 70)
    bench.index()
    bench.ollama.pull(WIDE)
    bench.ollama.pull(LIKE)
    bench.ollama.forget()
    return bench


@pytest.fixture
def aside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """An embedder that fails is asked again at once."""
    monkeypatch.setattr(Patience, "pause", lambda self, attempt, started: attempt < self.tries)


OpenReader = Callable[..., IndexReader]


@pytest.fixture
def open_reader() -> Iterator[OpenReader]:
    """Opens an index as a server does, with settings of its own."""
    opened: list[IndexReader] = []

    def make(bench: Workbench, **settings: Any) -> IndexReader:
        opened.append(IndexReader(replace(bench.settings, **settings), lambda text: None))
        return opened[-1]

    yield make
    for reader in opened:
        reader.close()


def find_nearest(reader: IndexReader, text: str) -> VectorHit:
    return reader.run_prepared(
        lambda: reader.embed_query(text), lambda conn, vector: search_chunks(conn, vector, 1)[0]
    )


def pause_at(bench: Workbench, *batches: int) -> list[Hold]:
    """Hold the embedder back at these batches of texts, from 0; questions are answered meanwhile."""
    holds = {batch: Hold() for batch in batches}
    seen = itertools.count()
    bench.ollama.always = lambda call: holds.get(next(seen)) if len(call.inputs) > 1 else None
    return list(holds.values())


def read_begun(bench: Workbench) -> ledger.Reembedding | None:
    with connect(bench.database_url, read_only=True) as conn:
        return ledger.load_reembedding(conn)


def read_status(bench: Workbench) -> dict[str, Any]:
    with connect(bench.database_url, read_only=True) as conn:
        return load_status(conn)


def assert_vectors(bench: Workbench, model: Model) -> None:
    """Every vector is that of its text, by this model, and the index says so; nothing else is left."""
    assert bench.rows(RECORDED) == [(model.name, model.dimensions)]
    rows = bench.rows("SELECT heading_path, content, embedding::text, content_hash FROM documents")
    assert rows
    for heading_path, content, vector, content_hash in rows:
        text = f"{heading_path}\n{content}".strip()
        assert np.allclose(json.loads(vector), turn(embed(text, model.dimensions), model.turn), atol=1e-5)
        assert content_hash is not None
    assert bench.rows("SELECT (SELECT count(*) FROM reembedding), (SELECT count(*) FROM reembedded)") == [
        (0, 0)
    ]
    assert bench.rows("SELECT to_regclass('documents_next')") == [(None,)]


def begin(bench: Workbench, model: Model, batches: int) -> None:
    """Leave a re-embedding behind that broke off after so many batches."""
    bench.ollama.faults += [None] * (1 + batches)
    bench.ollama.always = "crash"
    with pytest.raises(EmbedderUnavailable):
        bench.index(to(model), reembed=True)
    bench.ollama.always = None
    bench.ollama.faults.clear()


# --- it works ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [WIDE, LIKE, OLD], ids=lambda model: model.name)
def test_every_vector_is_made_anew_and_each_text_is_embedded_once(
    indexed: Workbench, new_bench: Callable[[VaultFolder], Workbench], model: Model
) -> None:
    indexed.vault.write("copy.md", say(3))
    indexed.index()
    indexed.ollama.forget()

    report = indexed.index(to(model), reembed=True)

    assert (report.status, report.notes_seen, report.notes_indexed, report.notes_unchanged) == (
        "ok",
        71,
        71,
        0,
    )
    assert (report.chunks_written, report.chunks_embedded, report.chunks_reused) == (71, 70, 0)
    assert len(indexed.ollama.texts) == 70 + 2  # and whether the model works, before and after
    assert_vectors(indexed, model)
    fresh = new_bench(indexed.vault)
    fresh.index(to(model))
    assert indexed.tables() == fresh.tables()
    assert indexed.index(to(model)).notes_unchanged == 71


def test_there_and_back_again_leaves_no_trace(indexed: Workbench) -> None:
    tables, catalogs = indexed.tables(), read_catalogs(indexed.database_url)

    indexed.index(to(WIDE), reembed=True)
    changed = read_catalogs(indexed.database_url)
    indexed.index(to(OLD), reembed=True)

    assert indexed.tables() == tables
    assert read_catalogs(indexed.database_url) == catalogs
    assert {name: rows for name, rows in changed.items() if rows != catalogs[name]}.keys() == {
        "columns",
        "indexes",
    }
    assert indexed.rows(
        "SELECT pg_get_serial_sequence('documents', 'id'), nextval('documents_id_seq') > max(id)"
        " FROM documents"
    ) == [("public.documents_id_seq", True)]


def test_a_first_run_may_ask_for_it_too(bench: Workbench) -> None:
    bench.vault.write("A.md", say(1))

    report = bench.index(reembed=True)

    assert (report.status, report.notes_indexed, report.chunks_written) == ("ok", 1, 1)
    assert_vectors(bench, OLD)


def test_from_ollama_to_the_local_model_and_back(bench: Workbench) -> None:
    bench.vault.write("Pump.md", "# Pump\n\nIt feeds the garden at night.\n")
    bench.vault.write("Bread.md", "# Bread\n\nKnead the dough and let it rest.\n")
    bench.index()

    bench.index({"embedder": "local"}, reembed=True)

    assert bench.rows("SELECT embedder, embed_model, dimensions FROM index_settings") == [
        ("local", "minilm", 384)
    ]
    assert bench.found("baking a loaf", "vector")[0] == "Bread.md"
    bench.index({"embedder": "ollama"}, reembed=True)
    assert_vectors(bench, OLD)


def test_progress_counts_the_texts_that_are_still_to_be_embedded(
    indexed: Workbench, no_waiting: None
) -> None:
    class Listener(SilentProgress):
        def __init__(self) -> None:
            self.stages: dict[str, list[int]] = {}
            self.said: list[str] = []

        def begin(self, what: str, total: int) -> None:
            self.stages[what] = self.now = [total, 0]

        def advance(self, steps: int = 1) -> None:
            self.now[1] += steps

        def say(self, text: str) -> None:
            self.said.append(text)

    begin(indexed, WIDE, batches=1)
    listener = Listener()

    run_indexer(indexed.settings, Options(reembed=True), listener)

    assert listener.stages == {"Embedding texts": [38, 38]}
    assert any("ollama:all-minilm (96 dimensions): 32 of 70 texts are done" in text for text in listener.said)
    assert any("search goes on with ollama:nomic-embed-text" in text for text in listener.said)


def test_edits_deletions_and_new_notes_come_in_with_the_new_model(
    indexed: Workbench, new_bench: Callable[[VaultFolder], Workbench], aside: ThreadPoolExecutor
) -> None:
    indexed.vault.delete("n1.md")
    indexed.vault.write("moved.md", say(1) + "\n\nWith a postscript.\n")
    indexed.vault.move("n2.md", "renamed.md")
    indexed.vault.write("n3.md", "Other words than before.")
    (held,) = pause_at(indexed, 0)
    running = aside.submit(indexed.index, to(LIKE), reembed=True)
    assert held.entered.wait(60)
    indexed.vault.write("during.md", "Written while the others were embedded.")
    indexed.vault.delete("n5.md")
    held.release.set()

    report: RunReport = running.result(60)

    assert (report.status, report.notes_seen, report.notes_deleted) == ("ok", 70, 2)
    assert_vectors(indexed, LIKE)
    fresh = new_bench(indexed.vault)
    fresh.index(to(LIKE))
    assert indexed.tables() == fresh.tables()


def test_text_of_a_deleted_note_does_not_bring_its_old_vector_into_another(indexed: Workbench) -> None:
    indexed.vault.delete("n1.md")
    indexed.vault.write("heir.md", f"---\ntags: [heir]\n---\n{say(1)}")

    assert indexed.index(to(LIKE), reembed=True).notes_deleted == 1

    assert_vectors(indexed, LIKE)


def test_how_far_vectors_are_trusted_is_measured_of_the_new_ones(bench: Workbench) -> None:
    fill(bench.vault, LEAST_CHUNKS + 20)
    bench.index()
    bench.ollama.pull(LIKE)
    measured = "SELECT fusion_g, cosine_mean, fusion_chunks FROM index_settings"
    right = bench.rows(measured)
    bench.execute("UPDATE index_settings SET fusion_g = 0.07, cosine_mean = 0.9, cosine_spread = 0.01")

    bench.index(to(LIKE), reembed=True)

    assert bench.rows(measured) == right  # the double's models are equally good
    for number in range(30, LEAST_CHUNKS + 20):
        bench.vault.delete(f"n{number}.md")
    bench.index(to(OLD), reembed=True, allow_mass_delete=True)
    assert bench.rows(measured) == [(None, None, None)]  # too few to be measured: not those of another model


# --- search meanwhile --------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [WIDE, LIKE], ids=lambda model: model.name)
def test_search_goes_on_with_the_old_vectors_until_all_new_ones_are_made(
    indexed: Workbench, aside: ThreadPoolExecutor, model: Model, open_reader: OpenReader
) -> None:
    server = open_reader(indexed)
    find_nearest(server, say(1))
    held = pause_at(indexed, 0, 1, 2)
    running = aside.submit(indexed.index, to(model), reembed=True)
    for number, hold in enumerate(held):
        assert hold.entered.wait(60)
        # A server at work, one started meanwhile, and one whose settings name the new model already.
        for reader in (server, open_reader(indexed), open_reader(indexed, **to(model))):
            assert find_nearest(reader, say(30)) == VectorHit("n30.md", 0, pytest.approx(1, abs=1e-5))
        assert indexed.search(say(20), "hybrid").notices == ()
        assert indexed.rows(RECORDED) == [("nomic-embed-text", 64)]
        begun = read_begun(indexed)
        assert begun is not None
        assert (begun.texts, begun.done) == (70, 32 * number)
        hold.release.set()
    running.result(60)

    assert_vectors(indexed, model)
    for reader in (server, open_reader(indexed), open_reader(indexed, **to(model))):
        assert find_nearest(reader, say(30)) == VectorHit("n30.md", 0, pytest.approx(1, abs=1e-5))


@pytest.mark.parametrize("model", [WIDE, LIKE], ids=lambda model: model.name)
def test_a_question_embedded_before_the_swap_is_never_compared_with_vectors_of_after(
    indexed: Workbench, aside: ThreadPoolExecutor, model: Model, open_reader: OpenReader
) -> None:
    server = open_reader(indexed)
    find_nearest(server, say(1))
    held = Hold()
    indexed.ollama.faults.append(held)
    asked = aside.submit(find_nearest, server, say(40))
    assert held.entered.wait(60)
    indexed.index(to(model), reembed=True)
    held.release.set()

    assert asked.result(60) == VectorHit("n40.md", 0, pytest.approx(1, abs=1e-5))
    asked_of = [call.body["model"] for call in indexed.ollama.embed_calls if say(40) in call.inputs[0]]
    assert (asked_of[0], asked_of[-1]) == ("nomic-embed-text", model.name)


def test_answers_are_right_while_the_index_changes_to_and_fro(
    indexed: Workbench, aside: ThreadPoolExecutor, open_reader: OpenReader
) -> None:
    done = threading.Event()

    def ask(first: int) -> int:
        server, answers = open_reader(indexed), 0
        while not done.is_set():
            number = (first + answers) % 70
            hit = find_nearest(server, say(number))
            assert hit == VectorHit(f"n{number}.md", 0, pytest.approx(1, abs=1e-5))
            answers += 1
        server.close()
        return answers

    # Questions are asked by one server from several threads, and by others.
    servers = [aside.submit(ask, first) for first in (0, 23, 46)]
    shared = open_reader(indexed)
    servers += [aside.submit(keep_asking, shared, done) for _ in range(2)]
    try:
        for model in (WIDE, LIKE, OLD, LIKE, WIDE):
            indexed.index(to(model), reembed=True)
    finally:
        done.set()
    assert all(server.result(60) > 5 for server in servers)


def keep_asking(reader: IndexReader, done: threading.Event) -> int:
    answers = 0
    while not done.is_set():
        answers += 1
        answer = search(reader, make_request(say(answers % 70), "hybrid", 3))
        assert answer.results[0].file_path == f"n{answers % 70}.md"
        assert set(answer.results[0].ranks) >= {"vector", "keyword"}
        assert answer.notices == ()
    return answers


def test_a_remembered_question_is_embedded_again_after_the_same_model_was_made_anew(
    indexed: Workbench, open_reader: OpenReader
) -> None:
    """`ollama pull` may bring other weights under the same name."""
    server = open_reader(indexed)
    find_nearest(server, say(9))
    indexed.ollama.pull(Model(OLD.name, OLD.dimensions, turn=5))

    indexed.index(reembed=True)

    assert find_nearest(server, say(9)) == VectorHit("n9.md", 0, pytest.approx(1, abs=1e-5))


def test_an_embedder_is_not_closed_while_somebody_asks_it(aside: ThreadPoolExecutor) -> None:
    class Asked:
        """An embedder that answers when it is allowed to, unless it was closed."""

        def __init__(self, name: str) -> None:
            self.model = EmbeddingModel("ollama", name, 1, 1)
            self.entered, self.release, self.closed = threading.Event(), threading.Event(), False

        def embed_queries(self, texts: list[str]) -> list[Any]:
            self.entered.set()
            assert self.release.wait(60)
            assert not self.closed
            return [np.zeros(1, np.float32) for _ in texts]

        def close(self) -> None:
            self.closed = True

    opened = {name: Asked(name) for name in ("old", "new")}
    present = ["old"]
    embedder = QueryEmbedder(
        lambda: ledger.Edition(EmbeddingModel("ollama", present[0], 1, 1), None),
        lambda edition: opened[edition.model.name] if edition.model else None,  # type: ignore[return-value,arg-type]
    )
    first = aside.submit(embedder.embed, ["a"])
    assert opened["old"].entered.wait(60)
    present[0] = "new"
    opened["new"].release.set()
    embedder.embed(["b"])
    assert not opened["old"].closed
    opened["old"].release.set()
    first.result(60)

    assert (opened["old"].closed, opened["new"].closed) == (True, False)


# --- interrupted -------------------------------------------------------------------------------------


def test_killed_midway_the_next_run_sends_only_the_missing_texts(
    indexed: Workbench, open_reader: OpenReader
) -> None:
    (held,) = pause_at(indexed, 1)
    process = subprocess.Popen(
        [sys.executable, "-m", "obsidian_rag", "index", "--reembed", "--quiet"],
        env=indexed.environment | {"EMBED_MODEL": WIDE.name},
        cwd=indexed.vault.root.parent,
    )
    assert held.entered.wait(60)
    before = set(indexed.ollama.texts[1:])
    process.kill()
    process.wait(60)
    held.then = "drop"
    held.release.set()
    assert len(before) == 32
    with connect(indexed.database_url) as conn:  # the killed one's lock is free a moment later
        conn.execute("SET lock_timeout = '60s'")
        conn.execute("SELECT pg_advisory_lock(%s)", (ledger.INDEXER_LOCK,))

    assert find_nearest(open_reader(indexed), say(8)).cosine == pytest.approx(1, abs=1e-5)
    indexed.ollama.forget()
    report = indexed.index(to(WIDE), reembed=True)

    after = set(indexed.ollama.texts[1:-1])
    assert before & after == set()
    assert len(before | after) == 70
    assert (report.chunks_embedded, report.chunks_reused, report.chunks_written) == (38, 32, 70)
    assert_vectors(indexed, WIDE)


@pytest.mark.parametrize("name", ["put_in_place", "build_next"])
def test_broken_off_at_the_swap_nothing_is_changed_and_nothing_embedded_again(
    indexed: Workbench, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    tables, catalogs = indexed.tables(), read_catalogs(indexed.database_url)
    work = getattr(reembedding.vector_swap, name)

    def die(*arguments: Any) -> None:
        work(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(reembedding.vector_swap, name, die)
    with pytest.raises(KeyboardInterrupt):
        indexed.index(to(WIDE), reembed=True)
    monkeypatch.undo()

    assert indexed.tables() == tables
    assert read_catalogs(indexed.database_url) == catalogs
    indexed.ollama.forget()
    assert indexed.index(to(WIDE), reembed=True).chunks_embedded == 0
    assert_vectors(indexed, WIDE)


def test_what_a_kill_right_after_the_swap_leaves_is_never_used(indexed: Workbench) -> None:
    indexed.index(to(WIDE), reembed=True)
    indexed.execute("INSERT INTO reembedded SELECT DISTINCT content_hash, embedding FROM documents")

    assert indexed.index(to(WIDE)).notes_unchanged == 70
    indexed.index(to(LIKE), reembed=True)
    assert_vectors(indexed, LIKE)


def test_plain_runs_go_on_with_the_old_model_while_a_change_is_not_finished(
    indexed: Workbench, no_waiting: None, open_reader: OpenReader
) -> None:
    begin(indexed, LIKE, batches=1)
    indexed.vault.write("later.md", say(100))

    for settings in ({}, to(OLD), to(LIKE)):  # the settings may name the one to come already
        indexed.vault.write("n4.md", say(200 + len(settings)))
        report = indexed.index(settings)
        assert report.status == "ok"
        (warning,) = report.warnings
        assert (
            "re-embedding with ollama:snowflake-arctic-embed2 (64 dimensions) stands at 32 of 70" in warning
        )
        assert "obsidian-rag index --reembed" in warning
        assert "--drop-reembedding" in warning
        assert find_nearest(open_reader(indexed, **settings), say(100)).cosine == pytest.approx(1, abs=1e-5)
    with pytest.raises(IndexMismatch, match="EMBED_MODEL=all-minilm is asked for"):
        indexed.index(to(WIDE))
    assert indexed.rows(RECORDED) == [("nomic-embed-text", 64)]

    indexed.ollama.forget()
    report = indexed.index(reembed=True)  # whatever was begun is gone on with

    assert report.warnings == ()
    assert report.chunks_embedded in (38, 39, 40)  # what was written since too
    assert_vectors(indexed, LIKE)


def test_status_tells_of_a_change_that_is_not_finished(indexed: Workbench, no_waiting: None) -> None:
    assert read_status(indexed)["reembedding"] is None
    begin(indexed, WIDE, batches=2)

    status = json.loads(json.dumps(read_status(indexed)))

    assert status["reembedding"].pop("started_at")
    assert status["reembedding"] == {
        "embedder": "ollama", "embed_model": "all-minilm", "dimensions": 96, "texts": 70, "done": 64,
    }  # fmt: skip
    text = render_status(status)
    assert "Embedder: ollama: nomic-embed-text, 64 dimensions" in text
    assert "Next:     ollama: all-minilm, 96 dimensions; 64 of 70 texts are embedded. To go on:" in text
    status["last_run"]["status"] = "running"
    assert "To go on" not in render_status(status)


def test_a_change_can_be_given_up(indexed: Workbench, no_waiting: None) -> None:
    tables = indexed.tables()
    begin(indexed, WIDE, batches=1)

    with pytest.raises(SettingsError, match="Choose one"):
        indexed.index(reembed=True, drop_reembedding=True)
    with pytest.raises(IndexMismatch, match="EMBED_MODEL=all-minilm is asked for"):
        indexed.index(to(WIDE), drop_reembedding=True)  # the settings must be changed back too
    report = indexed.index(drop_reembedding=True)

    assert (report.status, report.warnings, indexed.tables()) == ("ok", (), tables)
    assert read_begun(indexed) is None
    assert indexed.rows("SELECT count(*) FROM reembedded") == [(0,)]
    assert indexed.index(drop_reembedding=True).status == "ok"  # nothing left to give up


def test_settings_that_name_a_third_model_begin_anew(indexed: Workbench, no_waiting: None) -> None:
    begin(indexed, WIDE, batches=1)

    report = indexed.index(to(LIKE), reembed=True)

    assert report.chunks_embedded == 70
    assert_vectors(indexed, LIKE)


def test_a_model_that_changed_its_dimensions_since_is_begun_anew(
    indexed: Workbench, no_waiting: None
) -> None:
    begin(indexed, WIDE, batches=1)
    indexed.ollama.pull(Model(WIDE.name, 48))

    assert indexed.index(reembed=True).chunks_embedded == 70

    assert_vectors(indexed, Model(WIDE.name, 48))


# --- failing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("crash", EmbedderUnavailable), ("drop", EmbedderUnavailable), ("html", EmbedderUnavailable),
     ("wrong_dimension", ModelUnsuitable), ("nan", EmbedderError), ("fewer", EmbedderError)],
)  # fmt: skip
@pytest.mark.parametrize("batches", [-1, 1])
def test_an_embedder_that_fails_or_lies_leaves_the_old_vectors_at_work(
    indexed: Workbench,
    no_waiting: None,
    fault: str,
    kind: type[EmbedderError],
    batches: int,
    open_reader: OpenReader,
) -> None:
    tables = indexed.tables()
    indexed.ollama.faults += [None] * (1 + batches)
    indexed.ollama.always = fault

    with pytest.raises(kind) as caught:
        indexed.index(to(WIDE), reembed=True)
    indexed.ollama.always = None

    assert indexed.tables() == tables
    assert indexed.rows(RECORDED) == [("nomic-embed-text", 64)]
    assert find_nearest(open_reader(indexed), say(12)).cosine == pytest.approx(1, abs=1e-5)
    if batches < 0:  # it never worked: nothing was begun
        assert read_begun(indexed) is None
        return
    assert "stands at 32 of 70 texts; search goes on with ollama:nomic-embed-text" in str(caught.value)
    assert str(caught.value).endswith("Then go on: obsidian-rag index --reembed")
    assert indexed.index(to(WIDE), reembed=True).chunks_embedded == 38
    assert_vectors(indexed, WIDE)


def test_an_embedder_that_dies_before_the_swap_does_not_take_over(
    indexed: Workbench, no_waiting: None
) -> None:
    seen: set[str] = set()

    def die_at_the_end(call: Any) -> str | None:
        fault = "crash" if len(seen) > 70 else None
        seen.update(call.inputs)
        return fault

    indexed.ollama.always = die_at_the_end
    with pytest.raises(EmbedderUnavailable, match="stands at 70 of 70 texts"):
        indexed.index(to(LIKE), reembed=True)
    indexed.ollama.always = None

    assert indexed.rows(RECORDED) == [("nomic-embed-text", 64)]
    assert indexed.index(to(LIKE), reembed=True).chunks_embedded == 0
    assert_vectors(indexed, LIKE)


def test_the_command_reports_a_failure_in_its_exit_code_and_document(
    indexed: Workbench, no_waiting: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "leave_on_sigterm", lambda: None)
    monkeypatch.chdir(indexed.vault.root.parent)
    environment = indexed.environment | {"EMBED_MODEL": WIDE.name}

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(cli, arguments, env=environment, prog_name="obsidian-rag")

    indexed.ollama.faults += [None, None]
    indexed.ollama.always = "crash"
    failed = run("index", "--reembed", "--json")
    indexed.ollama.always = None
    document = json.loads(failed.stdout)
    assert (failed.exit_code, document["status"], document["chunks_embedded"]) == (2, "failed", 32)
    assert "stands at 32 of 70 texts" in document["error"]
    answer = json.loads(run("search", say(3), "--mode", "vector", "--json").stdout)
    assert answer["results"][0]["file_path"] == "n3.md"
    assert "The last run of the indexer failed" in answer["notices"][0]
    assert json.loads(run("status", "--json").stdout)["reembedding"]["done"] == 32

    done = run("index", "--reembed", "--json")
    assert (done.exit_code, json.loads(done.stdout)["chunks_embedded"]) == (0, 38)


def test_a_note_that_the_new_model_refuses_is_named_and_all_others_are_changed(
    indexed: Workbench, no_waiting: None
) -> None:
    indexed.vault.write("bad.md", "A cursed passage.")
    indexed.index()
    indexed.ollama.poison.add("cursed")

    report = indexed.index(to(WIDE), reembed=True)

    assert (report.status, report.notes_failed, report.notes_indexed) == ("partial", 1, 70)
    (failure,) = report.failures
    assert (failure.file_path, failure.stage) == ("bad.md", "embed")
    assert_vectors(indexed, WIDE)
    assert indexed.rows("SELECT count(*) FROM notes WHERE file_path = 'bad.md'") == [(0,)]
    indexed.ollama.poison.clear()
    assert indexed.index(to(WIDE)).notes_indexed == 1
    assert_vectors(indexed, WIDE)


def test_a_model_that_refuses_many_notes_does_not_take_over(indexed: Workbench, no_waiting: None) -> None:
    tables = indexed.tables()
    indexed.ollama.poison |= {say(number).split()[0] for number in range(6)}

    with pytest.raises(ModelUnsuitable, match=r"cannot embed \d+ of the 70 notes, among them n\d+\.md"):
        indexed.index(to(WIDE), reembed=True)

    assert indexed.tables() == tables


def test_a_model_whose_vectors_cannot_be_indexed_is_refused_before_anything_is_embedded(
    indexed: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("obsidian_rag.vector_column.MOST_DIMENSIONS", 80)
    with pytest.raises(DatabaseUnsuitable, match="at most 80 dimensions, the model gives 96"):
        indexed.index(to(WIDE), reembed=True)
    assert indexed.ollama.embed_calls == []


def test_more_than_2000_dimensions_are_indexed_as_halfvec(
    indexed: Workbench, open_reader: OpenReader
) -> None:
    indexed.ollama.pull(Model("qwen3-embedding", 2560))

    indexed.index({"embed_model": "qwen3-embedding"}, reembed=True)

    assert find_nearest(open_reader(indexed), say(5)).file_path == "n5.md"
    [(definition,)] = indexed.rows("SELECT pg_get_indexdef('documents_embedding_idx'::regclass)")
    assert "halfvec(2560)" in definition
    indexed.index(to(OLD), reembed=True)
    assert_vectors(indexed, OLD)


# --- databases of the first schema -------------------------------------------------------------------


@pytest.fixture
def old(vault: VaultFolder, new_database: Callable[..., str]) -> Iterator[Workbench]:
    """A vault with an index that the first schema's program made, by a model of 768 dimensions."""
    with OllamaDouble(dimensions=768, models=[OLD.name, Model("embeddinggemma", 768, turn=9)]) as ollama:
        ollama.pull(WIDE)
        bench = Workbench(vault, new_database(), ollama)
        bench.execute(FIRST_SCHEMA)
        for path, text in NOTES.items():
            vault.write(path, text)
            for index, content in enumerate(p for p in text.split("\n\n") if not p.startswith("#")):
                bench.execute(
                    "INSERT INTO documents (file_path, file_hash, chunk_index, content, embedding)"
                    " VALUES (%s, md5(%s), %s, %s, %s::vector)",
                    path, text, index, content, str(embed(content, 768)),
                )  # fmt: skip
        yield bench


@pytest.mark.parametrize("model", [WIDE, Model("embeddinggemma", 768, turn=9)], ids=lambda model: model.name)
@pytest.mark.parametrize("adopted", [True, False])
def test_an_index_of_the_first_schema_is_changed_like_any_other(
    old: Workbench,
    new_bench: Callable[[VaultFolder], Workbench],
    aside: ThreadPoolExecutor,
    model: Model,
    adopted: bool,
) -> None:
    if adopted:
        assert old.index().chunks_embedded == 0
    (held,) = pause_at(old, 0)
    running: Future[RunReport] = aside.submit(old.index, to(model), reembed=True)
    assert held.entered.wait(60)
    if adopted:
        assert old.found("Tomatoes grow.", "vector")[0] == "Garden.md"
    assert old.found("tomatoes", "hybrid")[0] == "Garden.md"  # by its words, where nobody knows the old model
    held.release.set()

    report = running.result(60)

    assert (report.status, report.notes_indexed, report.notes_unchanged) == ("ok", 3, 0)
    assert_vectors(old, model)
    fresh = new_bench(old.vault)
    fresh.ollama = old.ollama
    fresh.index(to(model))
    assert old.tables() == fresh.tables()


def test_a_vault_that_vanishes_meanwhile_leaves_an_index_that_the_next_run_completes(
    old: Workbench, new_bench: Callable[[VaultFolder], Workbench], aside: ThreadPoolExecutor
) -> None:
    (held,) = pause_at(old, 0)
    running = aside.submit(old.index, to(WIDE), reembed=True)
    assert held.entered.wait(60)
    away = old.vault.root.rename(old.vault.root.with_name("away"))
    held.release.set()
    with pytest.raises(VaultError):
        running.result(60)
    away.rename(old.vault.root)
    assert_vectors(old, WIDE)

    old.index(to(WIDE))

    fresh = new_bench(old.vault)
    fresh.ollama = old.ollama
    fresh.index(to(WIDE))
    assert old.tables() == fresh.tables()


def test_vectors_of_an_unknown_model_are_never_taken_for_those_of_the_one_to_come(
    old: Workbench, no_waiting: None
) -> None:
    settings = {"embed_model": "embeddinggemma"}
    old.ollama.faults += [None]
    old.ollama.always = "crash"
    with pytest.raises(EmbedderUnavailable, match="the index is as it was"):
        old.index(settings, reembed=True)
    old.ollama.always = None

    with pytest.raises(IndexMismatch, match=r"not known whose vectors.*stands at 0 of 6 texts.*--reembed"):
        old.index(settings)
    assert old.rows("SELECT count(*) FROM index_settings") == [(0,)]

    assert old.index(settings, reembed=True).status == "ok"
    assert_vectors(old, Model("embeddinggemma", 768, turn=9))


def test_an_old_version_of_an_unreadable_note_gets_its_vectors_too(old: Workbench) -> None:
    old.vault.write("Garden.md", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)

    report = old.index(to(WIDE), reembed=True)

    assert [failure.file_path for failure in report.failures] == ["Garden.md"]
    assert old.rows("SELECT count(*) FROM documents WHERE file_path = 'Garden.md'") == [(2,)]
    assert_vectors(old, WIDE)


def test_a_dry_run_reads_a_database_that_is_not_migrated_yet(
    database_url: str, vault: VaultFolder, ollama: OllamaDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = load_migrations()[:5]
    with monkeypatch.context() as patch, connect(database_url) as conn:
        patch.setattr("obsidian_rag.migrate.load_migrations", lambda: earlier)
        apply_migrations(conn)
        conn.execute(
            "INSERT INTO index_settings (vaults, embedder, embed_model, dimensions, fts_config)"
            " VALUES (%s, 'ollama', 'nomic-embed-text', 768, 'auto')",
            ([str(vault.root)],),
        )
    vault.write("A.md", "Text.")

    report = Workbench(vault, database_url, ollama).index(dry_run=True)

    assert report.notes_indexed == 1
