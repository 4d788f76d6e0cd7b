"""Where links stand: their sentences as they read, what is written before them, what they stand under."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from obsidian_rag.inline import find_links
from obsidian_rag.mentions import LONGEST_LINK, LONGEST_SENTENCE, find_places
from obsidian_rag.models import Mention
from obsidian_rag.notes import MOST_MENTIONS, MOST_PLACES, parse_note


def mentions(text: str) -> tuple[Mention, ...]:
    return parse_note("Note.md", text).mentions


def show(mention: Mention) -> str:
    """The sentence with the link in brackets."""
    sentence, first, last = mention.sentence, mention.first, mention.last
    return f"{sentence[:first]}<{sentence[first:last]}>{sentence[last:]}"


def sentences(text: str) -> list[str]:
    return [show(mention) for mention in mentions(text)]


def labels(text: str) -> list[str | None]:
    return [mention.label for mention in mentions(text)]


def contexts(text: str) -> list[str]:
    return [mention.context for mention in mentions(text)]


# --- sentences ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One. Ann founded [[Acme]]. Two.", "Ann founded <Acme>."),
        ("One! Did Ann found [[Acme]]? Yes.", "Did Ann found <Acme>?"),
        ('He said "stop." Then [[Ann]] left.', "Then <Ann> left."),
        ("It met Dr. Lee and Mr. Poe at [[Acme]]. Two.", "It met Dr. Lee and Mr. Poe at <Acme>."),
        ("J. R. Poe wrote [[Acme]] in Jan. 1950. Two.", "J. R. Poe wrote <Acme> in Jan. 1950."),
        ("Vgl. z.B. die Firma [[Acme]] u. a. Zwei.", "Vgl. z.B. die Firma <Acme> u. a. Zwei."),
        ("Some tools, e.g. [[Acme]], help. Two.", "Some tools, e.g. <Acme>, help."),
        ("Costs 3.50 at [[Acme]]. Two.", "Costs 3.50 at <Acme>."),
        ("That ends etc. and [[Acme]] goes on. Two.", "That ends etc. and <Acme> goes on."),
        ("A box for [[Acme]]. mergerfs joins its disks.", "A box for <Acme>."),
        ("we met in the kitchen. [[Acme]] was there", "<Acme> was there"),
        ("it was a surprise. then [[Acme]] came", "then <Acme> came"),
        ("Ann is in and Bob isn't. [[Acme]] left.", "<Acme> left."),
        ("Some resp. all of [[Acme]] came approx. on time", "Some resp. all of <Acme> came approx. on time"),
        ("前文。安创立了[[Acme]]。后文。", "安创立了<Acme>。"),
        ("「なに？」[[東京]]へ行った！次。", "」<東京>へ行った！"),
        ("यह एक है। [[राम]] आया। दो।", "<राम> आया।"),
        ("Trailing [[Acme]]", "Trailing <Acme>"),
    ],
)
def test_a_sentence_ends_where_a_reader_ends_it(text: str, found: str) -> None:
    assert sentences(text) == [found]


def test_a_link_text_with_a_full_stop_is_not_cut() -> None:
    assert sentences("We met [[Poe. J. and Sons. Ltd]] today. Two.") == [
        "We met <Poe. J. and Sons. Ltd> today."
    ]


def test_wrapped_lines_are_one_sentence_and_short_lines_are_one_each() -> None:
    wrapped = (
        "This paragraph was wrapped by an editor at some width, so that a sentence of\n"
        "it goes on here, where Ann founded [[Acme]] with her\nbrother. Another one."
    )
    assert sentences(wrapped) == [
        "This paragraph was wrapped by an editor at some width, so that a sentence of\n"
        "it goes on here, where Ann founded <Acme> with her"
    ]
    assert sentences("Founder [[Ann]]\nInvestor [[Bob]]") == ["Founder <Ann>", "Investor <Bob>"]


def test_links_of_one_sentence_share_its_number_and_others_do_not() -> None:
    text = "[[A]] met [[B]]. Then [[C]] came.\n\n[[D]] left."
    assert [mention.sentence_no for mention in mentions(text)] == [0, 0, 1, 2]


def test_lines_are_those_of_the_file() -> None:
    text = '---\nup: "[[Top]]"\n---\n\nOne\n[[A]]\n\n- two\n- [[B]]\n\n| x |\n|---|\n| [[C]] |\n'
    assert [(m.line, parse_note("N.md", text).links[m.link].target) for m in mentions(text)] == [
        (2, "Top"),
        (6, "A"),
        (9, "B"),
        (13, "C"),
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See [[people/Ann Lee|Ann]].", "See <Ann>."),
        ("See [[people/Ann Lee]].", "See <Ann Lee>."),
        ("See [[people/Ann Lee.md]].", "See <Ann Lee>."),
        ("See [[Ann Lee#Work]].", "See <Ann Lee>."),
        ("See [[#Work]].", "See <Work>."),
        ("See [Ann of **Acme**](people/ann.md).", "See <Ann of Acme>."),
        ("See ![[Ann]].", "See <Ann>."),
        ("See ![a photo](ann.png).", "See <a photo>."),
        ("**Founded by [[Ann]]** and ==her *friend*== `Bob`.", "Founded by <Ann> and her friend Bob."),
        ("| a |\n|---|\n| met [[people/Ann\\|Ann L.]] |", "met <Ann L.>"),
    ],
)
def test_a_sentence_reads_as_it_is_shown(text: str, found: str) -> None:
    assert sentences(text) == [found]


def test_an_image_inside_of_a_link_text_stands_where_that_does() -> None:
    assert sentences("See [![logo](logo.png)](acme.md) now.") == ["See <![logo](logo.png)> now."] * 2


def test_a_link_to_the_web_is_no_mention_but_reads_as_text() -> None:
    assert sentences("From [the paper](https://example.com/a) by [[Ann]].") == ["From the paper by <Ann>."]


def test_of_a_long_sentence_the_part_around_the_link_is_kept() -> None:
    (mention,) = mentions(f"{'before ' * 300}founded [[Acme]] {'after ' * 300}")
    assert len(mention.sentence) <= LONGEST_SENTENCE + LONGEST_LINK
    assert "before before founded <Acme> after after" in show(mention)
    assert mention.sentence.startswith("before ") and mention.sentence.endswith(" after")


def test_a_long_run_without_blanks_is_cut_where_it_must() -> None:
    (mention,) = mentions(f"{'w' * 2000}[[Acme]]{'v' * 2000}")
    assert len(mention.sentence) <= LONGEST_SENTENCE + LONGEST_LINK
    assert show(mention).count("<Acme>") == 1


def test_a_very_long_link_text_is_cut() -> None:
    (mention,) = mentions(f"See [{'long ' * 1000}](a.md) now.")
    assert mention.last - mention.first <= LONGEST_LINK


# --- labels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Author: [[Ann]]", ["Author"]),
        ("**Author:** [[Ann]]", ["Author"]),
        ("**Author**: [[Ann]]", ["Author"]),
        ("- Author: [[Ann]]", ["Author"]),
        ("- [ ] Author: [[Ann]]", ["Author"]),
        ("作者：[[安]]", ["作者"]),
        ("author:: [[Ann]]", ["author::"]),
        ("- **author**:: [[Ann]]", ["author::"]),
        ("A book (author:: [[Ann]]) of note", ["author::"]),
        ("A book [author:: [[Ann]]] of note", ["author::"]),
        ("> **Author:** see [[Ann]]", ["Author::"]),
        ("> **Author:** see [Ann](people/ann.md)", ["Author::"]),
        ("> **Part of:** [the whole](whole.md)", ["Part of::"]),
        ("> Author: [[Ann]]", ["Author"]),
        ("Authors: [[Ann]], [[Bob]] and [[Cem]]", ["Authors"] * 3),
        ("author:: [[Ann]], *[[Bob]]* & [[Cem]]", ["author::"] * 3),
        ("作者：[[安]]、[[鲍勃]]和[[查]]", ["作者"] * 3),
        ("author:: [[Ann]] | editor:: [[Bob]]", ["author::", None]),
        ("author:: [[Ann]]\neditor:: [[Bob]]", ["author::", "editor::"]),
        ("**Author:** [[Ann]] **Editor:** [[Bob]]", ["Author", "Editor"]),
        ("(author:: [[Ann]]) [[Bob]]", ["author::", None]),
        ("Author: [[Ann]] who met [[Bob]]", ["Author", None]),
        ("Author: [[Ann]]\n[[Bob]]", ["Author", None]),
        ("Author: the well known writer of it all [[Ann]]", [None]),
        ("At 10:30 [[Ann]] came", [None]),
        ("see https://example.com [[Ann]]", [None]),
        ("[[Ann]]: [[Bob]]", [None, None]),
        ("A sentence of more words than any label would have, this: [[Ann]]", [None]),
    ],
)
def test_a_label_is_what_is_written_before_a_link_as_its_type(text: str, found: list[str | None]) -> None:
    assert labels(text) == found


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ('author: "[[Ann]]"', ["author::"]),
        ('author:\n  - "[[Ann]]"\n  - "[[Bob]]"', ["author::", "author::"]),
        ('film:\n  made by:\n    - "[[Ann]]"', ["film.made by::"]),
        ('up: "see [[Ann]]"', []),
    ],
)
def test_the_key_of_a_property_is_a_label_without_a_sentence(properties: str, found: list[str]) -> None:
    given = mentions(f"---\n{properties}\n---\n")
    assert [mention.label for mention in given] == found
    assert {mention.sentence for mention in given} <= {""}


# --- what links stand under --------------------------------------------------------------------------


def test_a_heading_is_what_links_below_stand_under_until_the_next() -> None:
    text = "# Note\n\n[[A]]\n\n## Investors\n\n[[B]]\n\n### Early\n\n[[C]]\n\n## Team\n\n[[D]]\n"
    assert contexts(text) == ["", "Investors", "Early", "Team"]


def test_a_heading_that_names_the_note_says_nothing_but_headings_of_sections_do() -> None:
    assert contexts("# Founders\n\n[[A]]\n") == [""]
    assert contexts("Text.\n\n# Founders\n\n[[A]]\n") == ["Founders"]
    assert contexts("# Founders\n\n[[A]]\n\n# Investors\n\n[[B]]\n") == ["Founders", "Investors"]


def test_a_link_in_a_heading_stands_under_nothing() -> None:
    assert contexts("## Investors\n\n### Talk with [[Ann]]\n") == [""]


def test_list_items_stand_under_those_above_them() -> None:
    text = "- Investors\n  - early\n    - [[A]]\n  - [[B]]\n- Team\n  - [[C]]\n- [[D]]\n"
    assert contexts(text) == ["Investors\nearly", "Investors", "Team", ""]


def test_only_the_nearest_levels_of_a_deep_list_count() -> None:
    deep = "".join(f"{'  ' * depth}- level {depth}\n" for depth in range(20)) + "  " * 20 + "- [[A]]\n"
    assert contexts(deep) == ["level 16\nlevel 17\nlevel 18\nlevel 19"]


@pytest.mark.parametrize(
    "line", ["Investors:", "**Investors:**", "**Investors**:", "It has these. Investors:"]
)
def test_a_line_that_ends_with_a_colon_introduces_the_list_or_table_below(line: str) -> None:
    found = contexts(f"{line}\n\n- [[A]]\n- [[B]]\n\nLater [[C]].\n")
    assert [context.strip("*:") for context in found] == ["Investors", "Investors", ""]
    assert "Investors" in contexts(f"{line}\n\n| who |\n|---|\n| [[A]] |\n")[0]


def test_a_long_list_item_speaks_of_its_own_links_only() -> None:
    item = "Yesterday we talked at length about how the company was founded by friends"
    assert contexts(f"- {item}\n  - [[A]]\n") == [""]
    assert contexts(f"{item}:\n\n- [[A]]\n") == [""]


def test_what_introduces_is_kept_without_its_links() -> None:
    text = "## Investors of [[Acme]] by [the founder](ann.md)\n\n[[A]]\n"
    assert contexts(text)[-1] == "Investors of by the founder"


def test_the_title_of_a_callout_is_for_all_of_it_and_ends_with_it() -> None:
    text = "> [!info]- Investors\n> [[A]]\n>\n> - [[B]]\n\n[[C]]\n\n> plain [[D]]\n"
    assert contexts(text) == ["Investors", "Investors", "", ""]


def test_the_cells_of_a_row_read_as_one_sentence_each_under_its_column() -> None:
    text = (
        "## Rounds\n\n| Company | Investors |\n|---|---|\n| [[Acme]] | [[Ann]], [[Bob]] |\n| [[Bolt]] |  |\n"
    )
    given = mentions(text)
    assert [show(mention) for mention in given] == [
        "<Acme> | Ann, Bob",
        "Acme | <Ann>, Bob",
        "Acme | Ann, <Bob>",
        "<Bolt> |",
    ]
    assert [mention.context for mention in given] == [
        "Rounds\nCompany",
        "Rounds\nInvestors",
        "Rounds\nInvestors",
        "Rounds\nCompany",
    ]


def test_a_link_in_the_head_of_a_table_stands_under_no_column() -> None:
    assert contexts("| [[A]] | b |\n|---|---|\n| x | [[B]] |\n") == ["", "b"]


# --- bounds ------------------------------------------------------------------------------------------


def test_of_one_link_the_first_places_are_kept() -> None:
    note = parse_note("Note.md", "Met [[A]].\n\n" * 40 + "Met [[B]].\n")
    assert [link.count for link in note.links] == [40, 1]
    assert [mention.link for mention in note.mentions] == [0] * MOST_MENTIONS + [1]


def test_of_one_note_so_many_places_are_kept_and_every_link() -> None:
    note = parse_note("Note.md", "".join(f"[[N{number}]] " for number in range(MOST_PLACES + 500)))
    assert (len(note.links), len(note.mentions)) == (MOST_PLACES + 500, MOST_PLACES)


def test_the_pieces_of_a_very_long_sentence_are_told_apart() -> None:
    given = mentions("".join(f"[[Note {number}]], " for number in range(400)))
    sizes = [len([m for m in given if m.sentence_no == n]) for n in {m.sentence_no for m in given}]
    assert max(sizes) <= LONGEST_SENTENCE // len("Note 1, ") + 1


HOSTILE: dict[str, Callable[[int], str]] = {
    "brackets": lambda n: "[" * n,
    "no full stop": lambda n: "word " * (n // 5) + "[[X]]",
    "no blank": lambda n: "w" * n + "[[X]]" + "v" * n,
    "blanks between links": lambda n: "[[A]]" + " " * n + "x[[B]]",
    "many links": lambda n: "".join(f"[[N{number}]] " for number in range(n // 10)),
    "one link often": lambda n: "[[N]] " * (n // 6),
    "quotes after a stop": lambda n: "." + '"' * n + "x [[A]]",
    "open labels": lambda n: ("(a" + " " * 100) * (n // 100) + "[[A]]",
    "labels": lambda n: "a: " * (n // 3) + "[[A]]",
    "bold labels": lambda n: "**a:** " * (n // 7) + "[[A]]",
    "emphasis": lambda n: "*_" * (n // 2) + "[[A]]",
    "stops": lambda n: ". " * (n // 2) + "[[A]]",
    "initials": lambda n: "A. " * (n // 3) + "[[A]]",
    "short lines": lambda n: "a\n" * (n // 2) + "[[A]]",
    "images in a link text": lambda n: "[" + "".join(f"![a](b{i}.png) " for i in range(n // 15)) + "](x.md)",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_read_whole(name: str) -> None:
    """Whatever takes the square of a text's length takes minutes here."""
    text = HOSTILE[name](200_000)
    written, _ = find_links(text)
    places = find_places(text, written)
    assert len(places) == len(written)
    for link, place in zip(written, places, strict=True):
        if name != "images in a link text":
            assert place.sentence[place.first : place.last] == link.target
        assert len(place.sentence) <= LONGEST_SENTENCE + LONGEST_LINK


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_kept_of_a_hostile_note_is_bounded(name: str) -> None:
    kept = sum(len(m.sentence) + len(m.context) for m in mentions(HOSTILE[name](60_000)))
    assert kept <= MOST_PLACES * (LONGEST_SENTENCE + LONGEST_LINK)
