"""A picture as one HTML page that needs nothing else: drawn here as SVG, made to answer the mouse by the
script of page.html. Whatever comes from notes is escaped, and the page's own policy runs no other script.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path

from obsidian_rag.errors import QueryError
from obsidian_rag.picture import Picture, PictureLink, PictureNote, count_relations
from obsidian_rag.picture.labels import Box, find_room, measure, wrap
from obsidian_rag.picture.layout import lay_out

COLOURED = 8  # relations with a colour of their own
NAME_SIZE, KIND_SIZE = 12.5, 10.5  # font sizes; the centre's name is larger
NAME_WIDTH, NAME_LINES = 10.5, 2  # em
LINE = 15.0  # from one line of a name to the next
MARGIN = 24.0
LEAST_VIEW = (760.0, 480.0)  # a picture of two notes is not blown up to fill the window
ARROW = 7.0
# One for each colour: markers do not take the colour of their line in every browser.
ARROW_HEAD = (
    '<marker id="arrow-{0}" class="{0}" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="7" markerHeight="7"'
    ' markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0.8L8 4L0 7.2z"/></marker>'
)
BEND = 26.0  # how far two links between the same notes part
ASIDE = 5.0  # between a link and the circle of a note that it is none of
ALONG = (0.5, 0.42, 0.58, 0.34, 0.66, 0.27, 0.73)  # where on a link its type is tried

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A note as it is drawn: a circle with its name below, within `box`."""

    note: PictureNote
    lines: tuple[str, ...]
    box: Box
    radius: float

    @property
    def middle(self) -> Point:
        """Of the circle."""
        return self.box.x, round(self.box.y - self.box.height / 2 + self.radius + 3, 1)


def check_page_name(path: Path) -> None:
    """Raises QueryError for a file that is no page by its name: a slip must not overwrite a note."""
    if path.suffix.casefold() not in (".html", ".htm"):
        raise QueryError(f"No page is written to {str(path)!r}", "Name a file that ends in .html.")


def write_page(picture: Picture, path: Path) -> None:
    """Write the page to a file, over an older one. Raises QueryError where that cannot be done."""
    check_page_name(path)
    try:
        path.write_text(render_page(picture), "utf-8")
    except OSError as exc:
        raise QueryError(
            f"{str(path)!r} cannot be written: {exc.strerror}",
            "Name a file in a folder that you may write to.",
        ) from exc


def render_page(picture: Picture) -> str:
    """The page's text, to be written in UTF-8."""
    drawn = draw_notes(picture)
    styles = {relation: n for n, (relation, _) in enumerate(count_relations(picture)[:COLOURED])}
    template = resources.files("obsidian_rag.picture").joinpath("page.html").read_text("utf-8")
    style = _between(template, "<style>", "</style>")
    script = _between(template, "<script>", "</script>")
    parts = {
        "policy": f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'",
        "title": _show(picture.notes[0].title),
        "summary": _show(_summarize(picture)),
        "notices": "".join(f"<p>{_show(notice)}</p>" for notice in picture.notices),
        "view": " ".join(f"{value:g}" for value in _find_view(drawn)),
        "arrows": "".join(ARROW_HEAD.format(style) for style in sorted(_list_styles(picture, styles))),
        "links": _draw_links(picture, drawn, styles),
        "notes": "".join(_draw_note(n, one) for n, one in enumerate(drawn)),
        "legend": _draw_legend(picture, styles),
        "data": _write_data(picture, styles),
    }
    # In one pass, so that text of a note that looks like a place is not filled in.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match.group(1)], template)


def _between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def _show(text: str) -> str:
    """Text for HTML, also inside a quoted attribute; what no page may hold is shown as a replacement."""
    return escape(_UNFIT.sub("\N{REPLACEMENT CHARACTER}", text))


def _summarize(picture: Picture) -> str:
    notes, links = len(picture.notes) - 1, sum(len(link.links) for link in picture.links)
    far = max(note.hop for note in picture.notes)
    around = f"{notes} note{'s' * (notes != 1)} around it" if notes else "No notes around it"
    return f"{around}, {links} link{'s' * (links != 1)}" + (f", up to {far} links away" if far > 1 else "")


