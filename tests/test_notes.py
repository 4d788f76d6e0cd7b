"""Reading a note: blocks and sections tile its body, links and tags are found, nothing makes it fail."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_vault import HARD_CASES, headings

from obsidian_rag.errors import NoteError
from obsidian_rag.markdown import TooMuchWork, parse_blocks, parse_plainly
from obsidian_rag.models import Block, Link, Note
from obsidian_rag.notes import parse_note
from obsidian_rag.vault import decode

MARKS = [
    "# ", "## ", "- ", "  - ", "1. ", "> ", "```", "~~~", "    ", "\t", "|", "|-|-|", "a|b", "---",
    "===", "%%", "$$", "$", "<!--", "-->", "<div>", "</div>", "[[", "]]", "![[", "](", "[", "]", ")",
    "`", "``", "\\", "#tag", "[^1]: ", "[x]: y", "word", "N", "#", "^id", "***", "\n", "\n", "\n\n",
    " ", "{{", "}}", "é", "你好", "😀", "\x0b", "\x85", "\u2028", "\xa0", "\x00", "\ufeff", "a: b", '"',
    "'", ":", "- @x", "&a ", "*a", "!!x ",
]  # fmt: skip
markdown = st.lists(st.sampled_from(MARKS), max_size=60).map("".join)
front_matter = st.builds("---\n{}\n---\n".format, markdown)
texts = st.one_of(st.text(max_size=200), markdown, st.builds("{}{}".format, front_matter, markdown))


def parse(text: str) -> Note:
    return parse_note("folder/a.md", text)


def pieces(note: Note, spans: list[tuple[int, int]]) -> str:
    return "".join(note.text[start:end] for start, end in spans)


def check(note: Note) -> None:
    """What holds for every note: see the docstrings of the models."""
    body = note.text[note.body_start :]
    blocks, sections = note.blocks, note.sections
    if not body.strip():
        assert (blocks, sections) == ((), ())
    else:
        for parts in (blocks, sections):
            assert parts[0].start == note.body_start
            assert parts[-1].end == len(note.text)
            assert all(one.end == other.start for one, other in pairwise(parts))
            assert all(part.start < part.end for part in parts)
    starts = {block.start for block in blocks}
    assert {section.start for section in sections} <= starts
    assert [s.heading is None for s in sections[1:]] == [False] * len(sections[1:])
    for section in sections:
        assert section.start <= section.body_start <= section.end
        assert section.heading_path[-1:] == (() if section.heading is None else (section.heading,))
        assert (section.level == 0) == (section.heading is None)
    for block in blocks:
        assert block.start <= block.head_end <= block.end
        assert list(block.seams) == sorted(set(block.seams))
        for seam in block.seams:
            assert block.head_end <= seam and block.start < seam < block.end
            assert note.text[seam - 1] == "\n"
    lines = note.text.count("\n") + 1
    for link in note.links:
        assert 1 <= link.line <= lines
        assert link.count >= 1
        assert "\n" not in link.target
    assert json.loads(json.dumps(note.front_matter, allow_nan=False)) == note.front_matter
    assert "\\u0000" not in json.dumps(note.front_matter)
    json.dumps(note.front_matter, ensure_ascii=False).encode()
    for start, end in note.hidden:
        assert note.body_start <= start < end <= len(note.text)


@given(texts)
@settings(max_examples=600, deadline=None)
@example("---\n\n---\n \n")
@example("\n\n# a")
@example("a\n---\n---")
@example("- \n\n  \t")
@example("|a|\n|-|")
def test_blocks_and_sections_tile_the_body_of_any_text(text: str) -> None:
    check(parse(text))


@given(st.text(st.characters(), max_size=100))
@settings(max_examples=200, deadline=None)
@example("[[\ud800]] #\udfff\n---\n")
@example("---\na: \ud800\n---\n")
def test_lone_surrogates_and_control_characters_do_no_harm(text: str) -> None:
    check(parse(text))


@given(texts)
@settings(max_examples=300, deadline=None)
def test_a_bom_and_crlf_give_the_same_note(text: str) -> None:
    plain = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    assert_same = []
    for data in (plain.encode(), b"\xef\xbb\xbf" + plain.replace("\n", "\r\n").encode()):
        try:
            assert_same.append(parse(decode(data)[0]))
        except NoteError as error:
            assert_same.append(error.message)
    if plain.startswith("\ufeff"):
        return  # a second mark is text in one of them only
    assert assert_same[0] == assert_same[1]


@given(markdown)
@settings(max_examples=300, deadline=None)
def test_blocks_read_line_by_line_tile_the_body_as_well(text: str) -> None:
    covered = [token.map for token in parse_plainly(text) if token.level == 0 and token.map]
    assert all(one[1] <= other[0] for one, other in pairwise(covered))
    lines = text.split("\n")
    outside = set(range(len(lines))).difference(*(range(start, end) for start, end in covered))
    assert all(not lines[line].strip() for line in outside)


def test_every_note_of_the_hard_cases_obeys_the_rules() -> None:
    files = sorted(HARD_CASES.rglob("*.[mM][dD]"))
    assert len(files) > 50
    for file in files:
        if file.is_file() and file.name != "._N.md":
            check(parse(decode(file.read_bytes())[0]))


def test_each_kind_of_block_is_told() -> None:
    text = """
