"""Chunks of notes as people write them."""

from __future__ import annotations

import pytest
import regex

from obsidian_rag.chunks import CHUNK_SIZE, OVERLAP, measure, split_note
from obsidian_rag.models import Block, Chunk, Note, Section
from obsidian_rag.notes import parse_note

SENTENCE = "The river rises in spring and carries the snow of the hills down to the sea. "
CHINESE = "春天的河水从山上流下来，带着融化的雪，一直流到大海里去。"


def split(text: str) -> list[Chunk]:
    return split_note(parse_note("a.md", text))


def plain_note(text: str, blocks: tuple[Block, ...] = (), hidden: tuple[tuple[int, int], ...] = ()) -> Note:
    """A note without headings, as no parser has seen it."""
    sections = (Section(None, 0, (), 0, 0, len(text)),)
    return Note("a.md", "a", text, 0, {}, (), (), sections, blocks, (), hidden)


def joined(chunks: list[Chunk]) -> str:
    return "".join(chunk.content[chunk.overlap :] for chunk in chunks)


def outline(chunks: list[Chunk]) -> list[tuple[str, ...]]:
    """The heading paths in order, each once."""
    return list(dict.fromkeys(chunk.heading_path for chunk in chunks))


# --- Headings ------------------------------------------------------------------------------------------


def test_a_shell_comment_in_a_fence_begins_no_chunk() -> None:
    text = (
        "# Setup\n\n```bash\n# install deps\npip install x\n## second comment\n```\n\nAfter the code.\n\n"
        "# Next\nText.\n"
    )
    chunks = split(text)
    assert [chunk.heading_path for chunk in chunks] == [("Setup",), ("Next",)]
    assert chunks[0].content == text[: text.index("# Next")]


@pytest.mark.parametrize(
    "code",
    [
        "```python\n# one\nx = 1  # two\n```",
        "~~~\n# one\n## two\n~~~",
        "````md\n```\n# one\n```\n## two\n````",
        "   ```\n# one\n   ```",
        "```\n# one\n``` not a closer\n# two\n`````",
    ],
)
def test_code_of_every_fence_stays_in_the_section_around_it(code: str) -> None:
    text = f"# A\n\n{code}\n\ntail\n\n# B\n\nend\n"
    chunks = split(text)
    assert [(chunk.heading, chunk.content) for chunk in chunks] == [
        ("A", text[: text.index("# B")]),
        ("B", "# B\n\nend\n"),
    ]


def test_the_whole_fence_grammar_leaves_two_sections() -> None:
    text = (
        "# A\n````md\n```\n# x1\n```\n# x2\n````\n~~~\n# x3\n```\n# x4\n~~~\n   ```\n# x5\n   ```\n"
        "```\n# x6\n``` not a closer\n# x7\n`````\n# B\n"
    )
    chunks = split(text)
    assert outline(chunks) == [("A",), ("B",)]
    assert joined(chunks) == text


def test_setext_headings_open_sections_and_rules_do_not() -> None:
    text = "Title One\n===\nbody 1\n\nTitle Two\n---\nbody 2\n\n---\n\nbody 3\n"
    chunks = split(text)
    assert [chunk.heading_path for chunk in chunks] == [("Title One",), ("Title One", "Title Two")]
    assert chunks[1].content == "Title Two\n---\nbody 2\n\n---\n\nbody 3\n"


def test_a_second_block_of_properties_is_kept_as_text() -> None:
    text = "---\ntags: [a]\n---\n\n---\nkind: note\nstate: open\n---\n\nWords.\n"
    chunks = split(text)
    assert joined(chunks) == text[text.index("\n---\nkind") :]
    assert "state: open" in joined(chunks)


def test_headings_in_comments_quotes_and_lists_open_no_chunk() -> None:
    text = (
        "# Real\n\n%%\n# in a comment block\n%%\n\n<!--\n## in an HTML comment\n-->\n\n"
        "> [!note] callout\n> # in a callout\n\n- # in a list item\n\n## Also real\n"
    )
    chunks = split(text)
    assert [chunk.heading_path for chunk in chunks] == [("Real",), ("Real", "Also real")]
    assert joined(chunks) == text


