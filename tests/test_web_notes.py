"""A note's Markdown as the page shows it, and as plain words."""

from __future__ import annotations

import pytest

from obsidian_rag.passages import read_wanted
from obsidian_rag.web.notes import MOST_BRACKETS, Shown, read_plain, render_note
from obsidian_rag.web.replies import MOST_SHOWN, cut_part


def render(text: str, first: int = 0, last: int = 0, query: str = "", **targets: str) -> str:
    """HTML of a text with the lines `first` to `last`, from 1, as the passage."""
    passage = range(first - 1, last) if first else range(0)
    return render_note(text, Shown(read_wanted(query), targets, passage))


def test_of_a_list_only_the_items_of_the_passage_are_marked() -> None:
    html = render("1. one\n2. two\n3. three\n\nAfter.\n", 2, 3)
    assert html.splitlines() == [
        "<ol>",
        "<li>one</li>",
        '<li class="passage" id="passage">two</li>',
        '<li class="passage">three</li>',
        "</ol>",
        "<p>After.</p>",
    ]


def test_what_lies_wholly_in_the_passage_is_marked_once() -> None:
    html = render("# Top\n\n- a\n  - b\n\n> quoted\n", 1, 6)
    assert html.count('class="passage"') == 3
    assert '<ul class="passage">' in html
    assert '<blockquote class="passage">' in html


def test_rows_of_a_table_and_a_fence_that_the_passage_touches_are_marked() -> None:
    html = render("| a |\n|---|\n| b |\n| c |\n\n```sh\nx\ny\n```\n", 4, 7)
    assert html.count("passage") == 3  # the class of two blocks, and the id
    assert '<tr class="passage" id="passage">\n<td>c</td>' in html
    assert '<pre tabindex="0" class="passage"><code>x' in html


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("see [[Pump]]", '<a class="note-link" href="/?note=G%2FP%26.md" data-note="G/P&amp;.md">Pump</a>'),
        ("[[pump#Winter time|cold]]", ">cold</a>"),
        ("[[pump#Winter]]", ">pump &gt; Winter</a>"),
        ("![[pump]]", '<span class="embed" aria-hidden="true">↳ </span><a'),
        ("[x](pump)", 'data-note="G/P&amp;.md">x</a>'),
        ("[[None]]", '<span class="nowhere" title="Not a note of the index">None</span>'),
        (
            "![a](http://x.example/p.png)",
            '<span class="picture-name" title="http://x.example/p.png">Picture: a',
        ),
        ("> [!warning] Hot\n> pipe", '<blockquote class="callout">\n<p><strong>Warning: </strong>Hot<br>'),
        ("- [x] done", 'type="checkbox"'),
        ("$a<b$", '<code class="math">a&lt;b</code>'),
        ("|a|\n|-:|\n|b|", '<th class="right">a</th>'),
        ("~~gone~~", "<s>gone</s>"),
        ("x[^1]\n\n[^1]: said", "said"),
    ],
)
def test_markdown_and_obsidian_s_additions_are_shown(written: str, shown: str) -> None:
    html = render(written, pump="G/P&.md")
    assert shown in html
    assert "style=" not in html


def test_words_asked_for_are_marked_in_text_code_and_links_but_never_in_tags() -> None:
    html = render("class [[Pump|class]] `class` **class**\n\n```\nclass\n```", query="class", pump="P.md")
    assert html.count("<mark>class</mark>") == 5
    assert '<a class="note-link"' in html


@pytest.mark.parametrize("sign", ["[", "![", "[[a", "^[", "**a", "> ", "* a\n", "|a", "`` ` ", "$a ", "<a "])
def test_a_text_made_to_be_hard_to_read_is_shown_whole(sign: str) -> None:
    text = f"first {sign * (MOST_SHOWN // len(sign))} middle\n\n{sign * 100}last"
    for shown in (render(text, 1, 1), read_plain(text)):
        assert [word for word in ("first", "middle", "last") if word in shown] == ["first", "middle", "last"]


def test_a_text_of_brackets_is_shown_as_it_is_written_with_its_passage() -> None:
    html = render("[" * (MOST_BRACKETS + 1) + "\n<b>\nend", 2, 2)
    assert html.startswith('<pre class="plain">[[[')
    assert '\n<span class="passage" id="passage">&lt;b&gt;</span>\nend</pre>' in html


def test_plain_words_have_no_markup_and_a_line_for_each_block() -> None:
    text = (
        "## Own heading\n\n**Bold** [[Pump|the pump]]\n\n- one\n- `two`\n\n|a|b|\n|-|-|\n|c||\n\n- [ ] task\n"
    )
    assert read_plain(text).split("\n") == ["Bold the pump", "one", "two", "a · b", "c", "task"]
    assert read_plain("#tag and words") == "#tag and words"


def test_markup_leaves_no_blanks_where_it_stood() -> None:
    text = '**Oak**, *par* 71; "`a`". **b**c ~~d~~!\nnext'
    assert read_plain(text) == 'Oak, par 71; "a". bc d! next'


def test_a_long_note_is_cut_at_lines_around_the_one_asked_for() -> None:
    content = "---\na: 1\n---\n" + "\n".join(f"{number} {'x' * 99}" for number in range(4, 5004))
    whole = cut_part("---\na: 1\n---\nfour\nfive", 5)
    assert (whole.text, whole.first, whole.last, whole.lines) == ("four\nfive", 4, 5, 5)
    assert not whole.earlier
    part = cut_part(content, 2500)
    assert part.first < 2400 < 2600 < part.last
    assert part.text.startswith(f"{part.first} ")
    assert part.text.splitlines()[-1].startswith(f"{part.last} ")
    assert len(part.text) < MOST_SHOWN + 200
    assert cut_part(content, 10**9).last == part.lines == 5003
    assert len(cut_part("y" * 500_000, 1).text) <= MOST_SHOWN + 1