# heading

paragraph
more

- list
  - nested

| table |
|-------|
| row   |
| row   |

```
fence
```

    code

> quote
>
> second

<div>html</div>

<!-- comment -->

%%
comment
%%

$$
math
$$

***

[^1]: footnote

[definition]: https://example.org
"""
    note = parse(text)
    expected = (
        "heading paragraph list table fence fence quote html comment comment math rule paragraph paragraph"
    )
    assert [block.kind for block in note.blocks] == expected.split()
    check(note)
    by_kind: dict[str, Block] = {block.kind: block for block in reversed(note.blocks)}
    cuts = {kind: [text[seam:].split("\n")[0] for seam in block.seams] for kind, block in by_kind.items()}
    assert cuts["list"] == ["  - nested"]
    assert cuts["table"] == ["| row   |"]
    assert text[by_kind["table"].start : by_kind["table"].head_end] == "| table |\n|-------|\n"
    assert cuts["fence"] == ["fence", "```", ""]
    assert cuts["quote"] == ["> second"]
    assert cuts["paragraph"] == []


def test_links_say_their_kind_line_and_how_often_they_are_written() -> None:
    note = parse("---\nup: '[[A]]'\n---\n[[A]] text\n[[A]]\n[[A|b]] ![[A]] [c](A.md)\n")
    assert note.links == (
        Link("property", "A", property="up", line=2),
        Link("wikilink", "A", line=4, count=2),
        Link("wikilink", "A", display="b", line=6),
        Link("embed", "A", line=6),
        Link("markdown", "A.md", display="c", line=6),
    )


def test_the_line_of_a_link_is_that_of_the_link_in_a_long_paragraph() -> None:
    note = parse("a\nb [[x]]\n> c\n> [[y]]\n\n- d\n  e [[z]] `f\n  g` [h\n  i](w.md)\n")
    assert [(link.target, link.line) for link in note.links] == [("x", 2), ("y", 4), ("z", 7), ("w.md", 8)]


def test_links_to_the_web_and_reference_links_are_none_of_the_vault() -> None:
    text = (
        "[a](https://e.org) <https://e.org> https://e.org [b][c] [c] ![d][c] [[e]]\n\n[c]: N.md\n[f]: [[N]]\n"
    )
    assert [link.target for link in parse(text).links] == ["e"]


@pytest.mark.parametrize(
    ("path", "title"),
    [("a/b.md", "b"), ("b.MD", "b"), ("a.b/c.d.md", "c.d"), ("x.excalidraw.md", "x.excalidraw")],
)
def test_the_title_is_the_file_name(path: str, title: str) -> None:
    assert parse_note(path, "# Other\n").title == title


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("#a #B/c-d_e #1 #1a", ("a", "B/c-d_e", "1a")),
        ('a #x, #y. (#n) a#n "#n" .#n', ("x", "y")),
        ("`#n` <!-- #n --> $#n$ $#n b$ \\#n &#n; http://e.org/#n <a href='#n'>", ()),
        ("```\n#n\n```\n\n    #n\n\n<div>\n#n\n</div>", ()),
        ("%%#n%% %% #x %%\n\n%%\n#y\n%%", ("x", "y")),
        ("[[a#n]] [b](#n) [c #x](d) [[e|#n]]", ("x",)),
        ("# head #x\n\n| #y |\n|-|\n|#z|\n\n- #v\n\n> #w", ("x", "y", "z", "v", "w")),
        ("#x#y #z/#v _#w_ #u\xa0#t\u3000#s", ("x", "y", "z/", "v", "w", "u", "t", "s")),
    ],
)
def test_tags_are_those_that_obsidian_sees(text: str, tags: tuple[str, ...]) -> None:
    assert parse(text).tags == tags


DRAWING = """---
excalidraw-plugin: parsed
---
==⚠  Switch to EXCALIDRAW VIEW in the MORE OPTIONS menu of this document. ⚠==