def test_every_form_of_heading_line_begins_the_chunk_of_its_section() -> None:
    text = (
        "#tag at line start\n\n   ### Indented three\n\n#\tTab after hash\n\n## Closed ##\n\n## C#\n\n##\n\n"
        "####### seven\n\n\\# escaped\n\n#　ideographic space\n"
    )
    chunks = split(text)
    assert [chunk.heading for chunk in chunks] == [
        None,
        "Indented three",
        "Tab after hash",
        "Closed",
        "C#",
        "",
    ]
    assert [chunk.content.split("\n")[0] for chunk in chunks] == [
        "#tag at line start",
        "   ### Indented three",
        "#\tTab after hash",
        "## Closed ##",
        "## C#",
        "##",
    ]
    assert chunks[-1].content.endswith("#　ideographic space\n")


def test_a_note_without_headings_is_one_chunk() -> None:
    assert split("Only a paragraph.\n") == [Chunk(0, None, (), "Only a paragraph.\n", 0, 1, 1)]


def test_text_before_the_first_heading_is_a_chunk_without_a_path() -> None:
    chunks = split("Preface.\n\n# H1\n## H2\ntext\n")
    assert [(chunk.heading_path, chunk.content) for chunk in chunks] == [
        ((), "Preface.\n\n"),
        (("H1",), "# H1\n"),
        (("H1", "H2"), "## H2\ntext\n"),
    ]


@pytest.mark.parametrize(
    "text", ["", " \n\t\n", "---\ntags: [x]\n---\n", "---\na: 1\n---\n\n\u3000\n", "\n" * 9]
)
def test_a_note_without_words_has_no_chunk(text: str) -> None:
    assert split(text) == []


def test_blank_lines_before_the_first_heading_go_with_its_chunk() -> None:
    chunks = split("---\na: 1\n---\n\n\n# H\ntext\n")
    assert [(chunk.content, chunk.start_line) for chunk in chunks] == [("\n\n# H\ntext\n", 6)]


def test_lines_are_those_of_the_words_in_the_file() -> None:
    chunks = split("---\na: 1\n---\nFirst\nline.\n\n\n# H\n\ntext\n\n## I\nmore")
    assert [(chunk.start_line, chunk.end_line) for chunk in chunks] == [(4, 5), (8, 10), (12, 13)]


def test_sections_of_the_same_name_are_chunks_of_their_own() -> None:
    chunks = split("# A\none\n# A\ntwo\n")
    assert [(chunk.chunk_index, chunk.content) for chunk in chunks] == [(0, "# A\none\n"), (1, "# A\ntwo\n")]


def test_short_blocks_under_one_heading_are_one_chunk() -> None:
    text = "# H\n\npara\n\n- a\n- b\n\n> quote\n\n| a |\n|---|\n| 1 |\n\n```\ncode\n```\n\n$$\nx\n$$\n"
    assert [chunk.content for chunk in split(text)] == [text]


# --- Sizes ---------------------------------------------------------------------------------------------


def test_measures_add_up_and_blanks_weigh_nothing() -> None:
    assert measure("abcd") == 1
    assert measure("漢字") == measure("カナ") == measure("한글") == measure("🙂🙂") == 2
    assert measure(" \n\t\u3000") == 0
    assert measure("cat, ") + measure("漢") == measure("cat, 漢")


def test_english_prose_measures_about_a_quarter_of_its_characters() -> None:
    prose = (
        "Recommendations follow a systematic assessment of the available observations, in which laboratories "
        "with comparable equipment repeated every experiment; results are summarised in the second chapter."
    )
    assert measure(prose) == pytest.approx(len(prose) / 4, rel=0.1)


def test_a_section_at_the_bound_is_whole_and_one_beyond_it_is_cut() -> None:
    at_bound = "字" * CHUNK_SIZE
    assert [chunk.content for chunk in split(at_bound)] == [at_bound]
    assert len(split(at_bound + "字")) == 2


def test_a_long_section_is_cut_between_its_paragraphs() -> None:
    paragraph = SENTENCE * 6
    text = "# H\n\n" + "\n\n".join([paragraph.strip()] * 6) + "\n"
    chunks = split(text)
    assert len(chunks) > 2
    for chunk in chunks[:-1]:
        assert chunk.content.endswith("sea.\n\n")
    for chunk in chunks[1:]:
        assert chunk.content[chunk.overlap :].startswith("The river")
        assert 0 < measure(chunk.content[: chunk.overlap]) <= OVERLAP * CHUNK_SIZE


def test_a_long_list_is_cut_between_items_and_not_between_an_item_and_its_own() -> None:
    item = "- Buy flour and honey for the cakes\n\t- from the mill by the river, not the shop\n"
    chunks = split("# H\n\n" + item * 40)
    assert len(chunks) > 2
    for chunk in chunks[1:]:
        assert chunk.content[chunk.overlap :].startswith("- Buy flour")


