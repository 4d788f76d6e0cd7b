"""What a link says and where it leads."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from obsidian_rag.links import LinkResolver, decode_uri, normalize_name, read_markdown_link, read_wikilink
from obsidian_rag.models import Link, Resolution


@pytest.mark.parametrize(
    ("inner", "link"),
    [
        ("N", Link("wikilink", "N")),
        (" a/N.md ", Link("wikilink", "a/N.md")),
        ("N#H|d", Link("wikilink", "N", heading="H", display="d")),
        ("N|a|b", Link("wikilink", "N", display="a|b")),
        ("https://e.org/x", Link("wikilink", "https://e.org/x")),
        ("N#^id", Link("wikilink", "N", block="id")),
        ("N^id", Link("wikilink", "N^id")),
        ("## H", Link("wikilink", "", heading="# H")),
        ("C#", Link("wikilink", "C")),
        ("a.pdf#page=3", Link("wikilink", "a.pdf")),
        ("a.base#View", Link("wikilink", "a.base", heading="View")),
        ("a.pdf.md#H", Link("wikilink", "a.pdf.md", heading="H")),
        ("a.MP3#t=30", Link("wikilink", "a.MP3")),
    ],
)
def test_a_wikilink_is_taken_apart(inner: str, link: Link) -> None:
    assert read_wikilink(inner) == link


@pytest.mark.parametrize("inner", ["", "  ", " |x", "\xa0"])
def test_a_blank_wikilink_is_text(inner: str) -> None:
    assert read_wikilink(inner) is None


@pytest.mark.parametrize(
    ("destination", "target"),
    [
        ("N.md", "N.md"),
        ("./a:b.md", "./a:b.md"),
        ("../N.md", "../N.md"),
        ("/N.md", "/N.md"),
        ("example.org", "example.org"),
        ("a%20b", "a b"),
        ("#H", ""),
    ],
)
def test_a_markdown_link_without_a_scheme_is_internal(destination: str, target: str) -> None:
    link = read_markdown_link(destination, "x")
    assert link is not None
    assert link.target == target


@pytest.mark.parametrize(
    "destination", ["", " ", "https://e.org", "mailto:a@b", "file:///x", "a:b", "data:,x"]
)
def test_a_markdown_link_with_a_scheme_or_without_address_is_none_of_the_vault(destination: str) -> None:
    assert read_markdown_link(destination, "x") is None


@pytest.mark.parametrize(
    ("address", "decoded"),
    [
        ("a%20b", "a b"),
        ("%E4%BD%A0", "你"),
        ("%23%2f%3F%3a%40%26%3D%2B%24%2C%3B", "%23%2F%3F%3A%40%26%3D%2B%24%2C%3B"),
        ("100%", "100%"),
        ("100%%20a", "100%%20a"),
        ("%E4%BD", "%E4%BD"),
        ("%FF%20", "%FF%20"),
        ("%25", "%"),
        ("a+b", "a+b"),
    ],
)
def test_addresses_are_decoded_as_javascript_does(address: str, decoded: str) -> None:
    assert decode_uri(address) == decoded


def test_a_link_to_the_note_itself_leads_to_it() -> None:
    assert LinkResolver([]).resolve("", "a/b.md") == Resolution("a/b.md", "note", "name")


def resolve(files: list[str], target: str, source: str = "s.md") -> str | None:
    return LinkResolver(files).resolve(target, source).path


@pytest.mark.parametrize(
    ("target", "source", "path"),
    [
        ("./N", "a/b/s.md", "a/b/N.md"),
        ("../N", "a/b/s.md", "a/N.md"),
        ("../N.md", "a/b/s.md", "a/N.md"),
        ("../../c/N", "a/b/s.md", "c/N.md"),
        ("../../../../c/N", "a/b/s.md", "c/N.md"),
        ("./b/N", "a/s.md", "a/b/N.md"),
        ("./N", "c/d/s.md", None),
        ("/N", "a/s.md", None),
        ("/a/N", "c/s.md", "a/N.md"),
        ("b/N", "s.md", "a/b/N.md"),
        ("N", "a/s.md", "a/N.md"),
        ("N", "s.md", "a/N.md"),
        ("/N", "s.md", None),
        ("x/N", "s.md", None),
        ("N/", "s.md", None),
    ],
)
def test_paths_are_relative_rooted_or_endings(target: str, source: str, path: str | None) -> None:
    assert resolve(["a/N.md", "a/b/N.md", "c/N.md"], target, source) == path


def test_an_ending_starts_at_a_folder() -> None:
    assert resolve(["xb/N.md", "a/M.md"], "b/N") is None
    assert resolve(["ab/s.md", "a/N.md", "abc/N.md"], "N", "ab/s.md") == "a/N.md"


def test_the_shortest_path_is_counted_as_javascript_counts() -> None:
    # An emoji is two there, so the folder with the longer name in characters has the shorter path.
    assert resolve(["😀😀/N.md", "abc/N.md"], "N") == "abc/N.md"
    composed, decomposed = "é/N.md", unicodedata.normalize("NFD", "é/N.md")
    assert resolve([decomposed, "aa/N.md"], "N") == decomposed
    assert resolve([composed, "aa/N.md"], "N") == composed


def test_files_and_links_may_differ_in_case_spelling_and_kind_of_blank() -> None:
    assert resolve(["Ä/B C.MD"], "a\u0308/b\xa0c") == "Ä/B C.MD"
    assert normalize_name("İ") == normalize_name(normalize_name("İ"))


def test_only_the_ending_md_may_be_left_out() -> None:
    files = ["a.png", "b.canvas", "c.base", "LICENSE"]
    assert [resolve(files, name) for name in ("a", "b", "c", "LICENSE")] == [None] * 4
    assert [resolve(files, name) for name in ("A.PNG", "b.canvas", "c.base")] == files[:3]


def test_aliases_answer_by_the_same_rules_as_names() -> None:
    aliases = {"x/long/one.md": ["The Thing"], "y/two.md": ["the thing", "TCP/IP"], "z/three.md": ["C"]}
    resolver = LinkResolver(["x/long/one.md", "y/two.md", "z/three.md", "c.md", "the thing.png"], aliases)
    alias = Resolution("y/two.md", "note", "alias")
    assert resolver.resolve("the Thing", "s.md") == alias
    assert resolver.resolve("The\xa0thing", "s.md", "property") == alias
    assert resolver.resolve("tcp/ip", "s.md", "embed") == alias
    assert resolver.resolve("the thing", "x/s.md") == Resolution("x/long/one.md", "note", "alias")
    assert resolver.resolve("C", "s.md") == Resolution("c.md", "note", "name")
    assert resolver.resolve("the thing", "s.md", "markdown") == Resolution(None, "unresolved", None)


def read_the_rules(files: list[str], target: str, source: str) -> str | None:
    """Obsidian's order of resolution, step by step, over all files."""

    def normal(text: str) -> str:
        return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).replace("\xa0", " ").lower())

    def name(path: str) -> str:
        return normal(path).split("/")[-1]

    def exactly(path: str) -> str | None:
        return next((f for f in sorted(candidates) if normal(f) in (path, path + ".md")), None)

    if target == "":
        return source
    link = normal(target)
    candidates = [f for f in files if "." in name(link) and name(f) == name(link)]
    candidates = candidates or [f for f in files if name(f) == name(link) + ".md"]
    if not candidates:
        return None
    if len(candidates) == 1 and "/" not in link:
        return candidates[0]
    folder = normal(source).split("/")[:-1]
    if link.startswith(("./", "../")):
        here = list(folder)
        while link.startswith(("./", "../")):
            if link.startswith("../"):
                here = here[:-1]
            link = link.split("/", 1)[1]
        link = "/".join([*here, link])
        if exactly(link):
            return exactly(link)
    elif exactly(link.lstrip("/") if link.startswith("/") and not link.startswith("//") else link):
        return exactly(link.lstrip("/") if link.startswith("/") and not link.startswith("//") else link)
    elif link.startswith("/"):
        return None
    ending = [
        f
        for f in candidates
        if ("/" + normal(f)).endswith("/" + link) or ("/" + normal(f)).endswith("/" + link + ".md")
    ]
    below = [f for f in ending if normal(f).split("/")[: len(folder)] == folder]
    order = sorted(below or ending, key=lambda f: (len(normal(f).encode("utf-16-le")), normal(f), f))
    return order[0] if order else None


