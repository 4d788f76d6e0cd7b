"""Notes that indexers are known to cut up wrongly: each case as it was reported, and two more of its kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_vault import headings, make_vault, read_case, section_text

from obsidian_rag.models import Note
from obsidian_rag.notes import parse_note


def parse(text: str) -> Note:
    return parse_note("a.md", text)


def kinds(note: Note) -> list[str]:
    return [block.kind for block in note.blocks]


# C1: a shell comment in a fence is not a heading


def test_shell_comments_in_a_fence_open_no_section() -> None:
    note = read_case("C1").notes["a.md"]
    assert headings(note) == [(1, "Setup"), (1, "Next")]
    setup = section_text(note, "Setup")
    assert "# install deps" in setup
    assert "## second comment" in setup
    assert "After the code." in setup
    assert kinds(note) == ["heading", "fence", "paragraph", "heading", "paragraph"]


def test_hashes_in_a_fence_inside_a_list_item_open_no_section() -> None:
    note = parse("# A\n- step\n  ```sh\n  # not\n# not either\n  ```\n# B\n")
    # The fence ends with its list item: a line without the item's indent leaves both.
    assert headings(note) == [(1, "A"), (1, "not either")]
    note = parse("# A\n- step\n  ```sh\n  # not\n  ## nor this\n  ```\n# B\n")
    assert headings(note) == [(1, "A"), (1, "B")]


def test_hashes_in_an_indented_block_open_no_section() -> None:
    note = parse("# A\n\n    # pip install\n    ## more\n\nText.\n")
    assert headings(note) == [(1, "A")]
    assert kinds(note) == ["heading", "fence", "paragraph"]


# C2: the whole fence grammar


def test_every_kind_of_fence_hides_headings() -> None:
    assert headings(read_case("C2").notes["a.md"]) == [(1, "A"), (1, "B")]


def test_a_backtick_in_the_info_string_opens_no_fence() -> None:
    note = parse("# A\n``` a`b\n# B\n~~~ a`b\n# x\n~~~\n# C\n")
    assert headings(note) == [(1, "A"), (1, "B"), (1, "C")]


def test_an_unclosed_fence_reaches_to_the_end_of_the_note() -> None:
    note = parse("# A\n```\n# x\n\n# y\n")
    assert headings(note) == [(1, "A")]
    assert kinds(note) == ["heading", "fence"]
    assert note.text[note.blocks[1].start : note.blocks[1].end] == "```\n# x\n\n# y\n"


# C4: setext headings, rules, and a second "front matter"


def test_setext_headings_open_sections_and_a_rule_does_not() -> None:
    note = read_case("C4").notes["a.md"]
    assert headings(note) == [(1, "Title One"), (2, "Title Two")]
    assert note.sections[1].heading_path == ("Title One", "Title Two")
    assert "body 3" in section_text(note, "Title Two")
    assert note.front_matter == {}
    assert note.body_start == 0


def test_a_second_block_of_properties_is_text_and_nothing_of_it_is_lost() -> None:
    text = "---\na: 1\n---\n---\nalias: x\nstatus: y\n---\n\nText.\n"
    note = parse(text)
    assert note.front_matter == {"a": 1}
    assert headings(note) == [(0, None)]
    assert "".join(text[block.start : block.end] for block in note.blocks) == text[note.body_start :]
    assert section_text(note, None).endswith("alias: x\nstatus: y\n---\n\nText.\n")


def test_a_title_over_two_lines_of_equal_signs_is_one_heading() -> None:
    note = parse("Two\nlines\n===\ntext\n")
    assert headings(note) == [(1, "Two lines")]
    assert section_text(note, "Two lines") == "text\n"


# C5: headings in comments, quotes and lists


def test_headings_in_comments_quotes_and_lists_open_no_section() -> None:
    note = read_case("C5").notes["a.md"]
    assert [section.heading_path for section in note.sections] == [("Real",), ("Real", "Also real")]
    assert kinds(note) == ["heading", "comment", "comment", "quote", "list", "heading"]
    real = section_text(note, "Real")
    assert all(text in real for text in ("# in a callout", "# in a list item"))


def test_a_heading_in_html_or_a_footnote_opens_no_section() -> None:
    note = parse("# A\n\n<div>\n# x\n</div>\n\n[^1]: note\n\n    # y\n\n## B\n")
    assert headings(note) == [(1, "A"), (2, "B")]


def test_a_comment_that_is_never_closed_hides_no_heading() -> None:
    note = parse("# A\n\n%%\n# B\n\ntext\n")
    assert headings(note) == [(1, "A"), (1, "B")]


# C6: details of ATX headings


def test_what_looks_like_a_heading_is_told_from_what_is_one() -> None:
    note = read_case("C6").notes["a.md"]
    assert headings(note) == [
        (0, None),
        (3, "Indented three"),
        (1, "Tab after hash"),
        (2, "Closed"),
        (2, "C#"),
        (2, ""),
    ]
    rest = section_text(note, "")
    assert all(text in rest for text in ("####### seven", "\\# escaped", "#　ideographic space"))
    assert note.tags == ("tag",)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("# a #b", [(1, "a #b")]),
        ("# a \\#", [(1, "a \\#")]),
        ("###### six ######   ", [(6, "six")]),
        ("    # four blanks", [(0, None)]),
        ("#\xa0no-break space", [(0, None)]),
    ],
)
def test_closing_hashes_indents_and_blanks_follow_commonmark(
    line: str, expected: list[tuple[int, str | None]]
) -> None:
    assert headings(parse(f"{line}\n")) == expected


def test_a_heading_ends_a_paragraph_without_a_blank_line() -> None:
    note = parse("text\n# A\ntext\n## B [[N]]\n")
    assert headings(note) == [(0, None), (1, "A"), (2, "B [[N]]")]
    assert [link.target for link in note.links] == ["N"]


# C7: no heading, text before the first one, headings without text


def test_notes_without_headings_or_without_text_are_read() -> None:
    notes = read_case("C7").notes
    assert set(notes) == {"none.md", "pre.md", "empty.md", "blank.md", "fmonly.md"}
    assert headings(notes["none.md"]) == [(0, None)]
    assert [s.heading_path for s in notes["pre.md"].sections] == [(), ("H1",), ("H1", "H2")]
    assert section_text(notes["pre.md"], None) == "Preface.\n\n"
    assert section_text(notes["pre.md"], "H1") == ""
    assert section_text(notes["pre.md"], "H2") == "text\n"
    for path in ("empty.md", "blank.md", "fmonly.md"):
        assert notes[path].sections == ()
        assert notes[path].blocks == ()
    assert notes["fmonly.md"].tags == ("x",)


def test_blank_lines_before_the_first_heading_make_no_section_of_their_own(tmp_path: Path) -> None:
    vault = make_vault(tmp_path, {"a.md": "\n \n# H\ntext\n", "b.md": "\n\n\n"})
    note = vault.notes["a.md"]
    assert headings(note) == [(1, "H")]
    assert (note.sections[0].start, section_text(note, "H")) == (0, "text\n")
    assert vault.notes["b.md"].sections == ()


def test_heading_levels_may_skip_and_return() -> None:
    note = parse("### C\n# A\n### D\n## B\n# E\n")
    paths = [section.heading_path for section in note.sections]
    assert paths == [("C",), ("A",), ("A", "D"), ("A", "B"), ("E",)]
