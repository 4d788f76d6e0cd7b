"""How far vectors are trusted: measured by the indexer, kept in the index, used by the search."""

from __future__ import annotations

import random

import numpy as np
import pytest
from conftest import VaultFolder, Workbench

from obsidian_rag.postgres import connect
from obsidian_rag.search import calibration
from obsidian_rag.search.calibration import (
    LEAST_CHUNKS,
    LEAST_G,
    LEAST_WORDS,
    MOST_WORDS,
    measure,
    needs_measuring,
)

SYLLABLES = ["ba", "ke", "lo", "mi", "nu", "pra", "sto", "tri", "vel", "zan"]
READ = "SELECT fusion_g, fusion_chunks FROM index_settings"


def say(chance: random.Random) -> str:
    """A sentence of made-up words, unlike any other."""
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(2, 4))) for _ in range(12)]
    return " ".join(words).capitalize() + "."


def fill(vault: VaultFolder, count: int) -> None:
    chance = random.Random(count)
    for number in range(count):
        vault.write(f"n{number}.md", f"{say(chance)} {say(chance)}\n")


@pytest.mark.parametrize(
    ("chunks", "measured_at", "needed"),
    [
        (LEAST_CHUNKS - 1, None, False),
        (LEAST_CHUNKS, None, True),
        (1000, 1000, False),
        (1400, 1000, False),
        (1600, 1000, True),
        (700, 1000, False),
        (600, 1000, True),
        (10, 1000, False),
    ],
)
def test_an_index_is_measured_again_when_it_has_outgrown_it(
    chunks: int, measured_at: int | None, needed: bool
) -> None:
    assert needs_measuring(chunks, measured_at) is needed


def test_the_indexer_measures_once_and_again_only_when_the_index_has_grown(bench: Workbench) -> None:
    fill(bench.vault, LEAST_CHUNKS + 20)
    bench.index()
    [(g, chunks)] = bench.rows(READ)
    assert LEAST_G <= g <= 1
    assert chunks == LEAST_CHUNKS + 20

    bench.vault.write("one more.md", "One more sentence that has enough words to be asked.\n")
    bench.index()
    assert bench.rows(READ) == [(g, chunks)]

    fill(bench.vault, 2 * chunks)
    bench.index()
    assert bench.rows(READ)[0][1] > chunks


def test_a_small_index_is_not_measured_and_is_searched_all_the_same(bench: Workbench) -> None:
    fill(bench.vault, 3)
    report = bench.index()
    assert report.chunks_embedded == 3
    assert bench.rows(READ) == [(None, None)]
    first = bench.search(bench.vault.read("n1.md").split(".")[0])
    assert first.results[0].file_path == "n1.md"


def test_a_model_that_finds_nothing_is_hardly_trusted_and_one_that_finds_all_is(bench: Workbench) -> None:
    fill(bench.vault, LEAST_CHUNKS + 20)
    bench.index()
    numbers = np.random.default_rng(1)
    texts = {path: content for path, content in bench.rows("SELECT file_path, content FROM documents")}
    stored = dict(bench.rows("SELECT file_path, embedding FROM documents"))

    def guess(sentence: str) -> np.ndarray:
        vector = numbers.normal(size=64)
        return (vector / np.linalg.norm(vector)).astype(np.float32)

    def know(sentence: str) -> np.ndarray:
        path = next(path for path, text in texts.items() if sentence in text)
        return np.array(stored[path].strip("[]").split(","), dtype=np.float32)

    with connect(bench.database_url, read_only=True) as conn:
        blind, knowing = measure(conn, guess), measure(conn, know)
        assert measure(conn, know) == knowing
    assert blind is not None
    assert knowing is not None
    assert blind.g == LEAST_G
    assert knowing.g == 1.0
    assert knowing.questions == LEAST_CHUNKS + 20


def test_notes_without_sentences_are_not_measured(bench: Workbench) -> None:
    for number in range(LEAST_CHUNKS + 5):
        bench.vault.write(f"n{number}.md", f"- item {number}\n")
    report = bench.index()
    assert report.chunks_embedded == LEAST_CHUNKS + 5
    assert bench.rows(READ) == [(None, None)]


@pytest.mark.parametrize(
    ("content", "question"),
    [
        ("One two three four five six seven eight nine ten.", "One two three four five six seven eight"),
        ("Too short. Nor this!", ""),
        ("- **one** two three four five", "one** two three four five"),
        ("今日は庭に水をやりました。", "今日は庭に水をや"),
        ("", ""),
    ],
)
def test_a_question_is_the_beginning_of_a_sentence(content: str, question: str) -> None:
    assert calibration._pick_sentence(content, random.Random(0)) == question
    assert LEAST_WORDS < MOST_WORDS