names = st.sampled_from(["a", "B", "a.b", "é", "e\u0301", "N o", "n\xa0o", "😀", "a.png", "x.js"])
folders = st.lists(st.sampled_from(["a", "b", "A", "é", "c.md", "😀"]), max_size=3)
paths = st.builds(
    lambda parts, name, ending: "/".join([*parts, name + ending]),
    folders,
    names,
    st.sampled_from([".md", ".MD", "", ".png"]),
)
targets = st.builds(
    lambda start, parts, name, ending: start + "/".join([*parts, name + ending]),
    st.sampled_from(["", "", "", "/", "./", "../", "../../", "./../"]),
    folders,
    names,
    st.sampled_from(["", "", ".md", ".png"]),
)


@given(st.lists(paths, min_size=1, max_size=12, unique=True), targets, st.data())
@settings(max_examples=1500, deadline=None)
@example(["a/a.md", "A/a.md"], "a/a", None)
def test_the_resolver_agrees_with_a_literal_reading_of_the_rules(
    files: list[str], target: str, data: st.DataObject | None
) -> None:
    source = data.draw(st.sampled_from([*files, "s.md", "a/s.md"])) if data else "s.md"
    assert LinkResolver(files).resolve(target, source).path == read_the_rules(files, target, source)


@given(st.permutations(["a/N.md", "A/n.md", "b/N.md", "c/N.md", "N.png"]))
def test_the_order_of_the_files_does_not_matter(files: list[str]) -> None:
    assert resolve(files, "N") == "A/n.md"
    assert resolve(files, "c/n") == "c/N.md"