# Excalidraw Data

## Text Elements
Our plan [[N]] ^abc

## Embedded Files
0a: [[pic.png]]

%%
## Drawing
```compressed-json
N4KAkARALgngDgUwgLgAQQQDwMYEMA2AlgCYBOuA7hADTgQ
```
%%"""


def test_a_drawing_keeps_its_words_and_links_and_hides_its_data() -> None:
    note = parse_note("d.excalidraw.md", DRAWING)
    hidden = [note.text[start:end] for start, end in note.hidden]
    assert hidden[0].startswith("==⚠") and hidden[0].endswith("⚠==")
    assert hidden[1].startswith("%%\n## Drawing") and hidden[1].endswith("```\n%%")
    assert len(hidden) == 2
    assert [link.target for link in note.links] == ["N", "pic.png"]
    assert headings(note)[-1] == (2, "Embedded Files")


@pytest.mark.parametrize(
    "text",
    [
        '%%\n# Drawing\n```json\n{"a": 1}\n```\n%%\n',
        "# Drawing\n```json\n{}\n```",
        "# Drawing\n~~~compressed-json\nabc",
        "```compressed-json\nabc\n```\n",
    ],
)
def test_drawings_of_every_age_are_hidden(text: str) -> None:
    note = parse(f"---\nexcalidraw-plugin: raw\n---\nwords\n{text}")
    assert [note.text[start:end] for start, end in note.hidden] == [text.rstrip("\n")]
    assert parse(f"words\n{text}").hidden == ()


def test_the_settings_of_a_board_are_hidden() -> None:
    settings_block = '%% kanban:settings\n```\n{"kanban-plugin":"board"}\n```\n%%'
    note = parse(f"---\nkanban-plugin: board\n---\n## Todo\n\n- [ ] [[N]]\n\n{settings_block}\n")
    assert [note.text[start:end] for start, end in note.hidden] == [settings_block]
    assert [link.target for link in note.links] == ["N"]


@pytest.mark.parametrize(
    "text",
    [
        "[[" * 40_000, "![" * 40_000, "[a](" * 40_000, "[a](<" * 40_000, "<!--" * 40_000, "$a " * 40_000,
        "`" * 40_000, "` `` " * 20_000, "<a b='" * 40_000, "%%\n" * 40_000, "$$a\n" * 40_000,
        "|" * 40_000 + "\n" + "|-" * 40_000, "> " * 40_000, "- " * 99 + "a\n" + "b\n" * 40_000,
        "> " * 99 + "a\n" + "b\n" * 40_000, "[^a]: " * 40_000, "[a\n" * 40_000, "a\n" * 40_000 + "---",
        "".join(" " * i + "- a\n" for i in range(400)), "---\na: " + "[" * 40_000 + "\n---\n",
        "---\n" + "- " * 40_000 + "\n---\n", "word [[link]] #tag " * 100_000,
    ],
)  # fmt: skip
def test_hostile_texts_are_read_whole(text: str) -> None:
    check(parse(text))


def test_text_nested_too_deep_is_read_line_by_line_with_a_warning() -> None:
    text = "# A\n\n" + "> - " * 50 + "a\n" + "b\n" * 30_000 + "\n```\n# no\n[[no]]\n```\n## B\n[[N]]\n"
    with pytest.raises(TooMuchWork):
        parse_blocks(text)
    note = parse(text)
    assert headings(note) == [(1, "A"), (2, "B")]
    assert [link.target for link in note.links] == ["N"]
    assert len(note.warnings) == 1
    check(note)


def test_headings_read_line_by_line_are_those_of_commonmark() -> None:
    text = "# a ##\n## C#\n##\n# #\n#x\n####### y\n   ### z\t#\n    # w\n# " + " " * 50_000 + "v\n"
    contents = [[t.content for t in f(text) if t.type == "inline"] for f in (parse_plainly, parse_blocks)]
    assert contents == [["a", "C#", "", "", "z", "v"]] * 2


def test_links_below_the_deepest_nesting_are_kept() -> None:
    note = parse("> " * 300 + "[[N]]\n\n# H\n" + "- " * 300 + "[[M]]\n\n## I\n[[K]]\n")
    assert [link.target for link in note.links] == ["N", "M", "K"]
    assert headings(note) == [(0, None), (1, "H"), (2, "I")]


def test_an_alias_bomb_in_the_properties_is_refused() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]" for i in range(12)]
    note = parse("---\n" + "\n".join(lines) + "\n---\nbody\n")
    assert note.front_matter == {}
    assert "more than 50000 values" in note.warnings[0]
    assert note.text[note.body_start :] == "body\n"
