"""Ollama dying, overloaded, wrong or lying: the answer is right or the error names the fault and its mend,
and the next run makes the index equal to an undisturbed one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import DIMENSIONS, VaultFolder, Workbench, create_database, drop_database
from fault_bench import find_drift, write_notes
from ollama_double import Hold, OllamaDouble

from obsidian_rag.embedding.patience import Patience
from obsidian_rag.errors import EmbedderError

NOTES = 6
FAULTS = [
    "busy", "overloaded", "html", "html502", "drop", "drop_mid", "eof400", "crash", "unauthorized", "missing",
    "nan500", "nan", "null", "zero", "wrong_dimension", "fewer", "more", "empty",
]  # fmt: skip
Tables = dict[str, list[tuple[Any, ...]]]


@pytest.fixture(autouse=True)
def small_steps(two_a_round: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two notes a round, and retries without their pauses."""
    monkeypatch.setattr(Patience, "pause", lambda self, attempt, started: attempt < self.tries)


@pytest.fixture(scope="module")
def undisturbed(
    server: str, migrated: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Tables]]:
    """The index of the notes that say something, made without any fault."""
    made: dict[str, Tables] = {}
    urls: list[str] = []

    def get(say: str) -> Tables:
        if say not in made:
            folder = VaultFolder(tmp_path_factory.mktemp("vault"))
            write_notes(folder, NOTES, say)
            urls.append(create_database(server, migrated))
            with OllamaDouble(dimensions=DIMENSIONS) as ollama:
                bench = Workbench(folder, urls[-1], ollama)
                bench.index()
                made[say] = bench.tables()
        return made[say]

    yield get
    for url in urls:
        drop_database(server, url)


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_ollama_does_once_or_for_good_nothing_is_lost_and_the_error_says_what_to_do(
    bench: Workbench, undisturbed: Callable[[str], Tables], fault: str
) -> None:
    write_notes(bench.vault, NOTES)
    bench.ollama.faults += [None, fault]  # once, in the midst of the run
    try:
        bench.index()
    except EmbedderError as exc:
        assert exc.mend
        bench.index()
    assert bench.tables() == undisturbed("says")

    write_notes(bench.vault, NOTES, "tells")
    bench.ollama.forget()
    bench.ollama.faults.append(None)
    bench.ollama.always = fault
    with pytest.raises(EmbedderError) as caught:
        bench.index()
    assert caught.value.mend
    assert len(bench.ollama.embed_calls) <= 25, "a fault that stays is not tried for minutes"
    assert bench.rows("SELECT status FROM last_run") == [("failed",)]
    assert find_drift(bench) == ()  # what was stored until then is whole

    # Who searches meanwhile is answered by words, and told so; or told why not.
    answer = bench.search("note 3")
    assert answer.results[0].file_path == "Note 03.md"
    assert any("Answered by keywords only" in notice for notice in answer.notices)
    with pytest.raises(EmbedderError):
        bench.search("note 3", "vector")

    bench.ollama.always = None
    assert bench.index().status == "ok"
    assert bench.tables() == undisturbed("tells")


def test_an_ollama_that_restarts_while_it_embeds_costs_no_note(
    bench: Workbench, undisturbed: Callable[[str], Tables], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_notes(bench.vault, NOTES)
    pauses: list[int] = []

    def pause(self: Patience, attempt: int, started: float) -> bool:
        pauses.append(attempt)
        if len(pauses) == 1:
            bench.ollama.stop()
        elif len(pauses) == 3:
            bench.ollama.start()
        return attempt < self.tries

    monkeypatch.setattr(Patience, "pause", pause)
    bench.ollama.faults += [None, "crash"]

    assert bench.index().status == "ok"

    assert len(pauses) >= 3, "it was away for a while"
    assert bench.tables() == undisturbed("says")


def test_a_search_that_waits_for_a_slow_ollama_gets_its_vectors(bench: Workbench, tmp_path: Path) -> None:
    from fault_bench import open_server, paths_of

    write_notes(bench.vault, NOTES)
    bench.index()
    held = Hold()
    bench.ollama.faults.append(held)
    with open_server(bench, tmp_path) as server:
        number = server.send(
            "tools/call", {"name": "search_notes", "arguments": {"query": "note 3", "mode": "vector"}}
        )
        assert held.entered.wait(60)
        assert not server.call("get_note", file_path="Note 01").get("isError")  # nobody else waits
        held.release.set()
        answer = server.read(number)["result"]
    assert answer["structuredContent"]["notices"] == []
    assert "Note 03.md" in paths_of(answer)
