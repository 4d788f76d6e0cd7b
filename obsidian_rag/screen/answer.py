"""The answer of a search on a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from obsidian_rag.answers import REASONS, render_step
from obsidian_rag.counts import count
from obsidian_rag.models import Hit
from obsidian_rag.passages import Wanted, clip, read_wanted
from obsidian_rag.screen.paint import (
    FAINT,
    MATCH,
    TITLE,
    fold,
    indent,
    paint,
    paint_line,
    paint_matches,
    paint_path,
    paint_title,
    print_notices,
)
from obsidian_rag.screen.places import Places

if TYPE_CHECKING:
    from obsidian_rag.search.pipeline import Answer

INDENT = 4
MOST_LINES = 6  # of a passage
PASSAGE = 300  # tokens, more than the lines hold


_HEADING = re.compile(r"\A#{1,6}[ \t].*\n?")


def print_answer(console: Console, answer: Answer, places: Places) -> None:
    """Each note with its best passage, matches marked, and what else of it was found in a line each. Chunks
    that only stand beside a hit are left to `note`.
    """
    wanted = read_wanted(answer.query)
    found = len({hit.file_path for hit in answer.results})
    head = f"{count(found, 'note')} for: " if found else "Nothing found for: "
    console.print(Text.assemble((head, TITLE), paint_line(answer.query, TITLE)))
    print_notices(console, answer.notices)
    number = 0
    for hit in (hit for hit in answer.results if not hit.neighbor):
        if hit.evidence == "same_note":
            console.print(indent(_paint_passage_place(hit), INDENT))
        else:
            number += 1
            _print_hit(console, number, hit, wanted, places)


def _print_hit(console: Console, number: int, hit: Hit, wanted: Wanted, places: Places) -> None:
    console.print()
    title = paint_matches(paint_title(hit.file_path, hit.title, places), wanted)
    date = Text(f"  {hit.date}", FAINT) if hit.date else Text()
    console.print(Text.assemble((f"{number:>2}  ", FAINT), title, date))
    console.print(indent(_paint_place(hit, places), INDENT))
    for step in hit.linked_by:
        console.print(indent(paint_line(render_step(step), FAINT), INDENT))
    for line in fold_passage(console, hit.content, wanted, console.width - INDENT):
        console.print(indent(line, INDENT))
    console.print(indent(_explain(hit), INDENT))


def fold_passage(console: Console, content: str, wanted: Wanted, width: int) -> list[Text]:
    """The lines of a chunk that hold most matches, wrapped at the width, with blank ones left out."""
    text = "\n".join(line for line in clip(content, wanted, PASSAGE).splitlines() if line.strip())
    if not text:
        return [Text("(no text)", FAINT)]
    # The heading that the chunk begins with stands above, in its path.
    text = _HEADING.sub("", text, count=1) or text
    lines = fold(paint_matches(paint(text), wanted), console, max(width, 10))
    counts = [sum(span.style == MATCH for span in line.spans) for line in lines]
    windows = range(max(len(lines) - MOST_LINES, 0) + 1)
    first = next((at for at, count in enumerate(counts) if count), 0)
    # Of equal ones the first that begins with a line of what comes before.
    start = max(windows, key=lambda at: (sum(counts[at : at + MOST_LINES]), -abs(first - 1 - at), -at))
    shown = lines[start : start + MOST_LINES]
    if start + MOST_LINES < len(lines) and not shown[-1].plain.endswith("…"):
        shown[-1].truncate(max(width, 10) - 2)
        shown[-1].append(" …")
    return shown


def _paint_passage_place(hit: Hit) -> Text:
    """Where else in the note something was found."""
    lines = f"lines {hit.start_line}-{hit.end_line}" if hit.start_line is not None else "in"
    return Text.assemble((f"also {lines}  ", FAINT), paint_line(hit.heading_path, FAINT))


def _paint_place(hit: Hit, places: Places) -> Text:
    lines = f":{hit.start_line}-{hit.end_line}" if hit.start_line is not None else ""
    place = Text.assemble(paint_path(hit.file_path, places), (lines, FAINT))
    if hit.heading_path:
        place.append("  ").append_text(paint_line(hit.heading_path, FAINT))
    return place


def _explain(hit: Hit) -> Text:
    ranks = ", ".join(f"{name} #{rank}" for name, rank in hit.ranks.items())
    reason = REASONS.get(hit.evidence, hit.evidence)
    return paint_line(f"{reason} ({ranks})" if ranks else reason, FAINT)