def draw_notes(picture: Picture) -> list[Drawn]:
    """Every note at its place, with the room that its name needs."""
    degrees = [0] * len(picture.notes)
    for link in picture.links:
        degrees[link.source] += 1
        degrees[link.target] += 1
    lines = [tuple(wrap(note.title, NAME_WIDTH + 3 * (note.hop == 0), NAME_LINES)) for note in picture.notes]
    radii = [12.0 if not n else min(10.0, 4.5 + 1.1 * math.sqrt(degree)) for n, degree in enumerate(degrees)]
    sizes = []
    for name, radius, note in zip(lines, radii, picture.notes, strict=True):
        size = NAME_SIZE * (1.15 if note.hop == 0 else 1.0)
        width = max(max(map(measure, name), default=0) * size, 2 * radius)
        sizes.append((round(width + 16, 1), round(2 * radius + len(name) * LINE + 16, 1)))
    places = lay_out(
        sizes,
        [note.hop for note in picture.notes],
        picture.parents,
        [(link.source, link.target) for link in picture.links],
    )
    return [
        Drawn(note, name, Box(x, y, *size), round(radius, 1))
        for note, name, (x, y), size, radius in zip(picture.notes, lines, places, sizes, radii, strict=True)
    ]


def _find_view(drawn: Sequence[Drawn]) -> tuple[float, float, float, float]:
    """What the picture shows: all boxes with a margin."""
    left = min(one.box.x - one.box.width / 2 for one in drawn) - MARGIN
    right = max(one.box.x + one.box.width / 2 for one in drawn) + MARGIN
    top = min(one.box.y - one.box.height / 2 for one in drawn) - MARGIN
    bottom = max(one.box.y + one.box.height / 2 for one in drawn) + MARGIN
    width, height = max(right - left, LEAST_VIEW[0]), max(bottom - top, LEAST_VIEW[1])
    return (
        round((left + right - width) / 2, 1),
        round((top + bottom - height) / 2, 1),
        round(width, 1),
        round(height, 1),
    )


def _draw_note(n: int, one: Drawn) -> str:
    x, y = one.middle
    start = y + one.radius + 14
    name = "".join(
        f'<tspan x="{x:g}" y="{start + line * LINE:g}">{_show(text)}</tspan>'
        for line, text in enumerate(one.lines)
    )
    away = f", {one.note.hop} link{'s' * (one.note.hop > 1)} away" if one.note.hop else ""
    return (
        f'<g class="note h{one.note.hop}" data-n="{n}" tabindex="0" role="button"'
        f' aria-label="{_show(one.note.title + away)}"><title>{_show(one.note.file_path)}</title>'
        f'<circle cx="{x:g}" cy="{y:g}" r="{one.radius:g}"/><text>{name}</text></g>\n'
    )


def style_link(link: PictureLink, styles: Mapping[str, int]) -> list[str]:
    """The classes that give a link its colour: one for each relation; it is drawn in the first."""
    found = [f"r{styles[name]}" if name in styles else "rx" for name in link.relations]
    return list(dict.fromkeys(found)) or ["rn"]


def _list_styles(picture: Picture, styles: Mapping[str, int]) -> set[str]:
    return {style_link(link, styles)[0] for link in picture.links}


def _draw_links(picture: Picture, drawn: Sequence[Drawn], styles: Mapping[str, int]) -> str:
    both = {(link.source, link.target) for link in picture.links}
    taken = [one.box for one in drawn]
    texts = []
    for n, link in enumerate(picture.links):
        bends = (BEND,) if (link.target, link.source) in both else (0.0, BEND, -BEND)
        start, control, end = _lead_around(drawn, link, bends)
        path = f"M{start[0]:g} {start[1]:g}Q{control[0]:g} {control[1]:g} {end[0]:g} {end[1]:g}"
        kind, room = ", ".join(dict.fromkeys(link.relations)), None
        label = ""
        if kind:
            width = measure(kind) * KIND_SIZE + 6
            boxes = [Box(*_point(start, control, end, t), width, KIND_SIZE + 5) for t in ALONG]
            room = find_room(boxes, taken)
            taken += [room] if room else []
            place = room or boxes[0]
            label = (
                f'<text class="kind{"" if room else " hidden"}" x="{place.x:.1f}" y="{place.y + 3.5:.1f}">'
                f"{_show(kind)}</text>"
            )
        style = style_link(link, styles)[0]
        texts.append(
            f'<g class="link {style}" data-l="{n}"><path class="hit" d="{path}"/>'
            f'<path class="line" d="{path}" marker-end="url(#arrow-{style})"/>{label}</g>\n'
        )
    return "".join(texts)


