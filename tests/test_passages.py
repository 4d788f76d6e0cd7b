"""The part of a chunk that is shown, and which of its words are marked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obsidian_rag.passages import CUT, MOST_MARKS, clip, mark, read_wanted
from obsidian_rag.tokens import count_fitting, estimate_tokens


def marked(query: str, text: str) -> str:
    return mark(text, read_wanted(query))


@pytest.mark.parametrize(
    ("query", "text", "shown"),
    [
        ("drive size", "The drive has a size.", "The **drive** has a **size**."),
        ("driving", "He drives; a drive, driven.", "He **drives**; a **drive**, **driven**."),
        ("Größe", "Die GRÖSSE und die Größe.", "Die **GRÖSSE** und die **Größe**."),
        ("cafe", "Un café crème.", "Un **café** crème."),
        ("NAS", "My NAS, and nasty.", "My **NAS**, and nasty."),
        ("what did I do about the NAS", "I did what I do about it.", "I did what I do about it."),
        ("予定", "来週の予定です", "来週の**予定**です"),
        ("error 0x80070005", "It said 0x80070005.", "It said **0x80070005**."),
        ("parity -disk", "A parity disk.", "A **parity** disk."),
        ('-"parity disk" drive', "A parity disk, a drive.", "A parity disk, a **drive**."),
    ],
)  # fmt: skip
def test_words_that_were_asked_for_are_marked_in_whatever_form(query: str, text: str, shown: str) -> None:
    assert marked(query, text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "`drive`", "``a `drive` b``", "```\ndrive\n```", "~~~sh\ndrive\n~~~", "```\ndrive, never closed",
        "[[drive]]", "![[drive.png|drive]]", "[drive](drive.md)", "https://example.org/drive", "<b drive>",
        "$drive$", "$$\ndrive\n$$", "**drive**", "*the drive*", "__drive__", "_drive_", "==drive==",
        "#drive", "#a/drive", "%%drive%%", "a_drive", "\\drive", "---\nkey: drive\n---",
    ],
)  # fmt: skip
def test_no_mark_breaks_code_formulas_links_or_other_marks(text: str) -> None:
    assert marked("drive", text) == text
    assert marked("drive", f"A drive\n\n{text}").startswith("A **drive**\n\n")


@given(st.text(), st.text(alphabet="`*_$[]()<>#%=\\~ \n-drive日本", max_size=200))
def test_without_its_marks_a_text_is_what_it_was(query: str, text: str) -> None:
    assert marked(f"drive 日本 {query}", text).replace("**", "") == text.replace("**", "")


def test_a_passage_full_of_the_word_is_marked_in_part() -> None:
    assert marked("drive", "drive " * 100).count("**") == 2 * MOST_MARKS


LONG = "\n\n".join(f"Paragraph {n} says nothing of it. It goes on for a while." for n in range(60))


def test_a_long_text_is_cut_to_what_stands_around_most_of_the_words() -> None:
    text = f"A pool.\n\n{LONG}\n\nThe pool holds fourteen terabytes.\n\n{LONG}"
    shown = clip(text, read_wanted("how many terabytes does the pool hold"), 100)
    assert "The pool holds fourteen terabytes." in shown
    assert shown.startswith((f"{CUT}Paragraph ", f"{CUT}The pool"))
    assert shown.endswith(f"a while.{CUT}")
    assert estimate_tokens(shown) <= 110


def test_what_is_looked_for_is_never_cut_off_by_a_better_place_to_cut() -> None:
    for gap in range(1, 200, 7):
        text = f"{'so it goes on ' * 99}\n\n{'x ' * gap}terabytes\n\n{'and on it goes ' * 99}"
        assert "terabytes" in clip(text, read_wanted("terabytes"), 60)


def test_a_long_text_without_the_words_is_cut_at_its_end() -> None:
    shown = clip(LONG, read_wanted("terabytes"), 100)
    assert shown.startswith("Paragraph 0 ")
    assert shown.endswith(f"a while.{CUT}")


def test_a_short_text_is_left_as_it_is() -> None:
    assert clip("Short.", read_wanted("terabytes"), 100) == "Short."


@given(st.text(max_size=400), st.integers(1, 100), st.text(max_size=10))
def test_a_cut_text_is_a_part_of_the_text_and_fits(text: str, tokens: int, query: str) -> None:
    shown = clip(text, read_wanted(query), tokens)
    assert shown.strip(CUT).strip() in text
    assert estimate_tokens(shown) <= tokens + 2


@given(st.text(), st.integers(0, 50), st.integers(0, 20))
def test_what_fits_is_the_most_that_fits(text: str, tokens: int, start: int) -> None:
    count = count_fitting(text, tokens, start)
    rest = text[start:]
    assert estimate_tokens(rest[:count]) <= tokens
    assert count == len(rest) or estimate_tokens(rest[: count + 1]) > tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("word " * 70, 100), ("слово", 3), ("日本語", 3), ("🧠", 2), ("é" * 35, 10)],
)
def test_tokens_are_told_by_script(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens
