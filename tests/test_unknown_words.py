"""Words of a query that no note holds: named as they were written, with those that may be meant."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from search_bench import SearchBench, open_search_bench

from obsidian_rag.search.unknown_words import find_meant, name_unknown

NOTES = {
    "Trips/Portugal": "# Autumn\n\nTwo nights in Lisbon, then the train. The hostel is booked.\n",
    "Running": "He runs by the river, running slowly. Definitely no marathon.\n",
    "Cluster": "Kubernetes on three small machines.\n",
    "Поездка": "Мы забронировали гостиницу в Лиссабоне.\n",
    "北京": "東京へ旅行した。鯨を見た。旅館に泊まる。\n",
    "Named only Glockenspiel": "An instrument.\n",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, server: str, migrated: str) -> Iterator[SearchBench]:
    with open_search_bench(tmp_path_factory.mktemp("unknown"), server, migrated, NOTES) as bench:
        yield bench


def notices(index: SearchBench, query: str, mode: str = "hybrid") -> str:
    return "\n".join(index.ask(query, mode).notices)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("lisbn hotel", "Not found anywhere: lisbn, hotel. Did you mean: Lisbon, hostel?"),
        ("LISBN", "Not found anywhere: LISBN. Did you mean: Lisbon?"),
        ("ilsbon", "Did you mean: Lisbon?"),  # the first letter may be wrong as well
        ("lisbbon", "Did you mean: Lisbon?"),
        ("rnning", "Did you mean: running?"),  # the word of the notes, not its stem
        ("kubenrtes", "Did you mean: Kubernetes?"),  # two slips in a long word
        ("glockenspeil", "Did you mean: Glockenspiel?"),  # only a name holds it
        ("гостинцу", "Did you mean: гостиницу?"),
    ],
)
@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
def test_a_word_that_is_nowhere_brings_the_near_one_of_the_notes(
    index: SearchBench, query: str, told: str, mode: str
) -> None:
    assert told in notices(index, query, mode)


@pytest.mark.parametrize(
    "query",
    [
        "lisbon",  # is there
        "lsbn",  # two slips in a short word
        "rnu",  # a short word is near too many
        "xylograph",  # near none
        "kubernetes2031",  # a number is what it is
        "-lisbn river",  # must not be there
    ],
)
def test_what_is_there_or_near_nothing_is_not_corrected(index: SearchBench, query: str) -> None:
    assert "Did you mean" not in notices(index, query)


def test_a_query_by_meaning_alone_needs_no_words(index: SearchBench) -> None:
    assert "Did you mean" not in notices(index, "lisbn", "vector")


def test_the_results_are_those_of_the_words_that_were_written(index: SearchBench) -> None:
    def find(query: str) -> list[str]:
        return [hit.file_path for hit in index.ask(query, "keyword").results]

    assert find("lisbn river") == find("river") == ["Running.md"]


def test_what_is_looked_up_does_not_grow_with_the_query(index: SearchBench) -> None:
    many = [f"lisb{letter}n" for letter in "abcdefgh"]
    found = index.run(lambda conn: find_meant(conn, ["english"], many))
    assert set(found) <= set(many[:3])
    assert index.run(lambda conn: find_meant(conn, ["english"], ["x" * 5000])) == {}


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("鯨旅館", []),  # two words that are there; the pair across their border means nothing
        ("蒸気機関", ["蒸気機関"]),
        ("東京の蒸気機関", ["蒸気機関"]),
        ("蒸気機関について教えて", ["蒸気機関", "教"]),
        ("クジラを観察", ["クジラを観察"]),
        ("ubuntuサーバ", ["ubuntuサーバ"]),
        ("猫", ["猫"]),
        ("東京 GitLab", ["GitLab"]),
        ("Zürch's lisbn?", ["Zürch", "lisbn"]),
        ("docker-lisbon.yml", ["docker", "yml"]),
        ("(हिन्दी), cafe\u0301?", ["हिन्दी", "café"]),  # with their marks
        ("ภาษาไทยดี", ["ภาษาไทยดี"]),
    ],
)
def test_what_is_found_nowhere_is_named_as_it_was_written(
    index: SearchBench, query: str, named: list[str]
) -> None:
    assert list(index.keywords(query).missing) == named


def test_only_whole_words_or_runs_are_named() -> None:
    assert name_unknown("日本語 text", {"日本", "本語"}) == ("日本語",)
    assert name_unknown("日本語", {"本語"}, {"語"}) == ()
    assert name_unknown("日本語", {"本語"}) == ("語",)
    assert name_unknown('"日本語"、 (xyzzy)', {"日本", "本語", "xyzzy"}) == ("日本語", "xyzzy")
