"""benchmarks/soak.py: a short one, and that it would find what it looks for."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from conftest import VaultFolder

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

import soak
import soak_calls
import soak_notes


def test_a_server_answers_rightly_while_notes_change_and_the_database_restarts() -> None:
    findings = soak.soak(soak.read_options(["--calls=240", "--callers=6", "--servers=1", "--restarts=2"]))
    assert findings.faults == []
    assert findings.calls >= 240 and findings.beside > 0
    assert len(findings.restarts) == 2
    assert sum(findings.runs.values()) > 0
    assert findings.samples and max(sample.connections for sample in findings.samples) <= 2 * 6 + 4


class Parrot:
    """A client that answers all calls alike."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.answer


def note(text: str) -> dict[str, Any]:
    return {"structuredContent": {"content": text}}


def hits(*found: tuple[str, str], notices: tuple[str, ...] = ()) -> dict[str, Any]:
    results = [{"file_path": path, "content": content} for path, content in found]
    return {"structuredContent": {"results": results, "notices": list(notices)}}


def edges(*paths: str) -> dict[str, Any]:
    return {"structuredContent": {"edges": [{"file_path": path} for path in paths]}}


def topics(**counts: int) -> dict[str, Any]:
    return {"structuredContent": {"topics": [{"name": n, "notes": c} for n, c in counts.items()]}}


TEXTS = [soak_notes.changing_text(0, edition) for edition in (2, 3)]
PART = "Topic0 of edition x{}x, part 0."
COLOUR = "The colour of subject0 is red."
STABLE = soak_notes.stable_path(0)
RIGHT: dict[str, list[dict[str, Any]]] = {
    "get_stable": [note(soak_notes.stable_text(0))],
    "get_changing": [note(text) for text in TEXTS],
    "search_words": [hits((STABLE, COLOUR))],
    "search_meaning": [hits(("Other.md", ""), (STABLE, COLOUR))],
    "search_changing": [hits(("Changing/Note 0.md", PART.format(2)))],
    "search_moving": [hits((soak_notes.moving_paths(0)[0], ""))],
    "search_passing": [hits(("Passing/Note 0.md", ""))],
    "topics": [topics(Stable=soak_notes.STABLE, Changing=soak_notes.CHANGING, Here=soak_notes.MOVING)],
}
WRONG: dict[str, list[dict[str, Any]]] = {
    "get_stable": [note(soak_notes.stable_text(1))],
    "get_changing": [
        note(TEXTS[0][:60] + TEXTS[1][60:]), note(soak_notes.changing_text(0, 1)),
        note(soak_notes.changing_text(0, 4)),
    ],
    "search_words": [hits(), hits((STABLE, "")), hits((STABLE, COLOUR), notices=("by keywords only",))],
    "search_meaning": [hits()],
    "search_changing": [
        hits(), hits(*(("Changing/Note 0.md", PART.format(edition)) for edition in (2, 3))),
        hits(("Changing/Note 0.md", PART.format(1))),
    ],
    "search_moving": [hits(), hits(*((path, "") for path in soak_notes.moving_paths(0)))],
    "walk": [edges(), edges(STABLE)],
    "topics": [topics(Stable=soak_notes.STABLE - 1, Changing=soak_notes.CHANGING, Here=soak_notes.MOVING)],
    "mistake": [note("")],
}  # fmt: skip


def ask(kind: str, answer: dict[str, Any], folder: Path) -> None:
    """Ask about note 0 while the index holds edition 2, or already 3."""
    truth = soak_notes.Truth(VaultFolder(folder), random.Random(0))
    truth.done.append((0.0, 2))
    truth.begun += [(0.0, 2), (0.0, 3)]

    class First(random.Random):
        def randrange(self, *_: Any) -> int:
            return 0

    client = cast("soak_calls.Client", Parrot(answer))
    asyncio.run(getattr(soak_calls.Caller(client, truth, First(0), {}), kind)())


@pytest.mark.parametrize("kind", RIGHT)
def test_right_answers_are_taken_for_right(kind: str, tmp_path: Path) -> None:
    for answer in RIGHT[kind]:
        ask(kind, answer, tmp_path)


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_answers_are_found(kind: str, tmp_path: Path) -> None:
    for answer in WRONG[kind]:
        with pytest.raises(soak_calls.WrongAnswer):
            ask(kind, answer, tmp_path)


def test_growing_memory_and_files_are_found() -> None:
    def find(*samples: tuple[float, int]) -> list[str]:
        findings = soak.Findings()
        for number, (memory, files) in enumerate(samples, 1):
            findings.samples.append(soak.Sample(number * 100, memory, files, 10, 3))
        soak.judge(findings, 100 * len(samples))
        return findings.faults

    assert find((100, 20), (110, 22), (112, 21)) == []
    assert [fault.split()[0] for fault in find((100, 20), (130, 20), (160, 20))] == ["memory"]
    assert [fault.split()[0] for fault in find((100, 20), (100, 30), (100, 40))] == ["open"]
