"""A note by pages and by sections."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obsidian_rag.catalog import StoredText
from obsidian_rag.errors import QueryError
from obsidian_rag.note_pages import NotePage, make_page, render_next, render_outline
from obsidian_rag.schemas import MOST_TOKENS
from obsidian_rag.tokens import estimate_json, estimate_tokens

NOW = datetime(2025, 9, 30, tzinfo=UTC)
SECTIONS = """---
tags: [a]
---
Before.

# Pool

The drives.

## Size

Fourteen.

## Tasks

one

# Shed > roof

text

## Tasks

```
# no heading
```

### *Door* [[Oak|oaken]] #

last
"""


def make_note(text: str, aliases: tuple[str, ...] = ()) -> StoredText:
    return StoredText("Home/Note.md", "Note", text, aliases, ("tag",), NOW, NOW)


def read_pages(text: str, heading: str | None = None, budget: int = MOST_TOKENS) -> list[NotePage]:
    pages = [make_page(make_note(text), heading, 0, budget)]
    while (offset := pages[-1].next_offset) is not None:
        pages.append(make_page(make_note(text), heading, offset, budget))
    return pages


SENTENCE = "The parity disk holds a checksum of the drives. "


@pytest.mark.parametrize(
    "text",
    [
        "", "short", "no end of line at its end", (SENTENCE * 11_000)[:500_000], "x" * 500_000,
        "".join(f"{'#' * (n % 4 + 1)} Heading {n}\n\n{SENTENCE * 9}\n\n" for n in range(1_000)),
        "One line.\r\nAnother.\r\n" * 20_000, "\n" * 100_000,
        '"\\' * 50_000, "\x01" * 60_000, "日本語" * 40_000,
        "🧠" * 40_000, SECTIONS,
    ],
    ids=lambda text: text[:10],
)  # fmt: skip
def test_the_pages_of_a_note_are_its_text_and_each_fits(text: str) -> None:
    pages = read_pages(text)
    assert "".join(page.content for page in pages) == text
    for page in pages:
        shown = estimate_tokens("\n".join((page.content, render_outline(page), render_next(page))))
        assert shown <= MOST_TOKENS
        assert shown + estimate_json(page.to_json()) <= 3 * MOST_TOKENS
        assert page.length == len(text)
        assert text[page.offset : page.offset + len(page.content)] == page.content
        assert page.start_line == text.count("\n", 0, page.offset) + 1


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet='ab \n#日🧠"\\\x01\r', max_size=900), st.integers(1_150, 1_250))
def test_pages_of_any_text_are_its_text(text: str, budget: int) -> None:
    assert "".join(page.content for page in read_pages(text, budget=budget)) == text


def test_a_page_ends_before_a_section_a_paragraph_or_a_word() -> None:
    sections = "".join(f"# Heading {n}\n\n{SENTENCE * 9}\n\n" for n in range(300))
    assert all(page.content.startswith("# Heading") for page in read_pages(sections))
    paragraphs = f"{SENTENCE * 9}\n\n" * 300
    assert all(page.content.endswith("\n\n") for page in read_pages(paragraphs))
    words = SENTENCE * 3_000
    assert all(page.content.endswith(" ") for page in read_pages(words))


def test_a_short_note_comes_whole_without_an_outline() -> None:
    page = make_page(make_note(SECTIONS))
    assert page.content == SECTIONS
    assert (page.offset, page.next_offset, page.outline, page.notices) == (0, None, (), ())
    assert (page.start_line, page.end_line, page.last_line) == (1, SECTIONS.count("\n"), SECTIONS.count("\n"))
    assert render_outline(page) == render_next(page) == ""


def test_a_long_note_begins_with_an_outline_and_says_how_to_go_on() -> None:
    text = "".join(f"# Heading {n}\n\n{SENTENCE * 200}\n\n" for n in range(20))
    first, second = read_pages(text)[:2]
    assert [entry.heading for entry in first.outline] == [f"Heading {n}" for n in range(20)]
    for entry in first.outline:
        assert text[entry.offset :].startswith(f"# {entry.heading}\n")
        assert text.split("\n")[entry.line - 1] == f"# {entry.heading}"
    told = render_outline(first)
    assert f"# Heading 7 (line {first.outline[7].line}, offset={first.outline[7].offset})" in told
    assert f"characters 0-{first.next_offset} of {len(text)}; the note goes on." in told
    assert f"get_note(file_path='Home/Note.md', offset={first.next_offset})" in render_next(first)
    assert second.outline == ()


def test_an_outline_too_long_has_some_of_the_deepest_level_evenly_and_says_how_many_not() -> None:
    text = "".join(f"{'#' * (1 if n % 50 == 0 else 3)} Heading {n}\n\n{SENTENCE * 9}\n\n" for n in range(900))
    first = read_pages(text)[0]
    levels = [entry.level for entry in first.outline]
    assert levels.count(1) == 18 and 5 < levels.count(3) < 100
    assert first.notices == (f"{900 - len(levels)} of its 900 headings are not in the outline.",)
    flat = read_pages(text.replace("###", "#"))[0]
    shown = [int(entry.heading.split()[1]) for entry in flat.outline]
    assert 20 < len(shown) < 100
    assert {later - earlier for earlier, later in pairwise(shown)} == {shown[1]} and shown[0] == 0


def test_the_outline_of_a_log_under_one_title_names_parts_of_it() -> None:
    text = "# Log\n\n" + "".join(f"## Day {n}\n\n{SENTENCE * 9}\n\n" for n in range(400))
    first = read_pages(text)[0]
    assert first.outline[0].heading == "Log" and first.outline[-1].offset > len(text) * 0.8


@pytest.mark.parametrize(
    ("asked", "begins", "ends"),
    [
        ("Size", "## Size", "Fourteen.\n\n"),
        ("size", "## Size", "Fourteen.\n\n"),
        ("## Size", "## Size", "Fourteen.\n\n"),
        ("Pool", "# Pool", "one\n\n"),
        ("Pool > Tasks", "## Tasks\n\none", "one\n\n"),
        ("pool#tasks", "## Tasks\n\none", "one\n\n"),
        ("Shed > roof", "# Shed > roof", "last\n"),
        ("Shed > roof > Tasks", "## Tasks\n\n```", "last\n"),
        ("door oaken", "### *Door*", "last\n"),
        ("Door [[Oak|oaken]]", "### *Door*", "last\n"),
        ("Doo", "### *Door*", "last\n"),
        ("oaken", "### *Door*", "last\n"),
    ],
)
def test_a_section_is_found_by_its_heading_as_people_write_it(asked: str, begins: str, ends: str) -> None:
    page = make_page(make_note(SECTIONS), asked)
    assert page.content.startswith(begins)
    assert page.content.endswith(ends)
    assert page.next_offset is None
    assert page.heading is not None
    assert "ends here" in render_outline(page)


def test_the_pages_of_a_section_are_the_section() -> None:
    inner = "".join(f"### Part {n}\n\n{SENTENCE * 30}\n\n" for n in range(100))
    text = f"# A\n\nbefore\n\n## B\n\n{inner}# C\n\nafter\n"
    pages = read_pages(text, "B")
    assert len(pages) > 2
    assert "".join(page.content for page in pages) == text[text.index("## B") : text.index("# C")]
    assert pages[0].outline[0].heading == "B"
    assert {page.heading for page in pages} == {"A > B"}
    assert "heading='A > B', offset=" in render_next(pages[0])


@pytest.mark.parametrize(
    ("asked", "offset", "said"),
    [
        ("Tasks", 0, "may be any of 2 in Home/Note.md. Write a heading path, or read from its offset: Pool >"
         " Tasks (line 14, offset="),
        ("Sizes", 0, "Nearest headings: Size (line 10"),
        ("zzzz", 0, "Its headings: Pool (line 6"),
        ("", 0, "Write one of its headings"),
        (">", 0, "Write one of its headings"),
        ("x" * 5_000, 0, "Write one of its headings"),
        ("Size", 3, "The section 'Pool > Size' reaches from"),
        (None, 10_000, f"Home/Note.md has {len(SECTIONS)} characters. Use the next_offset"),
        (None, -1, "offset is -1"),
        (None, len(SECTIONS), "Use the next_offset of the page before, or 0"),
    ],
)  # fmt: skip
def test_a_heading_or_an_offset_that_is_not_there_is_an_error_that_says_what_is(
    asked: str | None, offset: int, said: str
) -> None:
    with pytest.raises(QueryError) as caught:
        make_page(make_note(SECTIONS), asked, offset)
    assert said in str(caught.value)


def test_a_note_without_headings_says_so() -> None:
    with pytest.raises(QueryError, match="has no headings"):
        make_page(make_note("text"), "Any")


def test_thousands_of_aliases_are_named_in_part() -> None:
    page = make_page(make_note("text", tuple(f"name {n}" for n in range(5_000))))
    assert 10 < len(page.aliases) < 5_000
    assert page.notices == ("Not all of its aliases and tags are named.",)
    assert render_outline(page) == page.notices[0]


BLOCKS = """---
id: x ^matter
---
Before. ^start

