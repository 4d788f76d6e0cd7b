"""Text in parts, each with whether it is marked as what was asked for."""

from __future__ import annotations

from obsidian_rag.passages import Wanted

Parts = list[tuple[str, bool]]


def split(text: str, wanted: Wanted) -> Parts:
    """The parts of a text in order, none empty."""
    parts, at = [], 0
    for first, last, _ in wanted.find(text) if wanted else ():
        parts += [(text[at:first], False), (text[first:last], True)]
        at = last
    return [part for part in (*parts, (text[at:], False)) if part[0]]
