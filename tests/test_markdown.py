"""The block parser: CommonMark where Obsidian adds nothing, Obsidian's blocks where it does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

from obsidian_rag.markdown import parse_blocks

ORACLE = MarkdownIt("commonmark", {"maxNesting": 100, "inline_definitions": True}).enable("table")
PARTS = [
    "# ", "## a", "#", "- ", "-", "  - ", "* ", "1. ", "2. ", ") ", "> ", ">", "```", "````", "~~~",
    "    ", "  ", "\t", "|", "|-|-|\n", "a|b\n", "---", "===", "***", "___", "<!--", "-->", "<div>",
    "</div>", "<script>", "<b>", "</script>", "[x]: y", "[x]:", "[y", "\n", "\n", "\n", "\n\n", " ", "a",
    "b", "\\", "`", '"t"', "+ ", "é",
]  # fmt: skip


def outline(tokens: Sequence[Token]) -> list[tuple[str, int, list[int] | None, str]]:
    """Type, depth, lines and raw text of what matters: not the ends, and a paragraph as its text."""
    found = []
    for token in tokens:
        if token.type.endswith("_close") or token.type == "paragraph_open":
            continue
        kind, level = token.type, token.level
        if kind == "paragraph":
            kind, level = "inline", level + 1
        found.append((kind, level, token.map, token.content))
    return found


def ask_oracle(text: str) -> list[Token]:
    tokens: list[Token] = []
    state = StateBlock(text, ORACLE, {}, tokens)
    ORACLE.block.tokenize(state, 0, state.lineMax)
    return tokens


@given(st.lists(st.sampled_from(PARTS), max_size=40).map("".join))
@settings(max_examples=1000, deadline=None)
@example("> a\nb\n# c\n")
@example("- a\n\n      b\n  > c\nd\n")
@example("a | b\n- | -\nc\n\n1. a\n2) b\n")
@example("[x]: y\n'z\n\na'\n")
def test_blocks_are_those_of_commonmark_with_tables(text: str) -> None:
    expected = ask_oracle(text)
    # Several lines above "---" are the one thing that is read differently.
    setext = [token.map for token in expected if token.type == "heading_open" and token.markup == "-"]
    assume(all(lines is not None and lines[1] - lines[0] == 2 for lines in setext))
    assert outline(parse_blocks(text)) == outline(expected)


def kinds(text: str) -> list[tuple[str, list[int] | None]]:
    return [(t.type, t.map) for t in parse_blocks(text) if t.level == 0 and not t.type.endswith("_close")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%%\na\n\nb\n%%\nc", [("comment_open", [0, 5]), ("paragraph", [5, 6])]),
        ("a\n%% b\nc %% d\ne", [("paragraph", [0, 1]), ("comment_open", [1, 3]), ("paragraph", [3, 4])]),
        ("%%a%% b\nc", [("paragraph", [0, 2])]),
        ("%%%%\na", [("paragraph", [0, 2])]),
        ("%%\na", [("paragraph", [0, 2])]),
        ("a %%\nb\n%%\nc", [("paragraph", [0, 4])]),
        ("    %%\n    %%", [("code_block", [0, 2])]),
        ("> %%\n> a\n> %%\nb", [("blockquote_open", [0, 3]), ("paragraph", [3, 4])]),
        ("- %%\n  a\n\n  %%\nb", [("bullet_list_open", [0, 4]), ("paragraph", [4, 5])]),
        ("- %%\na\n%%", [("bullet_list_open", [0, 3])]),
        ("%%\n```\n%%\na", [("comment_open", [0, 3]), ("paragraph", [3, 4])]),
        ("$$\na\n\nb\n$$\nc", [("math_block", [0, 5]), ("paragraph", [5, 6])]),
        ("$$ a\nb $$\nc", [("math_block", [0, 2]), ("paragraph", [2, 3])]),
        ("$$ a\n\nb $$", [("paragraph", [0, 1]), ("paragraph", [2, 3])]),
        ("a\n$$\nb\n$$", [("paragraph", [0, 1]), ("math_block", [1, 4])]),
        ("$$a$$ b\nc", [("paragraph", [0, 2])]),
        ("[^1]: a\n\n    b\n\nc", [("footnote_reference_open", [0, 4]), ("paragraph", [4, 5])]),
        ("[^a b]: c\n[[N]]: d", [("paragraph", [0, 2])]),
        ("a\nb\n---\nc", [("paragraph", [0, 2]), ("hr", [2, 3]), ("paragraph", [3, 4])]),
        ("a\nb\n--\nc", [("paragraph", [0, 4])]),
        ("a\n-\nb", [("heading_open", [0, 2]), ("paragraph", [2, 3])]),
    ],
)
def test_obsidian_s_own_blocks_are_told(text: str, expected: list[tuple[str, list[int]]]) -> None:
    assert kinds(text) == expected
