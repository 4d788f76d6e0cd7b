"""Which notes a question names: on a real index, by titles, aliases, parts, and what links call them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

import pytest
from search_bench import SearchBench, open_search_bench

from obsidian_rag.naming import list_parts
from obsidian_rag.search.named import (
    LONGEST_RUN,
    MOST_NAMES,
    MOST_NODES,
    MOST_TOKENS,
    find_named,
    read_tokens,
)
from obsidian_rag.search.question import read_names

QUAY = "Clubs/Harbour Club - quay cinema"
NOTES = {
    "People/Ann Lee": "---\naliases: [Annie the Reel, Reeler]\n---\nShe threads projectors.\n",
    "People/Ann Moor": "She sells tickets.\n",
    "People/Bo Ashdown": "He sweeps.\n",
    "Places/Mercury (cinema)": "Forty seats.\n",
    "Places/Mercury (planetarium)": "A dome.\n",
    QUAY: "Meets by the water.\n",
    "Films/07 The Long Field": "A slow one.\n",
    "Films/2024-11-02 Sparrow Matinee": "Cold hall.\n",
    "Films/zz91": "---\ntitle: Lanterns of Skye\n---\nFog.\n",
    "Films/Steep Slope of Fog": "Hills.\n",
    "Evenings/Evening Ann Lee Bo Ashdown": "They argued.\n",
    "Meetings": "All of them, by year.\n",
    "Now": "What occupies me.\n",
    "Hall": "Keys.\n",
    "Investor meeting log": "Long.\n",
    "微光映画": "小さな映画館。\n",
    "東京都": "首都。\n",
    "京都": "古い町。\n",
    "王伟明": "放映员。\n",
    "Größe": "Maße.\n",
    "서울대학교": "학교.\n",
    "Links/Links one": f"[[{QUAY}|the herring people]] were loud. [[Otto Finch]] was not.\n",
    "Links/two": f"[[{QUAY}|the herring people]] again. [[Bo Ashdown|sweeper]] too.\n",
    "Links/three": "[[Größe]], [[서울대학교]] and [[Films/zz91]].\n",
    "Links/more": "[[Bo Ashdown]] " * 6,
    **{f"Reels/{n}/spool": f"Reel {n}.\n" for n in range(MOST_NODES + 1)},
    **{f"Log/n{n:02}": f"Film number {n}: the projector ran, the hall was cold.\n" for n in range(60)},
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, server: str, migrated: str) -> Iterator[SearchBench]:
    with open_search_bench(tmp_path_factory.mktemp("named"), server, migrated, NOTES) as bench:
        yield bench


def name_all(index: SearchBench, query: str) -> dict[str, dict[str, float]]:
    """The nodes that a query names, without `.md`, by the words that name them."""
    found = index.run(lambda conn: find_named(conn, query, read_tokens(query), index.reader.table))
    return {
        name.text: {node.removesuffix(".md"): round(weight, 2) for node, weight in name.nodes.items()}
        for name in found
    }


def named(index: SearchBench, query: str) -> dict[str, list[str]]:
    return {text: list(nodes) for text, nodes in name_all(index, query).items()}


@pytest.mark.parametrize(
    ("query", "words", "note"),
    [
        ("who threads for Ann Lee on Fridays", "Ann Lee", "People/Ann Lee"),  # title
        ("who threads for ann lee on fridays", "ann lee", "People/Ann Lee"),  # lower case
        ("ask Annie the Reel about it", "Annie the Reel", "People/Ann Lee"),  # alias
        ("did Reeler leave", "Reeler", "People/Ann Lee"),
        ("how long is The Long Field really", "The Long Field", "Films/07 The Long Field"),  # without number
        ("the Sparrow Matinee was cold", "Sparrow Matinee", "Films/2024-11-02 Sparrow Matinee"),
        ("fog in Lanterns of Skye", "Lanterns of Skye", "Films/zz91"),  # property `title`
        ("do zz91 and others have fog", "zz91", "Films/zz91"),  # its file's name as well
        ("who pays Harbour Club", "Harbour Club", QUAY),  # before ` - `
        ("what do the herring people eat", "the herring people", QUAY),  # what links call it, twice
        ("walk down Steep Slope in mist", "Steep Slope", "Films/Steep Slope of Fog"),  # part of a title
        ("where is Otto Finch", "Otto Finch", "?otto finch"),  # not written yet
        ("Grösse der Leinwand", "Grösse", "Größe"),
    ],
)
def test_a_note_is_named_inside_a_question(index: SearchBench, query: str, words: str, note: str) -> None:
    assert named(index, query) == {words: [note]}


@pytest.mark.parametrize("query", ["is this Ann Lee's reel", "is this Ann Lee’s reel", "Ann Lee's"])
def test_the_possessive_of_a_name_names_it(index: SearchBench, query: str) -> None:
    assert list(named(index, query).values()) == [["People/Ann Lee"]]


def test_a_single_word_of_a_name_must_be_written_as_a_name(index: SearchBench) -> None:
    assert named(index, "the van of Ashdown is old") == {"Ashdown": ["People/Bo Ashdown"]}
    assert named(index, "the van of ashdown is old") == {}
    assert named(index, "Ashdown drives a van") == {}  # a sentence begins with a capital letter anyway
    assert named(index, "Ashdown's van is old") == {"Ashdown's": ["People/Bo Ashdown"]}


def test_plain_words_between_do_not_part_a_name(index: SearchBench) -> None:
    evening = ["Evenings/Evening Ann Lee Bo Ashdown"]
    found = named(index, "what came of the evening between Ann Lee and Bo Ashdown?")
    assert found == {"evening between Ann Lee and Bo Ashdown": evening}
    assert list(named(index, "the evening when Bo Ashdown and Ann Lee met")) == ["Bo Ashdown", "Ann Lee"]


def test_the_longest_run_of_words_wins(index: SearchBench) -> None:
    assert name_all(index, "seats of Mercury (cinema)") == {
        "Mercury (cinema": {"Places/Mercury (cinema)": 1.0}
    }
    assert name_all(index, "slope of Steep Slope of Fog")["Steep Slope of Fog"] == {
        "Films/Steep Slope of Fog": 1.0
    }


def test_a_name_of_several_notes_names_them_all_and_less_of_each(index: SearchBench) -> None:
    both = {"Places/Mercury (cinema)": 0.64, "Places/Mercury (planetarium)": 0.64}  # .9 / sqrt(2)
    assert name_all(index, "the dome of Mercury") == {"Mercury": both}
    assert name_all(index, "tickets from Ann") == {"Ann": {"People/Ann Lee": 0.21, "People/Ann Moor": 0.21}}


def test_a_name_of_very_many_notes_is_a_word(index: SearchBench) -> None:
    assert named(index, "which Spool is torn") == {}
    assert named(index, "which Spool does Bo Ashdown mend") == {"Bo Ashdown": ["People/Bo Ashdown"]}


def test_names_in_order_of_the_question_none_over_another(index: SearchBench) -> None:
    assert list(named(index, "do Bo Ashdown and Ann Lee like Lanterns of Skye")) == [
        "Bo Ashdown",
        "Ann Lee",
        "Lanterns of Skye",
    ]


@pytest.mark.parametrize(
    "query",
    [
        "which film was cold in the hall",  # in every note
        "was that an investor meeting",  # part of a title, but words that ask
        "where are the projectors now",  # `Now` is a note, and a word
        "what is it",
        "was sweeper work hard",  # one of many links calls him so, once
        "who is the one of them all and more",
        "?",
        "...",
        "12 and 2024",
    ],
)
def test_common_words_name_nothing(index: SearchBench, query: str) -> None:
    assert named(index, query) == {}


def test_a_common_word_that_is_written_as_a_name_is_one(index: SearchBench) -> None:
    """`hall` is in most notes, and the title of one."""
    assert named(index, "the keys of Hall") == {"Hall": ["Hall"]}


def test_a_word_that_asks_is_no_name_beside_one(index: SearchBench) -> None:
    """`Meetings` is a note, as many vaults have one, but here its name says what is asked for."""
    assert named(index, "which meetings did Ann Lee attend") == {"Ann Lee": ["People/Ann Lee"]}
    assert named(index, "meetings, by year") == {"meetings": ["Meetings"]}
    assert "Meetings" in named(index, "is Ann Lee in Meetings")


@pytest.mark.parametrize(
    ("query", "words", "note"),
    [
        ("微光映画は何人座れますか", "微光映画", "微光映画"),
        ("放映员王伟明什么时候来", "王伟明", "王伟明"),
        ("東京都の人口は", "東京都", "東京都"),  # and not 京都
        ("京都の町は古い", "京都", "京都"),
    ],
)
def test_names_of_scripts_without_spaces_are_found_inside_a_sentence(
    index: SearchBench, query: str, words: str, note: str
) -> None:
    assert named(index, query) == {words: [note]}


@pytest.mark.parametrize(
    ("query", "note"),
    [
        (unicodedata.normalize("NFD", "die Größe der Wand"), "Größe.md"),
        (unicodedata.normalize("NFD", "서울대학교는 어디"), "서울대학교.md"),
        ("ｚｚ９１ fog", "Films/zz91.md"),
    ],
)
def test_another_unicode_form_of_a_name_is_the_name(index: SearchBench, query: str, note: str) -> None:
    question = index.run(lambda conn: read_names(conn, query, index.reader.table))
    assert question is not None
    assert [list(name.nodes) for name in question.named] == [[note]]


@pytest.mark.parametrize(
    ("query", "is_read"),
    [
        ("who threads for Ann Lee", False),  # nothing links her, and she links nothing
        ("who threads for Bo Ashdown", True),  # linked
        ("what is in Links one", True),  # links others
        ("where is Otto Finch", True),  # not written, but linked
        ("does Ann Lee know Bo Ashdown", True),
    ],
)
def test_a_question_is_read_where_links_touch_what_it_names(
    index: SearchBench, query: str, is_read: bool
) -> None:
    found = index.run(lambda conn: read_names(conn, query, index.reader.table))
    assert (found is not None) is is_read


def test_a_text_names_a_few_notes_and_is_read_to_a_length(index: SearchBench) -> None:
    names = [name.rpartition("/")[2] for name in NOTES if name.startswith(("Log/", "People/"))]
    assert len(named(index, "; ".join(names))) == MOST_NAMES
    long = "word " * MOST_TOKENS + "Ann Lee"
    assert named(index, long) == {}
    assert len(read_tokens("a " * 2000)) == MOST_TOKENS
    assert len(read_tokens("微" * 4000)) == MOST_TOKENS
    hostile = ["((((" * 900, "'’" * 1900, "A'" * 1300, "-" * 3999, "ก็" * 1900, "\u202e\u200d Ann Lee’s’s"]
    for query in hostile:
        assert len(name_all(index, query)) <= MOST_NAMES


def test_a_longer_name_than_the_longest_run_is_still_safe(index: SearchBench) -> None:
    assert named(index, " ".join(["Ann"] * (LONGEST_RUN + 2)) + " Lee")["Ann Lee"] == ["People/Ann Lee"]


@pytest.mark.parametrize(
    ("query", "marked"),
    [
        ("Who saw Ann", ["Ann"]),
        ("is it B2 or b2 or b", ["B2", "b2"]),
        ("It rained. Then Bo came: Late", ["Bo"]),
        ("WHO SAW ANN", ["WHO", "SAW", "ANN"]),
        ("McFee eats", ["McFee"]),
        ("映画", []),
    ],
)
def test_a_name_is_told_by_how_it_is_written(query: str, marked: list[str]) -> None:
    assert [query[t.first : t.last] for t in read_tokens(query) if t.marked] == marked


def test_where_a_clause_begins_is_told() -> None:
    tokens = read_tokens("Of those in it, who came? Who else; whom")
    assert [token.text for token in tokens if token.opens] == ["of", "who", "who", "whom"]


@pytest.mark.parametrize(
    ("name", "shorts"),
    [
        ("2024-11-02 Sparrow Matinee", {"sparrow matinee"}),
        ("07 The Long Field", {"the long field"}),
        ("Reel 12", {"reel"}),
        ("Mercury (cinema)", {"mercury"}),
        ("Harbour Club - quay cinema", {"harbour club"}),
        ("2024-11-02", set()),
        ("Ann Lee", set()),
    ],
)
def test_a_name_without_numbers_and_additions_is_a_name(name: str, shorts: set[str]) -> None:
    assert {key for kind, _, key in list_parts([name]) if kind == "short"} == shorts
