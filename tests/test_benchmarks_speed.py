"""What benchmarks/speed.py measures with: vaults, an embedder, a client and tables that can be trusted."""

from __future__ import annotations

import json
import sys
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import Workbench

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import sampled
import speed_lab
from instant_embedder import Pieces
from made_vaults import copy_vault, hash_vault, plan_hub, plan_notes, provide
from speed_calls import make_calls, open_session, read_hits, serve_command
from speed_figures import Figure
from speed_picture import PANELS, draw, read_figures, write_tables

from obsidian_rag.chunks import split_note
from obsidian_rag.notes import parse_note


@pytest.fixture(scope="module")
def embedder() -> Iterator[str]:
    with speed_lab.open_embedder("--dimensions", "64") as url:
        yield url


def ask(url: str, body: dict[str, Any]) -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())) as answer:
        return json.load(answer)


def test_a_made_vault_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = (provide(tmp_path / name, plan_notes(60)) for name in ("one", "two"))
    assert hash_vault(first.root) == hash_vault(second.root)
    assert first.questions == second.questions
    assert hash_vault(provide(tmp_path / "one", plan_notes(61)).root) != hash_vault(first.root)


@pytest.mark.parametrize(
    ("plan", "least", "most"), [(plan_notes(150), 5_000, 9_500), (plan_hub(150), 1_700, 4_500)]
)
def test_a_made_vault_is_like_a_real_one(tmp_path: Path, plan: Any, least: int, most: int) -> None:
    vault = provide(tmp_path, plan)
    texts = {p: p.read_text() for p in vault.root.rglob("*.md")}
    notes = [parse_note(path.relative_to(vault.root).as_posix(), text) for path, text in texts.items()]
    assert len(notes) == vault.notes == 150
    assert sum(len(text.encode()) for text in texts.values()) == vault.bytes
    assert least < vault.bytes / vault.notes < most
    assert not any(note.warnings for note in notes)
    names = {path.stem for path in texts}
    links = [link.target.rsplit("/", 1)[-1].removesuffix(".md") for note in notes for link in note.links]
    resolved = sum(name in names for name in links) / len(links)
    assert 0.8 < resolved < 0.99
    assert 2 < sum(len(split_note(note)) for note in notes) / len(notes) < 11
    words = " ".join(texts.values()).lower()
    assert all(word in words for word in vault.frequent)


def test_a_copy_can_be_changed_without_the_original(tmp_path: Path) -> None:
    vault = provide(tmp_path, plan_notes(20))
    before = hash_vault(vault.root)
    copied = copy_vault(vault, tmp_path / "copy")
    assert hash_vault(copied.root) == before
    next(copied.root.rglob("*.md")).write_text("other")
    assert hash_vault(vault.root) == before


