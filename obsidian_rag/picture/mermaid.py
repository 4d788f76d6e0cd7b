"""A picture as a Mermaid flowchart, which Obsidian, GitHub and many others draw."""

from __future__ import annotations

import re

from obsidian_rag.counts import choose, count
from obsidian_rag.picture import Picture, PictureNote

LONGEST_NAME = 60  # characters
MOST_CHARACTERS = 45_000  # Mermaid draws no text of more than 50,000

# Colours that can be read on white and on black: fill, border, text. One for each distance.
COLOURS = (
    ("#6d4fd8", "#4d33ab", "#ffffff"),
    ("#2f7dd1", "#215b9b", "#ffffff"),
    ("#9cc9ee", "#4d86b8", "#14283a"),
    ("#dfe6ee", "#8696a8", "#14283a"),
)
# What is no sign to see: control characters, and those that turn the direction of the text after them.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def render_mermaid(picture: Picture) -> str:
    """The flowchart's text, ending with a line end. What does not fit is left out from the far end and
    said, in the text and in the chart.
    """
    kept = len(picture.notes)
    while len(text := _write(picture, kept)) > MOST_CHARACTERS and kept > 1:
        kept = kept * 3 // 4
    return text


def _write(picture: Picture, kept: int) -> str:
    notices = list(picture.notices)
    if kept < len(picture.notes):
        more = len(picture.notes) - kept
        notices.append(f"{count(more, 'more note')} {choose(more, 'is', 'are')} left out, for the length.")
    notes = picture.notes[:kept]
    lines = ["flowchart LR"]
    lines += [f"    n{n}{_show_note(note)}" for n, note in enumerate(notes)]
    for link in picture.links:
        if link.source < kept and link.target < kept:
            relations = ", ".join(dict.fromkeys(link.relations))
            label = f'|"{escape(relations)}"|' if relations else ""
            lines.append(f"    n{link.source} -->{label} n{link.target}")
    if notices:
        lines.append(f'    notices["{"<br>".join(map(escape, notices))}"]')
        lines.append("    style notices fill:none,stroke-dasharray:4,stroke:#8696a8")
    for hop in sorted({note.hop for note in notes}):
        fill, border, text = COLOURS[hop]
        lines.append(f"    classDef hop{hop} fill:{fill},stroke:{border},color:{text}")
        members = ",".join(f"n{n}" for n, note in enumerate(notes) if note.hop == hop)
        lines.append(f"    class {members} hop{hop}")
    return "\n".join(lines) + "\n"


def _show_note(note: PictureNote) -> str:
    name = note.title if len(note.title) <= LONGEST_NAME else f"{note.title[: LONGEST_NAME - 1]}…"
    return f'(["{escape(name)}"])' if note.hop == 0 else f'["{escape(name)}"]'


def escape(text: str) -> str:
    """Text for a quoted label: every sign that Mermaid, its Markdown or HTML could take for their own is an
    entity; control characters are spaces.
    """
    plain = " ".join(_HIDDEN.sub(" ", text).split()) or "?"  # a label without a sign is an error
    return "".join(f"#{ord(c)};" if c.isascii() and not (c.isalnum() or c in " ,/'") else c for c in plain)