# One

A paragraph. ^first-block

## Below

- item
- item

^listed

# Two

Again ^FIRST-block and not^this
"""


@pytest.mark.parametrize(
    ("asked", "heading", "begins"),
    [
        ("^start", "^start", "Before."),
        ("^first-block", "One", "# One"),
        ("#^First-Block", "One", "# One"),
        (" ^listed ", "One > Below", "## Below"),
    ],
)
def test_a_block_opens_the_section_that_holds_it(asked: str, heading: str, begins: str) -> None:
    page = make_page(make_note(BLOCKS), asked)
    assert (page.heading, page.content.partition("\n")[0].split(" ^")[0]) == (heading, begins)
    assert ("# Two" in page.content, page.next_offset) == (False, None)


def test_a_block_that_is_not_there_is_an_error_with_those_that_are() -> None:
    with pytest.raises(
        QueryError, match=r"No block '\^other' in .* Its blocks: \^start, \^first-block, \^listed\."
    ):
        make_page(make_note(BLOCKS), "^other")
    for text in (SECTIONS, "", "---\na: b ^other\n---\n"):
        with pytest.raises(QueryError, match="It has none"):
            make_page(make_note(text), "^other")
    for missing in ("^matter", "^this"):
        with pytest.raises(QueryError, match="No block"):
            make_page(make_note(BLOCKS), missing)


def test_a_section_named_with_the_path_is_opened_as_one_asked_for() -> None:
    asked = make_page(make_note(SECTIONS), "Pool")
    assert make_page(make_note(SECTIONS), named="Pool") == asked
    assert make_page(make_note(SECTIONS), "pool", named="## *Pool*") == asked
    with pytest.raises(QueryError, match="file_path names the section 'Pool', and heading is 'Shed'"):
        make_page(make_note(SECTIONS), "Shed", named="Pool")
    with pytest.raises(QueryError, match="may be any of 2"):
        make_page(make_note(SECTIONS), named="Tasks")


@pytest.mark.parametrize(
    ("named", "told", "mend"),
    [
        ("Poole", "No heading 'Poole' in Home/Note.md", "Nearest headings: Pool ("),
        ("^gone", "No block '^gone' in Home/Note.md", "It has none."),
        ("???", "heading is '???'", "Write one of its headings: Pool ("),
    ],
)
def test_one_named_with_the_path_that_is_not_there_gives_the_note_and_says_so(
    named: str, told: str, mend: str
) -> None:
    """As a link does whose heading is gone."""
    page = make_page(make_note(SECTIONS), named=named)
    assert (page.content, page.heading) == (SECTIONS, None)
    assert page.notices[0].startswith(f"{told}: this is the note itself. {mend}")
    assert page.notices[0] in render_outline(page)
    long = "".join(f"# {'Heading ' * 14}{n}\n\n{SENTENCE * 9}\n\n" for n in range(99))
    page = make_page(make_note(long), named=named)
    shown = estimate_tokens("\n".join((page.content, render_outline(page), render_next(page))))
    assert shown <= MOST_TOKENS