def test_a_paragraph_of_lines_is_left_whole_where_another_ends_before_it() -> None:
    line = "And miles to walk before the light is gone,\n"
    chunks = split((line * 7 + "\n") * 20)
    assert len(chunks) > 4
    for chunk in chunks[:-1]:
        assert chunk.content.endswith("gone,\n\n")


def test_the_lines_of_a_long_poem_stay_whole() -> None:
    line = "And miles to walk before the light is gone,\n"
    chunks = split(line * 120)
    assert len(chunks) > 2
    for chunk in chunks:
        assert chunk.content.startswith("And miles")
        assert chunk.content.endswith("gone,\n")


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    chunks = split(SENTENCE * 40)
    assert len(chunks) > 2
    for chunk in chunks:
        assert chunk.content.startswith("The river")
        assert chunk.content.endswith("sea. ")


def test_no_sentence_begins_after_an_abbreviation() -> None:
    chunks = split("It holds for some of them, e.g. the one by the lake that we saw. " * 40)
    assert len(chunks) > 2
    for chunk in chunks:
        assert chunk.content.startswith("It holds")


def test_a_long_chinese_paragraph_is_cut_after_its_full_stops() -> None:
    chunks = split("# 河\n\n" + CHINESE * 40)
    assert len(chunks) > 3
    assert joined(chunks) == "# 河\n\n" + CHINESE * 40
    for chunk in chunks[:-1]:
        assert chunk.content.endswith("去。")
    for chunk in chunks[1:]:
        assert chunk.content[: chunk.overlap] == CHINESE


@pytest.mark.parametrize(
    ("sentence", "end"),
    [
        ("彼は「今日は行きません。」と言わずに黙っていた！", "！"),
        ("これは本当に必要なものでしょうか？", "？"),
    ],
)
def test_japanese_sentences_end_at_their_marks(sentence: str, end: str) -> None:
    chunks = split(sentence * 40)
    assert len(chunks) > 2
    for chunk in chunks[:-1]:
        assert chunk.content[-1] in (end, "」")


def test_a_chinese_text_without_full_stops_is_cut_after_commas() -> None:
    for shift in range(12):
        chunks = split("字" * shift + "春天的河水从山上流下来，" * 60)
        assert len(chunks) > 2
        for chunk in chunks[:-1]:
            assert chunk.content.endswith("，")


def test_no_line_of_chinese_begins_with_a_closing_mark() -> None:
    for shift in range(12):
        chunks = split("字" * shift + "「春天的河水」（从山上）" * 60)
        assert len(chunks) > 2
        for chunk in chunks:
            assert chunk.content[0] not in "」）"
            assert chunk.content[-1] not in "「（"


def test_a_text_without_sentences_is_cut_between_words() -> None:
    chunks = split("river mill honey flour " * 120)
    assert len(chunks) > 2
    words = {"river", "mill", "honey", "flour"}
    for chunk in chunks:
        assert set(chunk.content.split()) <= words


@pytest.mark.parametrize(
    "character", ["x", "e\u0301", "👩‍👩‍👧‍👦", "🇩🇪", "❤️", "👍🏽", "한", "한", "กำ", "क्षि", "葛󠄀", "1️⃣"]
)
def test_a_giant_word_is_cut_between_characters_as_a_reader_sees_them(character: str) -> None:
    text = "ab" + character * 3000
    chunks = split(text)
    assert joined(chunks) == text
    assert len(chunks) > 2
    borders = {0} | {match.end() for match in regex.finditer(r"\X", text)}
    at = 0
    for chunk in chunks:
        assert measure(chunk.content) <= CHUNK_SIZE
        assert {at, at - chunk.overlap} <= borders
        at += len(chunk.content) - chunk.overlap


def test_the_bound_holds_even_for_a_character_without_end() -> None:
    text = "a" + "\u0301" * 10_000
    chunks = split(text)
    assert joined(chunks) == text
    assert max(measure(chunk.content) for chunk in chunks) <= CHUNK_SIZE


def test_a_hundred_thousand_blank_lines_stay_with_the_text_before_them() -> None:
    text = "# A\n\none" + "\n" * 100_000 + "two\n"
    chunks = split(text)
    assert [chunk.content for chunk in chunks] == [text]
    assert (chunks[0].start_line, chunks[0].end_line) == (1, 100_003)