def test_near_texts_have_near_vectors_and_no_two_have_the_same() -> None:
    pieces = Pieces(64)
    texts = [f"a note about harbours and lighthouses number {n}" for n in range(50)]
    vectors = np.array([json.loads(pieces.vector(text.encode())) for text in texts])
    assert vectors.shape == (50, 64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors.T
    assert cosines.mean() > 0.5
    assert np.triu(cosines, 1).max() < 0.9999
    assert json.loads(pieces.vector(texts[0].encode())) == json.loads(pieces.vector(texts[0].encode()))
    far = np.array(json.loads(pieces.vector(b"recipes without butter")))
    assert (vectors @ far / np.linalg.norm(far)).mean() < 0.3


def test_the_embedder_answers_as_ollama_does_and_counts(embedder: str) -> None:
    ask(f"{embedder}/spent", {})
    assert len(ask(f"{embedder}/api/embed", {"model": "instant", "input": ["one", "two"]})["embeddings"]) == 2
    assert len(ask(f"{embedder}/api/embed", {"model": "instant", "input": "one"})["embeddings"][0]) == 64
    assert ask(f"{embedder}/api/show", {"model": "instant"})["model_info"]["bert.embedding_length"] == 64
    with urllib.request.urlopen(f"{embedder}/spent") as answer:
        counts = json.load(answer)
    assert (counts["requests"], counts["texts"]) == (2, 3)
    assert counts["cpu_seconds"] > 0


def test_an_indexed_vault_answers_every_kind_of_call(bench: Workbench, embedder: str, tmp_path: Path) -> None:
    vault = provide(tmp_path / "made", plan_notes(12))
    lab = speed_lab.Lab(tmp_path, bench.database_url)
    environment = lab.environment(vault.root, bench.database_url, embedder)
    cost = speed_lab.index(environment, tmp_path / "work")
    assert cost.report["notes_indexed"] == 12
    assert cost.seconds > 0 < cost.cpu
    assert 10 < cost.peak < 2_000
    paths = [row[0] for row in bench.rows("SELECT file_path FROM notes")]
    with open_session(serve_command(), environment, tmp_path / "serve") as session:
        assert session.start_seconds > 0
        for kind, calls in make_calls(vault, paths).items():
            took, answer = session.call(*calls[0])
            assert took > 0, kind
            if calls[0][0] == "search_notes" and "rare" not in kind:
                assert read_hits(answer), kind
        with pytest.raises(RuntimeError, match=r"get_note .*no-such"):
            session.call("get_note", {"file_path": "no-such"})


def test_a_sample_tells_the_function_and_the_library_below_it() -> None:
    def frame(file: str, function: str, above: Any = None) -> Any:
        return SimpleNamespace(f_code=SimpleNamespace(co_filename=file, co_qualname=function), f_back=above)

    store = frame(f"{sampled.PACKAGE}search/store.py", "Store.write", frame("/x/cli.py", "main"))
    library = frame("/venv/lib/python3.12/site-packages/psycopg/cursor.py", "execute", store)
    assert sampled.find_place(store) == "search.store.Store.write"
    waiting = frame("/usr/lib/python3.12/selectors.py", "select", library)
    assert sampled.find_place(waiting) == "search.store.Store.write → selectors"
    assert sampled.find_place(library) == "search.store.Store.write → psycopg"
    assert sampled.find_place(frame("<frozen importlib._bootstrap>", "_load", store)) == "import"
    assert sampled.find_place(frame("/usr/lib/python3.12/threading.py", "wait")) is None


def test_a_program_that_fails_is_not_measured(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended with 3: went wrong"):
        speed_lab.run_program(
            [sys.executable, "-c", "import sys; print('went wrong', file=sys.stderr); sys.exit(3)"],
            {},
            tmp_path,
        )


def test_a_missed_bar_is_bold_and_a_met_one_is_not() -> None:
    table = write_tables(
        [
            Figure("index", "250", "memory", 301, "MB", bar=300),
            Figure("index", "2,500", "memory", 299, "MB", bar=300),
            Figure("index", "250", "notes a second", 401.4, "", bar=400, least=True),
            Figure("tools", "250", "get_note, p95", 7.126, "ms"),
        ]
    )
    assert "| memory, MB | **301** | 299 | ≤ 300 |" in table
    assert "| notes a second | 401 |  | ≥ 400 |" in table
    assert "### tools\n\n| | 250 | |\n| --- | ---: | --- |\n| get_note, p95, ms | 7.13 |  |" in table


def test_the_picture_has_a_line_for_each_measure_and_the_later_figure_holds(tmp_path: Path) -> None:
    figures = [
        Figure(curve.part, vault, curve.what, 1.5 * place + 1, "s")
        for panel in PANELS
        for place, curve in enumerate(panel.curves)
        for vault in ("250", "14,000", "hub 6,571")
    ]
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file, value in zip(files, (2.0, 3.0), strict=True):
        entry = {"part": "index", "vault": "250", "what": "first index", "value": value, "unit": "s"}
        file.write_text(json.dumps({"figures": [entry]}))
    assert [figure.value for figure in read_figures(files)] == [3.0]
    picture = ElementTree.fromstring(draw(figures))
    lines = picture.findall(".//{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == sum(len(panel.curves) for panel in PANELS)
    assert all(len(line.attrib["points"].split()) == 2 for line in lines)
    assert ElementTree.fromstring(draw([])) is not None
