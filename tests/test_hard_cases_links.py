"""Links that indexers are known to misread: each case as it was reported, and two more of its kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_vault import make_vault, read_case

from obsidian_rag.models import Link
from obsidian_rag.notes import parse_note


def links(text: str) -> list[tuple[str, str | None, str | None, str | None]]:
    """Target, heading, block and display text of each link."""
    return [(x.target, x.heading, x.block, x.display) for x in parse_note("a.md", text).links]


def targets(text: str) -> list[str]:
    return [link.target for link in parse_note("a.md", text).links]


# L1: escaped pipe in a table cell


def test_an_escaped_pipe_in_a_table_is_no_part_of_the_target() -> None:
    vault = read_case("L1")
    assert vault.notes["t.md"].links == (
        Link("wikilink", "notes/foo", display="Foo", line=3),
        Link("embed", "pic.png", line=3),
        Link("wikilink", "foo", heading="Part", display="p", line=4),
    )
    assert vault.paths("t.md") == ["notes/foo.md", "img/pic.png", "notes/foo.md"]


def test_an_unescaped_pipe_in_a_table_splits_the_cell_and_the_link() -> None:
    assert links("| a | b |\n|---|---|\n| [[N|x]] | [[M]] |\n") == []
    assert links("| a | b |\n|---|---|\n| [[N\\|x]] | [[M]] |\n") == [
        ("N", None, None, "x"),
        ("M", None, None, None),
    ]


def test_an_escaped_pipe_outside_a_table_is_read_alike() -> None:
    assert links("[[N\\|x]] and [[M#H\\|y]]") == [("N", None, None, "x"), ("M", "H", None, "y")]


# L2: several notes share the name


def test_of_several_notes_the_one_below_the_source_wins_then_the_shortest_path() -> None:
    vault = read_case("L2")
    assert vault.paths("root.md") == ["b/Note.md"]
    assert vault.paths("zzzz/deep/s2.md") == ["b/Note.md"]
    assert vault.paths("zzzz/s.md") == ["zzzz/Note.md"]
    assert vault.paths("a/b/s3.md") == ["b/Note.md", "a/b/Note.md"]


def test_a_note_in_the_root_takes_every_bare_link(tmp_path: Path) -> None:
    # Its whole path is what the link says, and an exact path wins even over the source's own folder.
    vault = make_vault(tmp_path, {"Note.md": "", "z/Note.md": "", "z/s.md": "[[Note]] [[z/Note]]"})
    assert vault.paths("z/s.md") == ["Note.md", "z/Note.md"]


def test_a_rooted_link_looks_only_where_it_says(tmp_path: Path) -> None:
    files = {"a/b/Note.md": "", "c/Note.md": "", "s.md": "[[/c/Note]] [[/b/Note]] [[b/Note]]"}
    assert make_vault(tmp_path, files).paths("s.md") == ["c/Note.md", None, "a/b/Note.md"]


# L3: a Markdown link is looked up everywhere after decoding


def test_markdown_links_are_decoded_and_looked_up_in_the_whole_vault() -> None:
    vault = read_case("L3")
    note = vault.notes["r.md"]
    assert [(x.display, x.target, x.heading) for x in note.links] == [
        ("y", "My Note.md", None),
        ("n", "My Note", None),
        ("a", "Sub/My Note.md", None),
        ("h", "Sub/My Note.md", "A b"),
        ("s", "", "H"),
        ("p", "100%.md", None),
    ]
    assert {x.kind for x in note.links} == {"markdown"}
    found = ["Sub/My Note.md"] * 4
    assert vault.paths("r.md") == [*found, "r.md", "100%.md"]
    assert vault.paths("Sub/z.md") == ["Sub/My Note.md"]


def test_reserved_characters_stay_encoded_and_titles_are_no_part_of_the_path() -> None:
    assert targets(
        "[a](x%23y.md) [b](C%2B%2B.md \"t\") [c](x%20y.md 't') [d](z.md (t)) [e](%E4%BD%A0.md)"
    ) == [
        "x%23y.md",
        "C%2B%2B.md",
        "x y.md",
        "z.md",
        "你.md",
    ]


def test_brackets_and_parentheses_in_markdown_links_nest() -> None:
    text = "[a [b] c](x(1).md) [d](y\\(.md) [e [f](z.md) g](w.md) ![p [q](r.md)](s.png)"
    assert links(text) == [
        ("x(1).md", None, None, "a [b] c"),
        ("y(.md", None, None, "d"),
        ("z.md", None, None, "f"),
        ("s.png", None, None, "p [q](r.md)"),
        ("r.md", None, None, "q"),
    ]


# L4: code and HTML comments hide links, %% comments do not


def test_code_and_html_hide_links_and_comments_do_not() -> None:
    assert targets_of_case() == ["k1", "k2", "k3"]


def targets_of_case() -> list[str]:
    return [link.target for link in read_case("L4").notes["a.md"].links]


@pytest.mark.parametrize(
    "text",
    [
        "`a\n[[x]]`",
        "``[[x]] ` ``",
        "a <!-- b\n[[x]] --> c",
        '<a title="[[x]]">b</a>',
        "<https://e.org/[[x]]>",
        "$a + [[x]]$",
        "a $$\n[[x]]\n$$ b",
        "$$\n[[x]]\n\n[[y]]\n$$",
        "> ```\n> [[x]]\n> ```",
        "- a\n\n      [[x]]",
        "<?php [[x]] ?>",
        "text\n<!--\n[[x]]\n\n[[y]]\n-->",
    ],
)
def test_what_hides_a_link_hides_it_everywhere(text: str) -> None:
    assert targets(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "`a [[x]]",
        "\\`[[x]]`",
        "`` [[x]] `",
        "<!- [[x]] -->",
        "a < b [[x]] > c",
        "it costs $5 [[x]] or $6",
        "$ [[x]] $",
        "\\$a [[x]] b$",
        "[[x]] $a$",
        "[[x|$]] a$",
        "%%\n# a\n\n- [[x]]\n%%",
        "- a\n\n    [[x]]",
        "[^1]: a\n\n    [[x]]",
        "$$a\n\n[[x]]",
        "# [[x]]",
        "> [!note] [[x]]",
        "**[[x]]**",
        "\\\\[[x]]",
        "%%%%\n[[x]]",
        "<b>[[x]]</b>",
        "[^1]: [[x]]",
    ],
)
def test_what_only_looks_like_code_or_mathematics_hides_nothing(text: str) -> None:
    assert targets(text) == ["x"]


# L6: an alias is not a link target


def test_an_alias_answers_only_where_no_file_does_and_is_marked() -> None:
    vault = read_case("L6")
    found = [vault.follow(link, "a.md") for link in vault.notes["a.md"].links]
    assert [(x.path, x.target_type, x.via) for x in found] == [
        ("n/Artificial Intelligence.md", "note", "alias"),
        ("n/Artificial Intelligence.md", "note", "name"),
        ("n/Artificial Intelligence.md", "note", "name"),
    ]


def test_a_file_wins_over_an_alias(tmp_path: Path) -> None:
    files = {"a.md": "[[AI]]", "x/ai.md": "", "n/Art.md": "---\naliases: [AI]\n---\n"}
    vault = make_vault(tmp_path, files)
    assert vault.follow(vault.notes["a.md"].links[0], "a.md").path == "x/ai.md"
    assert vault.follow(vault.notes["a.md"].links[0], "a.md").via == "name"


def test_a_markdown_link_is_never_answered_by_an_alias(tmp_path: Path) -> None:
    vault = make_vault(tmp_path, {"a.md": "[x](AI) ![y](AI)", "b.md": "---\naliases: AI\n---\n"})
    assert vault.paths("a.md") == [None, None]


# L7: dots in note names are not extensions


def test_dots_in_names_are_no_extensions() -> None:
    vault = read_case("L7")
    assert vault.paths("a.md") == [
        "B.H. Liddell Hart.md",
        "m/acp.daemon.md",
        "truffle-config.js.md",
        "1.10 Net.md",
        "1.1 Net.md",
        "w/NTUSER.DAT.md",
        "x.md",
        "y.md.md",
    ]
    assert vault.notes["1.10 Net.md"].title == "1.10 Net"
    assert vault.notes["y.md.md"].title == "y.md"


def test_a_file_named_as_written_wins_over_the_note_with_md_added(tmp_path: Path) -> None:
    vault = make_vault(tmp_path, {"a.js": "", "n/a.js.md": "", "s.md": "[[a.js]] [[a.js.md]] [[n/a.js]]"})
    # The last has a candidate of its name, a.js, which is not where the link says.
    assert vault.paths("s.md") == ["a.js", "n/a.js.md", None]


def test_names_that_end_in_a_dot_or_look_like_versions_resolve(tmp_path: Path) -> None:
    vault = make_vault(tmp_path, {"etc..md": "", "v1.2.3.md": "", "s.md": "[[etc.]] [[v1.2.3]] [[v1.2]]"})
    assert vault.paths("s.md") == ["etc..md", "v1.2.3.md", None]


# L8: heading chains, blocks, links into the same note, empty and piped ones


def test_subpaths_blocks_and_odd_pipes_are_told_apart() -> None:
    vault = read_case("L8")
    note = vault.notes["a.md"]
    assert [(x.target, x.heading, x.block, x.display) for x in note.links] == [
        ("N", "H1#H2", None, "see"),
        ("N", None, "blk-1", None),
        ("", "Here", None, None),
        ("", None, "b", None),
        ("N", 'H: 1, "x"', None, None),
        ("pa", "th/N", None, None),
        ("|x", None, None, None),
        ("N", None, None, "|y"),
        ("N", None, None, None),
    ]
    assert note.links[-1].count == 2
    assert vault.paths("a.md") == ["N.md", "N.md", "a.md", "a.md", "N.md", None, None, "N.md", "N.md", "N.md"]


def test_brackets_inside_a_link_and_links_inside_brackets() -> None:
    assert targets("[[Sq]uare]] [[a [[b]] c]] [[[d]]] [[e\nf]] [[g[1]]] [ [h]]") == [
        "Sq]uare",
        "b",
        "d",
        "g[1",
    ]


def test_a_chain_of_headings_may_end_in_a_block() -> None:
    assert links("[[N#H#^id]] [[N#^]] [[N#]] [[N # H ]] [[#]]") == [
        ("N", "H", "id", None),
        ("N", None, None, None),
        ("N", "H", None, None),
        ("", None, None, None),
    ]


# L10: embeds and attachments


def test_embeds_and_attachments_are_found_by_their_whole_name() -> None:
    vault = read_case("L10")
    note = vault.notes["a.md"]
    assert [(x.kind, x.target, x.heading, x.display) for x in note.links] == [
        ("embed", "N", "Part", None),
        ("embed", "pic.png", None, None),
        ("embed", "Doc.pdf", None, None),
        ("markdown_embed", "pic.png", None, "alt"),
        ("wikilink", "Figure 1", None, None),
        ("wikilink", "Figure 1.png", None, None),
        ("embed", "v.canvas", None, None),
    ]
    assert vault.paths("a.md") == [
        "N.md",
        "at/pic.png",
        "at/Doc.pdf",
        "at/pic.png",
        None,
        "Figure 1.png",
        "v.canvas",
    ]
    found = [vault.follow(link, "a.md").target_type for link in note.links]
    assert found == ["note", *["attachment"] * 3, "unresolved", "attachment", "attachment"]


def test_sizes_are_no_display_text() -> None:
    assert links("![[a.png|cap|100]] ![[N|see]] [[b.png|100]] ![c|50x60](d.png) ![9](e.png)") == [
        ("a.png", None, None, "cap"),
        ("N", None, None, "see"),
        ("b.png", None, None, "100"),
        ("d.png", None, None, "c"),
        ("e.png", None, None, None),
    ]


def test_an_exclamation_mark_makes_an_embed_only_right_before_the_brackets() -> None:
    found = parse_note("a.md", "![[a]] \\![[b]] ! [[c]] !![[d]] x![e](f.png)").links
    assert [(link.kind, link.target) for link in found] == [
        ("embed", "a"),
        ("wikilink", "b"),
        ("wikilink", "c"),
        ("embed", "d"),
        ("markdown_embed", "f.png"),
    ]