def _lead_around(
    drawn: Sequence[Drawn], link: PictureLink, bends: tuple[float, ...]
) -> tuple[Point, Point, Point]:
    """The link's curve of the first bend, also a wider one, that touches no other note: through a note it
    would look like two links.
    """
    others = [
        (one.middle, one.radius + ASIDE) for n, one in enumerate(drawn) if n not in (link.source, link.target)
    ]
    curves = [
        trace(drawn[link.source], drawn[link.target], bend * wider) for wider in (1, 2, 3) for bend in bends
    ]
    return next((curve for curve in curves if not _touches(curve, others)), curves[0])


def _touches(curve: tuple[Point, Point, Point], circles: Sequence[tuple[Point, float]]) -> bool:
    xs, ys = zip(*curve, strict=True)
    near = [
        (x, y, radius)
        for (x, y), radius in circles
        if min(xs) - radius < x < max(xs) + radius and min(ys) - radius < y < max(ys) + radius
    ]
    if not near:
        return False
    length = math.dist(curve[0], curve[1]) + math.dist(curve[1], curve[2])
    steps = max(2, math.ceil(length / 8))
    points = [_point(*curve, step / steps) for step in range(steps + 1)]
    return any(math.hypot(x - px, y - py) < radius for x, y, radius in near for px, py in points)


def trace(source: Drawn, target: Drawn, bend: float) -> tuple[Point, Point, Point]:
    """A link from circle to circle as a quadratic curve: start, control point, end."""
    (x1, y1), (x2, y2) = source.middle, target.middle
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    control = (
        (x1 + x2) / 2 + (y2 - y1) / length * bend,
        (y1 + y2) / 2 - (x2 - x1) / length * bend,
    )
    start = _towards((x1, y1), control, source.radius + 2)
    end = _towards((x2, y2), control, target.radius + ARROW)
    return start, (round(control[0], 1), round(control[1], 1)), end


def _towards(point: Point, other: Point, distance: float) -> Point:
    length = math.hypot(other[0] - point[0], other[1] - point[1]) or 1.0
    share = min(distance / length, 0.9)
    return (
        round(point[0] + (other[0] - point[0]) * share, 1),
        round(point[1] + (other[1] - point[1]) * share, 1),
    )


def _point(start: Point, control: Point, end: Point, t: float) -> Point:
    x, y = (
        (1 - t) ** 2 * a + 2 * (1 - t) * t * b + t * t * c
        for a, b, c in zip(start, control, end, strict=True)
    )
    return round(x, 1), round(y, 1)


def _draw_legend(picture: Picture, styles: Mapping[str, int]) -> str:
    """Distances, then relations with how many links say each; those without a colour of their own as one."""
    shown = {note.hop for note in picture.notes}
    words = ("this note", "1 link away", "2 links away", "3 links away")
    items = [f'<li class="h{hop}"><i></i>{words[hop]}</li>' for hop in sorted(shown)]
    counts = count_relations(picture)
    kinds = [(f"r{styles[name]}", name, count) for name, count in counts if name in styles]
    if others := sum(count for name, count in counts if name not in styles):
        kinds.append(("rx", f"{len(counts) - len(styles)} other relations", others))
    if unsaid := sum(1 for link in picture.links if not link.relations):
        kinds.append(("rn", "relation not said", unsaid))
    items += [
        f'<li><button type="button" class="{style}" data-r="{style}" aria-pressed="false"><i></i>'
        f"{_show(name)} <b>{count}</b></button></li>"
        for style, name, count in kinds
    ]
    return "".join(items)


def _write_data(picture: Picture, styles: Mapping[str, int]) -> str:
    """What the script shows of a note or link, as JSON that no parser of HTML can take for markup."""
    data = {
        "notes": [
            {"title": note.title, "path": note.file_path, "hop": note.hop, "url": note.url}
            for note in picture.notes
        ],
        "links": [
            {
                "source": link.source,
                "target": link.target,
                "said": [
                    {"relation": said.relation, "via": said.via, "sentence": said.sentence}
                    for said in link.links
                ],
                "styles": style_link(link, styles),
            }
            for link in picture.links
        ],
    }
    text = json.dumps(data, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
