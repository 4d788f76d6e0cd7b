"""Fusing ranked lists: properties that hold for any lists."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obsidian_rag.models import Calibration
from obsidian_rag.search.fusion import NAME_WEIGHTS, RRF_K, fuse, fuse_ranks, order_dated, rank_calibrated
from obsidian_rag.search.keyword import KeywordHit, KeywordResult
from obsidian_rag.search.names import NameHit
from obsidian_rag.search.query import make_request
from obsidian_rag.search.retrieval import Retrieved
from obsidian_rag.search.vector import VectorHit

keys = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)
lists = st.dictionaries(st.sampled_from(["vector", "keyword", "names"]), keys, max_size=3)
scored = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.01, 0.99), max_size=8)


def make_retrieved(
    near: dict[str, float], words: dict[str, float], names: tuple[NameHit, ...] = (), g: float = 1.0
) -> Retrieved:
    vector = [VectorHit(p, 0, c) for p, c in sorted(near.items(), key=lambda pair: (-pair[1], pair[0]))]
    hits = [KeywordHit(p, 0, s, 1) for p, s in sorted(words.items(), key=lambda pair: (-pair[1], pair[0]))]
    return Retrieved(
        vector=vector,
        keyword=KeywordResult(tuple(hits), 3),
        names=names,
        dated=(),
        cosines={hit.file_path: hit for hit in vector},
        calibration=Calibration(g, cosine_mean=0.2, cosine_spread=0.1),
        has_vector=True,
        notices=(),
    )


@given(lists)
def test_the_score_of_a_key_is_the_sum_over_its_lists(found: dict[str, list[str]]) -> None:
    fused = fuse_ranks(found)
    for key, score, ranks in fused:
        assert ranks == {name: ks.index(key) + 1 for name, ks in found.items() if key in ks}
        assert score == pytest.approx(sum(1 / (RRF_K + rank) for rank in ranks.values()))
    assert {key for key, _, _ in fused} == {key for ks in found.values() for key in ks}
    assert [score for _, score, _ in fused] == sorted((score for _, score, _ in fused), reverse=True)


@given(lists)
def test_a_silent_retriever_changes_nothing(found: dict[str, list[str]]) -> None:
    assert fuse_ranks({**found, "silent": []}) == fuse_ranks(found)


@given(keys)
def test_one_list_alone_keeps_its_order(found: list[str]) -> None:
    assert [key for key, _, _ in fuse_ranks({"only": found})] == found


@given(keys, st.sampled_from("abcdefgh"))
def test_being_first_everywhere_is_being_first(found: list[str], best: str) -> None:
    first = [best, *(key for key in found if key != best)]
    others = [best, *sorted(key for key in found if key != best)]
    assert fuse_ranks({"one": first, "other": others})[0][0] == best


@given(lists, st.sampled_from([0.5, 2.0, 3.0]))
def test_a_weight_counts_for_its_list_alone(found: dict[str, list[str]], weight: float) -> None:
    plain = {key: (score, ranks) for key, score, ranks in fuse_ranks(found)}
    for key, score, ranks in fuse_ranks(found, {"names": weight}):
        added = (weight - 1) / (RRF_K + ranks["names"]) if "names" in ranks else 0.0
        assert score == pytest.approx(plain[key][0] + added)


@given(scored, scored)
def test_the_calibrated_list_holds_every_note_once(near: dict[str, float], words: dict[str, float]) -> None:
    ranked = rank_calibrated(make_retrieved(near, words))
    assert sorted(ranked) == sorted({*near, *words})


@given(scored, scored)
def test_vectors_that_are_not_trusted_leave_the_order_to_words(
    near: dict[str, float], words: dict[str, float]
) -> None:
    ranked = rank_calibrated(make_retrieved(near, words, g=0.0))
    assert [path for path in ranked if path in words] == sorted(words, key=lambda p: (-words[p], p))


@given(scored)
def test_without_a_word_in_common_nearness_decides(near: dict[str, float]) -> None:
    assert rank_calibrated(make_retrieved(near, {})) == sorted(near, key=lambda p: (-near[p], p))


@given(scored, st.sampled_from("abcdefgh"))
def test_more_of_both_is_never_further_down(words: dict[str, float], best: str) -> None:
    near = dict.fromkeys(words, 0.3) | {best: 1.0}
    assert rank_calibrated(make_retrieved(near, words | {best: 0.995}))[0] == best


@pytest.mark.parametrize("match", ["exact_title", "alias"])
def test_a_whole_name_is_first_whatever_else_is_found(match: str) -> None:
    near = {f"note {n:02}": 0.9 - n / 100 for n in range(30)}
    words = {f"note {n:02}": 0.9 - n / 100 for n in range(30)}
    named = NameHit("elsewhere", match, "any")  # type: ignore[arg-type]
    fused = fuse(make_retrieved(near, words, (named,)), make_request("any"), "entity")
    assert fused[0].file_path == "elsewhere"
    assert fused[0].ranks == {"names": 1}
    assert set(NAME_WEIGHTS) >= {match}


def test_each_note_shows_the_rank_of_every_retriever() -> None:
    fused = fuse(make_retrieved({"a": 0.9, "b": 0.8}, {"b": 0.9}), make_request("any"), "general")
    assert {note.file_path: note.ranks for note in fused} == {
        "a": {"vector": 1},
        "b": {"vector": 2, "keyword": 1},
    }


def test_plain_fusion_is_rrf_of_the_two_lists() -> None:
    retrieved = make_retrieved({"a": 0.9, "b": 0.8, "c": 0.1}, {"c": 0.9, "b": 0.2})
    request = make_request("any", without=frozenset({"calibration"}))
    fused = {note.file_path: note.score for note in fuse(retrieved, request, "general")}
    k = RRF_K
    assert fused == pytest.approx({"a": 1 / (k + 1), "b": 2 / (k + 2), "c": 1 / (k + 3) + 1 / (k + 1)})


def test_where_the_embedder_is_down_the_words_keep_their_order() -> None:
    retrieved = replace(make_retrieved({}, {"a": 0.2, "b": 0.9}), has_vector=False)
    assert [note.file_path for note in fuse(retrieved, make_request("any"), "general")] == ["b", "a"]


def test_a_period_alone_shows_its_notes_and_beside_other_words_only_those_found() -> None:
    assert order_dated(["x", "a", "y"], ["b", "a"], words=2) == ["a", "x", "y"]
    assert order_dated(["x", "a", "y"], ["b", "a"], words=9) == ["a"]
