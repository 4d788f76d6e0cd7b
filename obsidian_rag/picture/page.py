"""A picture as one HTML page that needs nothing else: drawn here as SVG, made to answer the mouse by the
script of page.html. Whatever comes from notes is escaped, and the page's own policy runs no other script.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from obsidian_rag.counts import count
from obsidian_rag.errors import QueryError
from obsidian_rag.picture import Picture, PictureLink, count_relations
from obsidian_rag.picture.drawing import KIND_SIZE, LINE, DrawnLink, DrawnNote, draw_links, draw_notes

COLOURED = 8  # relations with a colour of their own
MARGIN = 24.0
LEAST_VIEW = (920.0, 560.0)  # a picture of two notes is not blown up to fill the window
# One for each colour: markers do not take the colour of their line in every browser.
ARROW_HEAD = (
    '<marker id="arrow-{0}" class="{0}" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="7" markerHeight="7"'
    ' markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0.8L8 4L0 7.2z"/></marker>'
)


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
    template = _read_template()
    parts = {
        "policy": make_policy(),
        "title": _show(picture.notes[0].title),
        "summary": _show(" ".join([f"{_summarize(picture)}.", *picture.notices])),
        "view": " ".join(f"{value:g}" for value in _find_view(drawn)),
        "arrows": "".join(ARROW_HEAD.format(style) for style in sorted(_list_styles(picture, styles))),
        "links": "".join(_draw_link(n, one, styles) for n, one in enumerate(draw_links(picture, drawn))),
        "notes": "".join(_draw_note(n, one) for n, one in enumerate(drawn)),
        "legend": _draw_legend(picture, styles),
        "data": _write_data(picture, styles),
    }
    # In one pass, so that text of a note that looks like a place is not filled in.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match.group(1)], template)


def make_policy() -> str:
    """The content security policy of the page: its own style and script, nothing else."""
    template = _read_template()
    style = _between(template, "<style>", "</style>")
    script = _between(template, "<script>", "</script>")
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _read_template() -> str:
    return resources.files("obsidian_rag.picture").joinpath("page.html").read_text("utf-8")


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
    around = f"{count(notes, 'note')} around it" if notes else "No notes around it"
    return f"{around}, {count(links, 'link')}" + (f", up to {far} links away" if far > 1 else "")


def _find_view(drawn: Sequence[DrawnNote]) -> tuple[float, float, float, float]:
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


def _draw_note(n: int, one: DrawnNote) -> str:
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


def _draw_link(n: int, one: DrawnLink, styles: Mapping[str, int]) -> str:
    start, control, end = one.curve
    path = f"M{start[0]:g} {start[1]:g}Q{control[0]:g} {control[1]:g} {end[0]:g} {end[1]:g}"
    style = style_link(one.link, styles)[0]
    return (
        f'<g class="link {style}" data-l="{n}"><path class="hit" d="{path}"/>'
        f'<path class="line" d="{path}" marker-end="url(#arrow-{style})"/>{_draw_kind(one)}</g>\n'
    )


def _draw_kind(one: DrawnLink) -> str:
    if not one.kind:
        return ""
    box = one.label
    return (
        f'<g class="kind{"" if one.is_free else " hidden"}"><rect x="{box.x - box.width / 2:.1f}"'
        f' y="{box.y - box.height / 2:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="5"/>'
        f'<text x="{box.x:.1f}" y="{box.y + KIND_SIZE * 0.34:.1f}">{_show(one.kind)}</text></g>'
    )


def _draw_legend(picture: Picture, styles: Mapping[str, int]) -> str:
    """Distances, then relations with how many links say each; those without a colour of their own as one."""
    shown = {note.hop for note in picture.notes}
    words = ("this note", "1 link away", "2 links away", "3 links away")
    items = [f'<li class="h{hop}"><i></i>{words[hop]}</li>' for hop in sorted(shown)]
    counts = count_relations(picture)
    kinds = [(f"r{styles[name]}", name, links) for name, links in counts if name in styles]
    if others := sum(links for name, links in counts if name not in styles):
        kinds.append(("rx", count(len(counts) - len(styles), "other relation"), others))
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
                "said": _merge_said(link),
                "styles": style_link(link, styles),
            }
            for link in picture.links
        ],
    }
    text = json.dumps(data, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _merge_said(link: PictureLink) -> list[dict[str, str | None]]:
    """What is said of a link, once for each sentence."""
    merged: dict[tuple[str, str | None], list[str]] = {}
    for said in link.links:
        merged.setdefault((said.via, said.sentence), []).extend([said.relation] if said.relation else [])
    return [
        {"relation": ", ".join(relations) or None, "via": via, "sentence": sentence}
        for (via, sentence), relations in merged.items()
    ]
