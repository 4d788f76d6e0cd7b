"""Properties, encodings and names that indexers are known to stumble over: each case, and two more."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from small_vault import HARD_CASES, headings, make_vault, read_case, section_text

from obsidian_rag.models import Link
from obsidian_rag.notes import parse_note


def parse_properties(yaml: str) -> tuple[Link, ...]:
    return parse_note("a.md", f"---\n{yaml}\n---\n").links


# F1: which properties are links


def test_a_property_is_a_link_where_its_whole_value_is_one() -> None:
    vault = read_case("F1")
    assert vault.notes["a.md"].links == (
        Link("property", "N", display="shown", property="up", line=2),
        Link("property", "N", property="rel.0", line=4),
        Link("property", "M", heading="H", property="rel.1", line=5),
        Link("property", "", heading="Top", property="self", line=7),
    )
    assert vault.paths("a.md") == ["N.md", "N.md", "M.md", "a.md"]


def test_what_only_contains_a_link_is_text() -> None:
    assert parse_properties('a: "[[N]]s"\nb: " [[N]]"\nc: "[[]]"\nd: "[[a]] and [[b]]"\ne: "[[a [[b]]"') == ()


def test_links_in_nested_properties_and_block_texts_are_named_by_their_key() -> None:
    found = parse_properties('a:\n  b: ["[[N]]", "[[#^x]]"]\nc: >-\n  [[M]]')
    assert [(x.property, x.target, x.block) for x in found] == [
        ("a.b.0", "N", None),
        ("a.b.1", "", "x"),
        ("c", "M", None),
    ]


# F2: bad YAML must not lose the note


def test_a_note_with_unreadable_properties_keeps_its_body_and_says_so() -> None:
    vault = read_case("F2")
    numbers = dict(at="one", tags="two", star="three", colon="four", two="five", tab="six", good="seven")
    for name, number in numbers.items():
        note = vault.notes[f"{name}.md"]
        assert f"body {number}" in section_text(note, None)
        assert "---" not in note.text[note.body_start :]
        assert bool(note.warnings) == (name != "good"), name
        assert note.front_matter == ({"title": "fine"} if name == "good" else {})
    assert vault.paths("two.md") == ["at.md"]


@pytest.mark.parametrize("yaml", ["a: [1, 2", 'a: "b', "- a\n- b", "just text", "a: b\n c: d", "a: 'b' c"])
def test_whatever_is_wrong_with_the_yaml_the_body_is_read(yaml: str) -> None:
    note = parse_note("a.md", f'---\n{yaml}\nup: "[[N]]"\n---\n# H\n[[M]]\n')
    assert note.front_matter == {}
    assert [link.target for link in note.links] == ["M"]
    assert headings(note) == [(1, "H")]
    (warning,) = note.warnings
    assert warning.startswith("The properties cannot be read: ")


def test_templates_and_repeated_keys_are_read_as_far_as_they_can_be() -> None:
    note = parse_note("a.md", "---\ntitle: {{title}}\ntags: [x]\n---\nbody\n")
    assert (note.front_matter["tags"], note.tags, note.warnings) == (["x"], ("x",), ())
    note = parse_note("a.md", '---\naliases: [A]\nup: "[[N]]"\naliases: [B, C]\n---\nbody\n')
    assert note.aliases == ("B", "C")
    # Obsidian shows such properties as invalid, so their links are none of its graph.
    assert note.links == ()
    assert '"aliases" (line 4)' in note.warnings[0]


# F4: tags and aliases of every type


def test_tags_and_aliases_of_every_type_are_read() -> None:
    notes = read_case("F4").notes
    assert notes["a.md"].tags == ("y2024/q1", "hash", "body/tag")
    assert notes["a.md"].aliases == ("1984", "Real Name")
    assert notes["a.md"].front_matter["date"] == "2024-01-15"
    assert notes["b.md"].tags == ()
    assert notes["b.md"].aliases == ("Single",)
    assert (notes["c.md"].tags, notes["c.md"].aliases) == ((), ())
    assert notes["d.md"].tags == ("journal",)
    assert [note.warnings for note in notes.values()] == [()] * 4


def test_names_are_never_split_nor_changed() -> None:
    note = parse_note("a.md", "---\naliases: [007, 1e3, 'Smith, John', true, [x], {a: b}, ~, 'Ａ  b']\n---\n")
    assert note.aliases == ("007", "1e3", "Smith, John", "true", "Ａ b")
    assert parse_note("a.md", "---\naliases: Smith, John\n---\n").aliases == ("Smith, John",)


def test_tags_are_one_without_regard_to_case_and_may_be_of_any_script() -> None:
    properties = "---\ntags: [Ab, '#ab', 'c d', 'e,f']\n---\n"
    body = "#AB #日本語、#x #हिन्दी #😀/👍🏽 (#no) a#no #1/2 \\#no x #a,b\n"
    assert parse_note("a.md", properties + body).tags == ("Ab", "日本語", "हिन्दी", "😀/👍🏽", "1/2", "a")


# E1: BOM and CRLF


def test_a_bom_and_crlf_change_nothing() -> None:
    vault = read_case("E1")
    note = vault.notes["a.md"]
    assert [(x.kind, x.target) for x in note.links] == [("property", "N"), ("wikilink", "N")]
    assert note.tags == ("x",)
    assert headings(note) == [(1, "First")]
    assert headings(vault.notes["N.md"]) == [(1, "Head")]
    assert vault.paths("a.md") == ["N.md", "N.md"]
    for each in vault.notes.values():
        assert "\r" not in repr(each)
        assert "\ufeff" not in repr(each)


def test_line_ends_of_every_kind_may_be_mixed(tmp_path: Path) -> None:
    vault = make_vault(tmp_path, {"a.md": b"---\ra: 1\r\n---\n# A\r## B\r\n\r\ntext [[N]]\r"})
    note = vault.notes["a.md"]
    assert (note.front_matter, headings(note)) == ({"a": 1}, [(1, "A"), (2, "B")])
    assert note.links == (Link("wikilink", "N", line=7),)


def test_utf_16_is_read_by_its_bom_or_its_nuls() -> None:
    from obsidian_rag.vault import decode

    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        text, warnings = decode("# Grüße\r\n[[N]]\n".encode(encoding))
        assert text == "# Grüße\n[[N]]\n"
        assert len(warnings) == 1


# E3: NFD file names, case, NBSP


def test_names_in_nfd_case_and_no_break_spaces_resolve(tmp_path: Path) -> None:
    for file in (HARD_CASES / "E3").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    cafe, result = (unicodedata.normalize("NFD", name) for name in ("Café.md", "결과.md"))
    vault = make_vault(tmp_path, {cafe: "", result: ""})
    found = vault.paths("a.md")
    assert [unicodedata.normalize("NFC", path or "") for path in found] == [
        "Café.md",
        "Café.md",
        "결과.md",
        "My Note.md",
        "My Note.md",
    ]
    assert all((tmp_path / path).is_file() for path in found if path)


def test_folders_in_nfd_and_links_in_nfd_meet(tmp_path: Path) -> None:
    folder = unicodedata.normalize("NFD", "Größe")
    link = unicodedata.normalize("NFD", "[[größe/übersicht]]")
    vault = make_vault(tmp_path, {f"{folder}/Übersicht.md": "", "x/Übersicht.md": "", "a.md": link})
    (path,) = vault.paths("a.md")
    assert unicodedata.normalize("NFC", path or "") == "Größe/Übersicht.md"


def test_case_is_ignored_in_every_script(tmp_path: Path) -> None:
    vault = make_vault(tmp_path, {"Ελλάδα.md": "", "МОСКВА.md": "", "a.md": "[[ΕΛΛΆΔΑ]] [[Москва]]"})
    assert vault.paths("a.md") == ["Ελλάδα.md", "МОСКВА.md"]


# W1: dot folders, trash, look-alikes and ignore filters


def test_only_notes_outside_dot_folders_are_listed() -> None:
    vault = read_case("W1")
    excluded = {file.path: file.excluded for file in vault.listing.notes}
    assert excluded == {
        "N.md": False,
        "UP.MD": False,
        "archive/Old.md": True,
        "folder.md/inside.md": False,
        "s.md": False,
        "tmp/draft1.md": True,
    }
    assert vault.listing.attachments == ("n.markdown",)
    assert vault.listing.failures == ()
    assert vault.paths("s.md") == ["N.md", None, "archive/Old.md"]
    assert vault.notes["UP.MD"].title == "UP"


def test_a_note_and_a_folder_of_one_name_stand_side_by_side(tmp_path: Path) -> None:
    files = {"Topic.md": "[[Topic]] [[Topic/Part]]", "Topic/Part.md": "", "x.md/y.md": ""}
    vault = make_vault(tmp_path, files)
    assert set(vault.notes) == set(files)
    assert vault.paths("Topic.md") == ["Topic.md", "Topic/Part.md"]


def test_filters_are_read_as_javascript_writes_them(tmp_path: Path) -> None:
    filters = ["Arch", "/(?<year>\\d{4})\\/x/", "", "/broken(/", 7]
    settings = json.dumps({"userIgnoreFilters": filters})
    files = {".obsidian/app.json": settings, "archive.md": "", "a/2024/x.md": "", "a/arch.md": ""}
    vault = make_vault(tmp_path, files)
    assert {f.path for f in vault.listing.notes if f.excluded} == {"archive.md", "a/2024/x.md"}
    (failure,) = vault.listing.failures
    assert "/broken(/" in failure.error
