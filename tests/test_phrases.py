"""Words that no table holds, compared with seed sentences. Pure: vectors are made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from obsidian_rag.relations import Relation, Table, load_table
from obsidian_rag.search.named import Named, read_tokens
from obsidian_rag.search.phrases import (
    ALONE,
    BESIDE_CUE,
    LONGEST_PHRASE,
    MOST_PHRASES,
    SURE,
    Phrase,
    Seeds,
    list_phrases,
    list_seeds,
    make_seeds,
    match_phrases,
)
from obsidian_rag.search.plans import read_question
from obsidian_rag.search.question import Question, understand

TABLE = Table(
    {
        "planted": Relation("planted", ("plant*",), seeds=("put in the ground", "sown")),
        "watered": Relation("watered", ("water*",), seeds=("gave water",)),
        "none": Relation("none", ("nothing",)),
    },
    {},
    (),
    frozenset(["who", "the", "a", "by", "of", "in"]),
    b"",
)


def phrases_of(query: str, name: tuple[int, int] | None = None) -> list[str]:
    tokens = read_tokens(query)
    named = [Named(*name, "", {"N.md": 1.0})] if name else []
    return [p.text for p in list_phrases(query, tokens, named, read_question(tokens, named, TABLE))]


def test_phrases_are_runs_of_words_that_nothing_explains() -> None:
    assert phrases_of("who soaked beans", None) == ["soaked", "soaked beans", "beans"]


def test_plain_words_may_stand_inside_a_phrase_and_not_at_its_ends() -> None:
    assert phrases_of("who put seed in the ground") == [
        "put",
        "put seed",
        "seed",
        "seed in the ground",
        "ground",
    ]


def test_no_phrase_holds_a_name_or_a_cue() -> None:
    assert phrases_of("soaked North Strip twice", (1, 3)) == ["soaked", "twice"]
    assert phrases_of("soaked watered twice") == ["soaked", "twice"]
    assert phrases_of("who watered by planting") == []


def test_phrases_are_short_and_few() -> None:
    found = phrases_of(" ".join(f"word{n}x" for n in range(100)))
    assert len(found) == MOST_PHRASES
    assert max(len(text.split()) for text in found) == LONGEST_PHRASE


def test_seeds_are_those_of_every_relation() -> None:
    assert list_seeds(TABLE) == [
        ("planted", "put in the ground"),
        ("planted", "sown"),
        ("watered", "gave water"),
    ]
    bundled = load_table()
    assert {name for name, _ in list_seeds(bundled)} <= set(bundled.relations)


def unit(*values: float) -> list[float]:
    vector = np.array(values, dtype=np.float32)
    return [float(x) for x in vector / np.linalg.norm(vector)]


def test_the_height_of_a_models_cosines_is_that_of_seeds_of_unlike_relations() -> None:
    vectors = [np.array(unit(1, 0)), np.array(unit(1, 0)), np.array(unit(0, 1)), np.array(unit(1, 1))]
    seeds = make_seeds(["a", "a", "b", "c"], vectors)
    unlike = [0.0, 0.0, 0.7071, 0.7071, 0.7071]  # a-b twice, a-c twice, b-c; a-a says nothing
    assert seeds.mean == pytest.approx(np.mean(unlike), abs=1e-3)
    assert seeds.spread == pytest.approx(np.std(unlike), abs=1e-3)


def test_seeds_that_are_all_alike_have_a_spread_still() -> None:
    seeds = make_seeds(["a", "b"], [np.array(unit(1, 0)), np.array(unit(1, 0))])
    assert seeds.spread == 1.0


def match(
    deviations: Sequence[Sequence[float]], phrases: Sequence[Phrase], has_cue: bool
) -> dict[tuple[int, int], dict[str, float]]:
    """Phrases that stand so many deviations from each seed: of `planted`, `watered` and `planted` again."""
    seeds = Seeds(("planted", "watered", "planted"), np.eye(3, dtype=np.float32), mean=0.0, spread=1.0)
    return match_phrases(phrases, [np.array(row, dtype=np.float32) for row in deviations], seeds, has_cue)


ONE = Phrase(1, 2, "soaked")


def test_a_phrase_means_what_it_stands_out_for() -> None:
    assert match([[0.0, 3.0, 0.0]], [ONE], False) == {(1, 2): {"watered": pytest.approx(3.0 / SURE)}}
    assert match([[0.0, 50.0, 0.0]], [ONE], False) == {(1, 2): {"watered": 1.0}}


def test_beside_a_cue_a_phrase_must_stand_out_further() -> None:
    between = (ALONE + BESIDE_CUE) / 2
    assert match([[0.0, between, 0.0]], [ONE], False) != {}
    assert match([[0.0, between, 0.0]], [ONE], True) == {}
    assert match([[0.0, ALONE - 0.1, 0.0]], [ONE], False) == {}


def test_a_phrase_may_mean_two_relations_that_are_nearly_as_near() -> None:
    assert set(match([[2.9, 3.0, 0.0]], [ONE], False)[1, 2]) == {"planted", "watered"}
    assert set(match([[2.45, 4.0, 0.0]], [ONE], False)[1, 2]) == {"watered"}


def test_a_relation_counts_by_its_nearest_seed() -> None:
    assert match([[3.0, 0.0, 4.0]], [ONE], False) == {(1, 2): {"planted": pytest.approx(4.0 / SURE)}}


def test_of_phrases_that_overlap_the_nearest_counts() -> None:
    phrases = [ONE, Phrase(1, 3, "soaked well"), Phrase(4, 5, "dug")]
    found = match([[0, 3.0, 0], [0, 3.5, 0], [2.6, 0, 0]], phrases, False)
    assert set(found) == {(1, 3), (4, 5)}


def test_without_phrases_nothing_is_matched() -> None:
    assert match([], [], False) == {}


def make_question(query: str) -> Question:
    tokens = read_tokens(query)
    named = [Named(0, 1, "N", {"N.md": 1.0})]
    reading = read_question(tokens, named, TABLE)
    phrases = list_phrases(query, tokens, named, reading)
    return Question(tuple(tokens), tuple(named), reading, tuple(phrases), ())


def test_what_the_embedder_rejected_is_left_out() -> None:
    """A seed or a phrase without a vector takes nothing from the others."""
    question = make_question("N soaked beans")
    seeds = {"put in the ground": [1, 0, 0], "sown": [1, 0.2, 0], "gave water": [0, 1, 0]}
    vectors = {text: np.array(unit(*v)) for text, v in seeds.items()}
    near = vectors | {"soaked": np.array(unit(0, 1, 0))}

    assert understand(question, TABLE, {}) == question
    assert understand(question, TABLE, vectors) == question
    only_one = {text: near[text] for text in ("put in the ground", "sown", "soaked")}
    assert understand(question, TABLE, only_one) == question  # nothing to compare relations by
    found = understand(question, TABLE, near)
    assert [dict(cue.relations).keys() for cue in found.reading.cues] == [{"watered"}]
    assert replace(found, reading=question.reading) == question
