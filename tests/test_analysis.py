"""What counts as a word, before PostgreSQL stems it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obsidian_rag.analysis import (
    LONGEST_TERM,
    analyze,
    analyze_query,
    fold,
    list_keys,
    list_trigrams,
    strip_extension,
)


@pytest.mark.parametrize(
    ("written", "folded"),
    [
        ("café", "cafe"),
        ("cafe\u0301", "cafe"),
        ("Größe", "Grosse"),
        ("Ångström", "Angstrom"),
        ("Łódź", "Lodz"),
        ("Übermaß", "Ubermass"),
        ("άλφα", "αλφα"),
        ("ёлка", "елка"),
        ("ﬁle", "file"),
        ("ＡＢＣ１", "ABC1"),
    ],
)
def test_diacritics_and_compatibility_forms_are_folded(written: str, folded: str) -> None:
    assert fold(written) == folded


@pytest.mark.parametrize("word", ["йод", "が", "ガ", "हिन्दी", "العربية"])
def test_what_is_a_letter_of_its_own_stays(word: str) -> None:
    assert fold(word) == word


@pytest.mark.parametrize(
    ("text", "words", "wholes"),
    [
        ("日本語", "日本 本語", ("日", "本", "語")),
        ("我爱 Docker 容器", "我爱 Docker 容器", ("我", "爱", "容", "器")),
        ("コンピュータ", "コン ンピ ピュ ュー ータ", ("コンピュータ",)),
        ("한국어", "한국 국어", ("한",)),
        ("木", "木", ("木",)),
        ("plain words", "plain words", ()),
        ("", "", ()),
        ("—…!", "", ()),
    ],
)
def test_scripts_without_spaces_become_pairs(text: str, words: str, wholes: tuple[str, ...]) -> None:
    terms = analyze(text)
    assert (terms.words, terms.wholes) == (words, wholes)


@pytest.mark.parametrize(
    ("text", "words", "whole"),
    [
        ("snake_case_name", "snake case name", "snake_case_name"),
        ("CamelCaseName", "Camel Case Name", "camelcasename"),
        ("parseHTMLPage", "parse HTML Page", "parsehtmlpage"),
        ("docker-compose.yml", "docker compose yml", "docker-compose.yml"),
        ("0x80070005", "0x80070005", None),
        ("192.168.1.10", "192 168 1 10", "192.168.1.10"),
        ("v2.3.1", "v2 3 1", "v2.3.1"),
        ("C++", "C", "c++"),
        ("C#", "C", "c#"),
        ("ann@example.com", "ann example com", "ann@example.com"),
        ("https://example.com/a/b?x=1", "https example com a b x 1", "example.com"),
    ],
)
def test_identifiers_are_words_by_part_and_a_whole(text: str, words: str, whole: str | None) -> None:
    terms = analyze(text)
    assert terms.words == words
    assert whole is None or whole in terms.wholes


def test_a_run_too_long_to_be_typed_has_no_whole() -> None:
    assert analyze("data:" + "a" * LONGEST_TERM).wholes == ()


def test_the_first_syllable_of_a_korean_word_is_no_word_of_a_query() -> None:
    assert analyze_query("책을 도서관").wholes == ()
    assert analyze_query("책").words == "책" in analyze("책을").wholes


def test_pairs_of_hiragana_are_left_out_of_a_query_that_has_other_words() -> None:
    assert analyze_query("東京はどこですか").words == "東京 京は"
    assert analyze_query("どこですか").words == analyze("どこですか").words != ""


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("Rotella Plan", ("rotella plan",)),
        ("GitHub", ("git hub", "github")),
        ("Café au lait!", ("cafe au lait",)),
        ("2024-01-31", ("2024 01 31",)),
        ("…", ()),
    ],
)
def test_a_name_has_a_key_for_each_way_to_write_it(name: str, keys: tuple[str, ...]) -> None:
    assert list_keys(name) == keys


def test_trigrams_are_those_of_padded_words() -> None:
    assert list_trigrams("cat") == sorted(["  c", " ca", "cat", "at "])
    assert list_trigrams("") == []


def test_only_the_extension_of_a_note_is_taken_off() -> None:
    assert [strip_extension(path) for path in ("a/b.md", "a/b.MD", "a.md.txt", "md")] == [
        "a/b",
        "a/b",
        "a.md.txt",
        "md",
    ]


@given(st.text(max_size=80))
def test_any_text_gives_words_that_postgresql_can_read(text: str) -> None:
    terms = analyze(text)
    assert terms.words == " ".join(terms.words.split())
    assert all(whole and whole == whole.strip() for whole in terms.wholes)
    assert not any(" " in whole for whole in terms.wholes)
    assert len(set(terms.wholes)) == len(terms.wholes)


@given(st.text(alphabet=st.characters(codec="utf-8", categories=("L", "N", "M", "Zs")), max_size=40))
def test_folding_twice_changes_nothing_more(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(st.text(max_size=60))
def test_two_spellings_of_one_name_share_a_key(text: str) -> None:
    spelled = list_keys(text)
    assert not spelled or set(list_keys(f"  {text}  ")) == set(spelled)