def test_a_section_a_little_too_long_leaves_no_scrap() -> None:
    text = "字词。" * (CHUNK_SIZE // 3) + "还有一点点。"
    chunks = split(text)
    assert len(chunks) == 2
    for chunk in chunks:
        assert measure(chunk.content[chunk.overlap :]) >= 0.25 * CHUNK_SIZE


# --- Fences --------------------------------------------------------------------------------------------


def fence(lines: int) -> str:
    return "```python\n" + "".join(f"value_{n} = compute({n})\n" for n in range(lines)) + "```\n"


def test_a_fence_that_fits_is_kept_whole_wherever_it_stands() -> None:
    code = fence(30)
    assert measure(code) <= CHUNK_SIZE
    for before in range(0, 14):
        text = "# H\n\n" + SENTENCE * before + "\n\n" + code + "\n" + SENTENCE * 9 + "\n"
        chunks = split(text)
        assert joined(chunks) == text
        assert [chunk for chunk in chunks if code in chunk.content]
        for chunk in chunks:
            assert chunk.content.count("```") in (0, 2)


def test_a_fence_that_fills_a_chunk_is_one_without_overlap() -> None:
    code = "```\n" + "字" * (CHUNK_SIZE - 10) + "\n```\n"
    chunks = split("# H\n\n" + SENTENCE * 9 + "\n\n" + code + "\n" + SENTENCE * 9 + "\n")
    (holder,) = (chunk for chunk in chunks if "```" in chunk.content)
    assert (holder.content, holder.overlap) == (code + "\n", 0)
    assert chunks[-1].overlap == 0


@pytest.mark.parametrize("prefix", ["  ", "> "])
def test_a_fence_in_a_list_or_a_quote_is_kept_whole_too(prefix: str) -> None:
    code = "".join(prefix + line + "\n" for line in fence(20).splitlines())
    first = "- item\n" if prefix == "  " else "> [!tip] item\n"
    for count in range(1, 30):
        text = "# H\n\n" + (first + prefix + "word by word\n" * 1) * count + code + (first + code) * 4
        chunks = split(text)
        assert joined(chunks) == text
        for chunk in chunks:
            assert chunk.content.count("```") % 2 == 0


def test_a_giant_fence_is_cut_at_lines() -> None:
    text = "# H\n\nBefore.\n\n" + fence(200) + "\nAfter.\n"
    chunks = split(text)
    assert joined(chunks) == text
    assert len(chunks) > 4
    lines = set(text.splitlines())
    for chunk in chunks:
        assert set(chunk.content.splitlines()) <= lines
        assert measure(chunk.content) <= CHUNK_SIZE


def test_a_giant_fence_is_cut_before_a_function_and_not_in_it() -> None:
    function = (
        "def walk(river):\n    for stone in river.stones():\n        stone.step()\n    return river\n\n"
    )
    chunks = split("```python\n" + function * 80 + "```\n")
    assert len(chunks) > 4
    for chunk in chunks[1:]:
        assert chunk.content[chunk.overlap :].startswith("def walk")


def test_no_piece_of_code_begins_with_the_end_of_another() -> None:
    function = "function walk(river) {\n    river.stones.forEach(step);\n    river.rest();\n}\n"
    for words in range(40):
        chunks = split("```js\n// " + "river " * words + "\n" + function * 80 + "```\n")
        assert len(chunks) > 4
        for chunk in chunks[1:]:
            assert chunk.content[chunk.overlap :].startswith("function")


def test_a_formula_that_fits_is_kept_whole() -> None:
    formula = "$$\n" + "x_1 + x_2 = \\frac{a}{b}\n" * 12 + "$$\n"
    for before in range(0, 20):
        text = SENTENCE * before + "\n\n" + formula + "\n" + SENTENCE * 9 + "\n"
        for chunk in split(text):
            assert chunk.content.count("$$") in (0, 2)


def test_blank_lines_alone_are_no_overlap() -> None:
    item = "- item\n" + "".join(f"  {line}\n" for line in fence(25).splitlines()) + "\n"
    chunks = split(item * 6)
    assert len(chunks) == 6
    assert [chunk.overlap for chunk in chunks] == [0] * 6


# --- Tables --------------------------------------------------------------------------------------------

HEADER = "| name | place | year |\n|---|---|---|\n"


def test_every_piece_of_a_long_table_begins_with_its_header() -> None:
    rows = "".join(f"| mill {n} | by the river | {1800 + n} |\n" for n in range(160))
    text = "# H\n\nBefore.\n\n" + HEADER + rows + "\nAfter.\n"
    chunks = split(text)
    assert joined(chunks) == text
    assert len(chunks) > 3
    for chunk in chunks[1:]:
        assert chunk.content[: chunk.overlap] == HEADER
        assert chunk.content[chunk.overlap :].startswith("| mill")
        assert measure(chunk.content) <= CHUNK_SIZE
        first = text.split("\n")[chunk.start_line - 1]
        assert first == chunk.content[chunk.overlap :].split("\n")[0]


@pytest.mark.parametrize(
    "rows", ["| mill | by the river | 1800 |\n" * 40, "| mill | " + SENTENCE * 40 + " | 1800 |\n"]
)
def test_a_header_never_stands_without_a_row(rows: str) -> None:
    for before in range(0, 16):
        text = "# H\n\n" + SENTENCE * before + "\n\n" + HEADER + rows
        for chunk in split(text):
            assert not chunk.content.rstrip().endswith("|---|")


def test_a_giant_table_row_is_cut_under_the_header() -> None:
    text = HEADER + "| a | " + SENTENCE * 60 + " | 1 |\n| b | c | 2 |\n"
    chunks = split(text)
    assert joined(chunks) == text
    assert len(chunks) > 2
    for chunk in chunks[1:]:
        assert chunk.content[: chunk.overlap] == HEADER


def test_a_header_longer_than_half_of_a_chunk_is_not_repeated() -> None:
    header = "| " + " | ".join(["列" * 12] * 14) + " |\n|" + "---|" * 14 + "\n"
    text = header + ("| " + " | ".join(["值"] * 14) + " |\n") * 40
    chunks = split(text)
    assert joined(chunks) == text
    assert len(chunks) > 2
    for chunk in chunks:
        assert chunk.overlap < len(header)
        assert measure(chunk.content) <= CHUNK_SIZE


def test_what_follows_a_cut_table_repeats_no_header() -> None:
    text = HEADER + "| mill | by the river | 1800 |\n" * 60 + "\n" + SENTENCE * 60 + "\n"
    chunks = split(text)
    assert not chunks[-1].content.startswith("| name")
    assert chunks[-1].content.startswith("The river")


# --- Hidden text ---------------------------------------------------------------------------------------


def test_hidden_spans_are_in_no_chunk_and_lines_are_still_right() -> None:
    text = "One.\n\nDATA\nDATA\n\nTwo.\nDATA\n"
    spans = ((text.index("DATA"), text.index("\nTwo")), (text.rindex("DATA"), len(text)))
    (chunk,) = split_note(plain_note(text, hidden=spans))
    assert chunk.content == "One.\n\n\nTwo.\n"
    assert (chunk.start_line, chunk.end_line) == (1, 6)


def test_a_note_whose_every_word_is_hidden_has_no_chunk() -> None:
    assert split_note(plain_note("\nDATA\n", hidden=((1, 5),))) == []


def test_blocks_behind_a_hidden_span_are_still_kept_whole() -> None:
    data, code = "x" * 500 + "\n\n", fence(25) + "\n"
    text = SENTENCE * 10 + "\n\n" + data + code + SENTENCE * 10
    at = text.index(data)
    blocks = (
        Block("paragraph", 0, at),
        Block("paragraph", at, at + len(data)),
        Block("fence", at + len(data), at + len(data) + len(code)),
        Block("paragraph", at + len(data) + len(code), len(text)),
    )
    chunks = split_note(plain_note(text, blocks, ((at, at + len(data)),)))
    assert joined(chunks) == text.replace(data, "")
    assert [chunk.content.count("```") for chunk in chunks if "```" in chunk.content] == [2]


def test_a_drawing_is_indexed_by_its_words() -> None:
    text = (
        "---\nexcalidraw-plugin: parsed\n---\n\n# Excalidraw Data\n\n## Text Elements\nHello river ^a1\n\n"
        "%%\n## Drawing\n```compressed-json\nN4KAkARALgngDgUwgLgAQQQDwMYEMA2AlgCYBOuA7hADTgQBuCp\n```\n%%"
    )
    chunks = split(text)
    assert [chunk.heading for chunk in chunks] == ["Excalidraw Data", "Text Elements"]
    assert "N4KAk" not in joined(chunks)
    assert "Hello river" in joined(chunks)
