"""A neighbourhood as a picture: a Mermaid flowchart and a page that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import shutil
import subprocess
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from obsidian_rag.graph import Graph, GraphEdge, GraphLink
from obsidian_rag.picture import (
    MOST_LINKS,
    MOST_NOTES,
    Picture,
    PictureLink,
    make_picture,
    make_url,
    name_notes,
)
from obsidian_rag.picture.drawing import draw_links, draw_notes, name_kind
from obsidian_rag.picture.labels import Box
from obsidian_rag.picture.mermaid import escape, render_mermaid
from obsidian_rag.picture.page import render_page

BROWSER = next(
    filter(
        None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))
    ),
    None,
)
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no chromium, chromium-browser or google-chrome on the PATH"
)
HOSTILE = (
    "<script>alert(1)</script>",
    'quote" onload="alert(1)',
    "</script><img src=x onerror=alert(1)>",
    "{{data}} {{policy}}",
    "]] --> n9[[x]] %% end",
    "`code` #quot; &amp; $&",
    "練習メモ \u202egpj.exe\x07 ك 👩‍🚀",
    "end",
)


def draw(notes: list[str], relation: str | None = "founded", **how: Any) -> Picture:
    """A star: the first note links to all others, a sentence with each name."""
    paths = [f"{n:03}/{note}.md" for n, note in enumerate(notes)]
    said = [(path, f"It says {note}.") for path, note in zip(paths, notes, strict=True)][1:]
    edges = [
        GraphEdge(path, 1, "out", paths[0], f"[[{path}]]", None, relation, sentence)
        for path, sentence in said
    ]
    links = [GraphLink(paths[0], path, f"[[{path}]]", relation, sentence) for path, sentence in said]
    found = Graph(paths[0], 1, tuple(edges), (len(edges),) if edges else ())
    return make_picture(found, links, dict(zip(paths, notes, strict=True)), ["/home/me/My Vault"], **how)


def draw_tree(width: int, hops: int = 2) -> Picture:
    """Each note links to `width` others, and each of these back."""
    edges: list[GraphEdge] = []
    links: list[GraphLink] = []
    ring = ["Middle.md"]
    counts = []
    for hop in range(1, hops + 1):
        reached = []
        for source in ring:
            for n in range(width):
                path = f"{source.removesuffix('.md')} {n}.md"
                edges.append(GraphEdge(path, hop, "out", source, f"[[{path}]]"))
                links += [
                    GraphLink(source, path, "x", ("wrote", "leads", None)[n % 3], "Said."),
                    GraphLink(path, source, "x", None, None),
                ]
                reached.append(path)
        counts.append(len(reached))
        ring = reached
    drawn = {"Middle.md", *(edge.file_path for edge in edges[: MOST_NOTES - 1])}
    links = [link for link in links if {link.source, link.target} <= drawn]
    return make_picture(Graph("Middle.md", hops, tuple(edges), tuple(counts)), links, {}, ["/v"])


class Tags(HTMLParser):
    """The tags of a page with their attributes, and the texts by the tag that they follow."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: defaultdict[str, list[str]] = defaultdict(list)
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and data.strip():
            self.texts[self.found[-1][0]].append(data)

    def list_class(self, name: str) -> list[dict[str, str | None]]:
        """The attributes of what has a class."""
        return [found for _, found in self.found if name in (found.get("class") or "").split()]


# Mermaid


def test_a_chart_has_each_note_and_each_link_with_its_relation() -> None:
    lines = render_mermaid(draw(["Acme", "Ann", "Ben"], "invested_in")).splitlines()
    assert lines[:6] == [
        "flowchart LR",
        '    n0(["Acme"])',
        '    n1["Ann"]',
        '    n2["Ben"]',
        '    n0 -->|"invested#95;in"| n1',
        '    n0 -->|"invested#95;in"| n2',
    ]
    assert "    n0 --> n1" in render_mermaid(draw(["Acme", "Ann"], None)).splitlines()


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ('"quoted"', "#34;quoted#34;"),
        ("[a] (b) {c} |d|", "#91;a#93; #40;b#41; #123;c#125; #124;d#124;"),
        ("<b>`x`</b>", "#60;b#62;#96;x#96;#60;/b#62;"),
        ("a;b#c&d", "a#59;b#35;c#38;d"),
        ("two\nlines\x07 \u202eturned", "two lines turned"),
        ("練習メモ Größe", "練習メモ Größe"),
        ("1. one", "1#46; one"),
        ("\u202e", "#63;"),
    ],
)
def test_signs_that_mermaid_takes_for_its_own_are_entities(text: str, escaped: str) -> None:
    assert escape(text) == escaped


def test_no_name_leaves_its_quotes_in_a_chart() -> None:
    chart = render_mermaid(draw(["Acme", *HOSTILE]))
    nodes = [line for line in chart.splitlines() if re.match(r" {4}n\d+[\[(]", line)]
    assert len(nodes) == 1 + len(HOSTILE)
    for line in nodes[1:]:
        assert re.fullmatch(r' {4}n\d+\["[^"\[\]{}|<>`&\x00-\x1f]*"\]', line), line
    # The word that ends a block in Mermaid is only ever inside of quotes.
    assert not [line for line in chart.splitlines() if re.search(r"\bend\b", re.sub(r'"[^"]*"', "", line))]


def test_a_chart_too_long_for_mermaid_is_cut_and_says_so() -> None:
    chart = render_mermaid(draw(["Middle", *(f"#{n} " + "[" * 58 for n in range(149))], "r" * 50))
    assert len(chart) <= 45_000
    kept = chart.count('["#35;')
    assert 60 < kept < 149
    assert f"{149 - kept} more notes are left out" in chart
    assert f" n{kept + 1}[" not in chart


# What is drawn


def test_beyond_the_cap_the_farthest_are_left_out_and_counted() -> None:
    picture = draw_tree(20)
    assert len(picture.notes) == MOST_NOTES
    assert picture.notices == (
        f"{420 - MOST_NOTES + 1} of 420 notes are left out: the farthest, first those without a relation.",
    )
    assert {note.hop for note in picture.notes[:21]} == {0, 1}
    for text in (render_page(picture), render_mermaid(picture)):
        assert f"{420 - MOST_NOTES + 1} of 420 notes are left out" in text


def test_of_notes_as_near_those_that_a_link_says_something_of_are_drawn_first() -> None:
    edges = [
        GraphEdge(f"{n:03}.md", 1, "out", "A.md", "x", None, "leads" if n > 180 else None) for n in range(200)
    ]
    picture = make_picture(Graph("A.md", 1, tuple(edges), (200,)), [], {}, [])
    drawn = [note.file_path for note in picture.notes]
    assert drawn == ["A.md", *(f"{n:03}.md" for n in (*range(181, 200), *range(130)))]


def test_walked_links_are_drawn_before_others() -> None:
    names = [f"{n}.md" for n in range(40)]
    edges = tuple(GraphEdge(name, 1, "out", "0.md", "x") for name in names[1:])
    links = [GraphLink(a, b, "x", None, None) for a, b in itertools.permutations(reversed(names), 2)]
    picture = make_picture(Graph("0.md", 1, edges, (39,)), links, {}, [])
    assert len(picture.links) == MOST_LINKS
    assert all(0 in (link.source, link.target) for link in picture.links[:78])
    assert picture.notices == (f"{40 * 39 - MOST_LINKS} of {40 * 39} links are left out.",)


def test_links_of_two_notes_are_one_with_all_that_is_said() -> None:
    edges = (GraphEdge("B.md", 1, "out", "A.md", "[[B]]", None, "founded"),)
    links = [GraphLink("A.md", "B.md", "[[B]]", relation, None) for relation in ("founded", "leads")]
    picture = make_picture(Graph("A.md", 1, edges, (1,)), links, {}, [])
    assert [link.relations for link in picture.links] == [("founded", "leads")]
    assert '|"founded, leads"|' in render_mermaid(picture)


def test_of_several_relations_the_first_is_written_and_the_others_are_counted() -> None:
    links = [GraphLink("A.md", "B.md", "x", name, None) for name in ("founded", "leads", "founded", None)]
    assert name_kind(PictureLink(0, 1, tuple(links))) == "founded +1"
    assert name_kind(PictureLink(0, 1, tuple(links[:1]))) == "founded"
    assert name_kind(PictureLink(0, 1, tuple(links[3:]))) == ""


def test_a_sentence_is_shown_once_with_all_that_it_says() -> None:
    edges = (GraphEdge("B.md", 1, "out", "A.md", "[[B]]", None, "founded"),)
    links = [
        GraphLink("A.md", "B.md", "[[B]]", relation, sentence)
        for relation, sentence in (("founded", "One."), ("leads", "One."), ("advises", "Two."))
    ]
    page = Tags(render_page(make_picture(Graph("A.md", 1, edges, (1,)), links, {}, [])))
    assert json.loads(page.texts["script"][0])["links"][0]["said"] == [
        {"relation": "founded, leads", "via": "[[B]]", "sentence": "One."},
        {"relation": "advises", "via": "[[B]]", "sentence": "Two."},
    ]


def test_of_a_walk_in_one_direction_no_link_back_is_drawn() -> None:
    edges = (GraphEdge("B.md", 1, "in", "A.md", "[[A]]"),)
    links = [GraphLink("B.md", "A.md", "x", None, None), GraphLink("A.md", "B.md", "x", None, None)]
    picture = make_picture(Graph("A.md", 1, edges, (1,), (), (), "in"), links, {}, [])
    assert [(link.source, link.target) for link in picture.links] == [(1, 0)]


def test_notes_of_the_same_name_are_told_apart_by_their_folder() -> None:
    assert name_notes(["Golf/index.md", "Home/index.md", "Pump.md"], {"Pump.md": " The pump "}) == {
        "Golf/index.md": "Golf/index",
        "Home/index.md": "Home/index",
        "Pump.md": "The pump",
    }


def test_a_note_opens_in_its_vault() -> None:
    assert make_url("a b/Ü&.md", ["/home/me/My Vault/"]) == (
        "obsidian://open?vault=My%20Vault&file=a%20b%2F%C3%9C%26.md"
    )
    assert make_url("Work/a.md", ["/x/Home", "/x/Work"]) == "obsidian://open?vault=Work&file=a.md"


# The page


def test_nothing_of_a_note_becomes_markup_in_a_page() -> None:
    tags, plain = (Tags(render_page(draw(["Acme", *names]))) for names in (HOSTILE, ["x"] * len(HOSTILE)))
    # Line breaks of names aside, the page has the tags and attributes of one with harmless names.
    skeletons = [
        [(tag, sorted(attributes)) for tag, attributes in page.found if tag != "tspan"]
        for page in (tags, plain)
    ]
    assert skeletons[0] == skeletons[1]
    assert not [a for _, attributes in tags.found for a in attributes if a.startswith("on")]
    data = json.loads(tags.texts["script"][0])
    assert [note["title"] for note in data["notes"]][1:] == list(HOSTILE)
    assert tags.texts["script"][1:] == plain.texts["script"][1:]


def test_a_page_runs_its_own_script_alone_and_asks_no_network() -> None:
    page = render_page(draw(["Acme", "Ann"]))
    policy = next(a["content"] for tag, a in Tags(page).found if tag == "meta" and a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "http://" not in page
    assert "https://" not in page
    assert "obsidian://open?vault=My%20Vault" in page
    assert not [a for _, a in Tags(page).found if "src" in a or "href" in a]
    assert not re.search(r"@import|url\((?!#)|fetch\(|XMLHttpRequest", page)


def test_the_same_graph_gives_the_same_page() -> None:
    assert render_page(draw_tree(6)) == render_page(draw_tree(6))


@pytest.mark.parametrize("width", [1, 4, 8])
def test_names_do_not_cover_one_another_and_fill_the_picture(width: int) -> None:
    boxes = [one.box for one in draw_notes(draw_tree(width))]
    assert (boxes[0].x, boxes[0].y) == (0, 0)
    for one, other in itertools.combinations(boxes, 2):
        assert not (
            abs(one.x - other.x) * 2 < one.width + other.width - 1
            and abs(one.y - other.y) * 2 < one.height + other.height - 1
        )
    width_all = max(b.x + b.width / 2 for b in boxes) - min(b.x - b.width / 2 for b in boxes)
    height_all = max(b.y + b.height / 2 for b in boxes) - min(b.y - b.height / 2 for b in boxes)
    # So that names can be read without zooming in.
    assert width_all * height_all < 12 * sum(b.width * b.height for b in boxes) or len(boxes) < 4


def test_the_arrow_of_a_link_is_covered_by_no_name_of_its_notes() -> None:
    picture = draw_tree(6)
    notes = draw_notes(picture)
    for drawn in draw_links(picture, notes):
        tip = Box(*drawn.curve[2], 1, 1)
        for end in (notes[drawn.link.source], notes[drawn.link.target]):
            x, y = end.middle
            below = y + end.radius, end.box.y + end.box.height / 2 - 10
            name = Box(x, sum(below) / 2, end.box.width - 16, below[1] - below[0])
            assert not tip.covers(name)
            assert (tip.x - x) ** 2 + (tip.y - y) ** 2 > end.radius**2


def test_types_are_written_where_they_cover_nothing() -> None:
    picture = draw_tree(5)
    notes = draw_notes(picture)
    labels = [drawn.label for drawn in draw_links(picture, notes) if drawn.is_free]
    assert len(labels) > 15
    for one, other in itertools.combinations([*labels, *(note.box for note in notes)], 2):
        assert not (one in labels and one.covers(other))


def test_a_link_is_led_around_a_note_that_lies_on_its_way() -> None:
    names = ["Left.md", "Middle.md", "Right.md"]
    edges = (GraphEdge(names[1], 1, "out", names[0], "x"), GraphEdge(names[2], 2, "out", names[1], "x"))
    straight = [GraphLink(a, b, "x", None, None) for a, b in itertools.pairwise(names)]
    picture = make_picture(Graph(names[0], 2, edges, (1, 1)), straight, {}, [])
    over = make_picture(
        Graph(names[0], 2, edges, (1, 1)), [*straight, GraphLink(names[0], names[2], "x", None, None)], {}, []
    )
    middles = [one.middle for one in draw_notes(over)]
    *_, last = re.findall(r'class="line" d="M\S+ \S+Q(\S+) (\S+) ', render_page(over))
    assert len(re.findall('class="line"', render_page(picture))) == 2
    control = tuple(map(float, last))
    direct = ((middles[0][0] + middles[2][0]) / 2, (middles[0][1] + middles[2][1]) / 2)
    assert abs(control[0] - direct[0]) + abs(control[1] - direct[1]) > 10


def test_a_page_has_colours_for_light_and_for_dark() -> None:
    page = render_page(draw(["Acme", "Ann"]))
    assert "color-scheme: light dark" in page
    light, dark = re.findall(r"--back: (#\w+).*?--text: (#\w+)", page)
    assert "@media (prefers-color-scheme: dark)" in page
    for back, text in (light, dark):
        assert contrast(back, text) > 7
    names = {n for n in re.findall(r"var\((--\w+)\)", page)} - {"--fill", "--line"}
    for block in re.findall(r":root \{(.*?)\}", page, re.S):
        assert names <= set(re.findall(r"(--\w+):", block))
        back = re.findall(r"--back: (#\w+)", block)[0]
        for colour in re.findall(r"--r\d: (#\w+)", block):
            assert contrast(back, colour) > 3.5, colour


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2, 1 to 21."""

    def light(colour: str) -> float:
        parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dark + 0.05)


def test_the_legend_counts_relations_and_gathers_rare_ones() -> None:
    names = [f"{n}.md" for n in range(12)]
    edges = tuple(GraphEdge(name, 1, "out", "0.md", "x") for name in names[1:])
    links = [GraphLink("0.md", name, "x", f"says_{n:02}", None) for n, name in enumerate(names[1:-1])]
    links.append(GraphLink("0.md", names[-1], "x", None, None))
    page = render_page(make_picture(Graph("0.md", 1, edges, (11,)), links, {}, []))
    assert "says_00 <b>1</b>" in page
    assert "2 other relations <b>2</b>" in page
    assert "relation not said <b>1</b>" in page


def test_a_note_without_links_is_a_picture_too() -> None:
    page = render_page(draw(["Alone"]))
    assert "No notes around it" in page
    assert page.count('<g class="note') == 1
    assert render_mermaid(draw(["Alone"])).splitlines()[1] == '    n0(["Alone"])'


def add_probe(page: str, script: str) -> str:
    """The page with a further script that its policy lets run, and nothing else that it did not."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    changed = page.replace("script-src '", f"script-src 'sha256-{digest}' '")
    assert changed != page
    return changed.replace("</body>", f"<script>{script}</script></body>")


def open_in_browser(page: str, folder: Path, *arguments: str) -> tuple[Tags, list[str]]:
    """A page as it is after its script has run, and what the browser says on its console."""
    assert BROWSER is not None
    folder.mkdir()
    file = folder / "page.html"
    file.write_text(page, "utf-8")
    done = subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
            "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
            "--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}", *arguments, "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True, text=True, encoding="utf-8", timeout=60, check=True,
    )  # fmt: skip
    return Tags(done.stdout), [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@needs_browser
def test_a_browser_opens_the_page_from_the_disk_without_an_error(tmp_path: Path) -> None:
    page = render_page(draw(["Acme", *HOSTILE]))
    shown, console = open_in_browser(page, tmp_path / "page")
    assert console == []
    assert len(shown.list_class("note")) == 1 + len(HOSTILE)
    assert len(shown.list_class("link")) == len(HOSTILE)
    assert not [tag for tag, _ in shown.found if tag == "img"]


@needs_browser
def test_the_policy_of_the_page_stops_a_script_that_is_not_its_own(tmp_path: Path) -> None:
    page = render_page(draw(["Acme"])).replace("</body>", "<script>document.title = 1</script></body>")
    shown, console = open_in_browser(page, tmp_path / "page")
    assert shown.texts["title"][0] == "Acme"
    assert len(console) == 1
    assert "Content Security Policy" in console[0]


@needs_browser
def test_a_click_in_the_browser_shows_what_is_said(tmp_path: Path) -> None:
    click = """
    const note = document.querySelectorAll(".note")[1];
    for (const kind of ["pointerdown", "pointerup"])
        note.dispatchEvent(new PointerEvent(kind, {bubbles: true}));
    """
    page = add_probe(render_page(draw(["Acme", *HOSTILE])), click)
    shown, console = open_in_browser(page, tmp_path / "page")
    assert console == []
    assert next(a for tag, a in shown.found if tag == "aside").get("hidden", "shown") == "shown"
    assert "It says <script>alert(1)</script>." in shown.texts["blockquote"]
    assert shown.texts["h2"] == ["<script>alert(1)</script>"]
    assert [a["href"] for tag, a in shown.found if tag == "a"] == [
        make_url(f"001/{HOSTILE[0]}.md", ["My Vault"])
    ]
    assert [a["class"] for a in shown.list_class("note") if "chosen" in (a["class"] or "")] == [
        "note h1 chosen lit"
    ]


# Points at the second note, then at the first relation of the legend; measures what is drawn.
PROBE = """
const seen = {};
const count = () => ["note", "link"].map((kind) => document.querySelectorAll(`.${kind}.lit`).length);
const point = (element, kind) => element.dispatchEvent(new PointerEvent(kind));
point(document.querySelectorAll(".note")[1], "pointerenter");
seen.note = count();
point(document.querySelectorAll(".note")[1], "pointerleave");
seen.none = count();
point(document.querySelector("footer button"), "pointerenter");
seen.relation = count();
const boxes = [...document.querySelectorAll(".note text")].map((text) => text.getBBox());
seen.covered = boxes.filter((a, i) => boxes.some((b, j) => j < i &&
    a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height)).length;
seen.tooWide = [...document.querySelectorAll(".kind")].filter((kind) =>
    kind.querySelector("text").getBBox().width > kind.querySelector("rect").getBBox().width).length;
seen.back = getComputedStyle(document.body).backgroundColor;
const told = document.createElement("output");
told.textContent = JSON.stringify(seen);
document.body.append(told);
"""


@needs_browser
@pytest.mark.parametrize(("scheme", "back"), [(1, "rgb(251, 250, 248)"), (0, "rgb(23, 22, 28)")])
def test_the_browser_lights_links_and_covers_no_name(tmp_path: Path, scheme: int, back: str) -> None:
    page = add_probe(render_page(draw_tree(11)), PROBE)
    shown, console = open_in_browser(
        page, tmp_path / "page", f"--blink-settings=preferredColorScheme={scheme}"
    )
    assert console == []
    # The second note has 11 below it and one above, each linked both ways; 4 + 44 links say "wrote".
    assert json.loads(shown.texts["output"][0]) == {
        "note": [13, 24], "none": [0, 0], "relation": [56, 48], "covered": 0, "tooWide": 0, "back": back,
    }  # fmt: skip
