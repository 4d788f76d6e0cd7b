"""What all screens share: the console, and text of notes made into what rich lays out.

Colours are the terminal's own sixteen, chosen to be read on light and dark; rich leaves them out where
NO_COLOR is set, and all else where the terminal cannot do it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.text import Text

from obsidian_rag.passages import Wanted
from obsidian_rag.screen.places import Places
from obsidian_rag.screen.safety import show_text

TITLE, MATCH, PATH, CODE, FAINT = "bold", "bold magenta", "cyan", "green", "dim"
NOTICE, BAD = "yellow", "bold red"


def open_console() -> Console:
    """The console of the terminal that stdout is."""
    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False)


def paint(text: str, style: str = "", link: str | None = None) -> Text:
    """Text of a note, which is data: no markup in it counts, no control character reaches the terminal."""
    painted = Text(show_text(text).expandtabs(4), style)
    if link is not None:
        painted.stylize(Style(link=link))
    return painted


def paint_line(text: str, style: str = "", link: str | None = None) -> Text:
    """The same on one line."""
    return paint(" ".join(text.split()), style, link)


def paint_matches(text: Text, wanted: Wanted) -> Text:
    """The words that are looked for, marked."""
    for first, last, _ in wanted.find(text.plain):
        text.stylize(MATCH, first, last)
    return text


def paint_title(file_path: str, title: str, places: Places) -> Text:
    """A note's title, which opens it in Obsidian."""
    return paint_line(title or file_path, TITLE, places.find_app_url(file_path))


def paint_path(file_path: str, places: Places) -> Text:
    """A note's path, which opens the file."""
    return paint_line(file_path, PATH, places.find_file_url(file_path))


_ITEM = re.compile(r"\s*(?:(?:[-*+]|\d+[.)])\s+(?:\[.\]\s+)?|(?:>\s?)+)?")


def fold(text: Text, console: Console, width: int) -> list[Text]:
    """A text's lines wrapped at a width, what is wrapped of a list's item below its beginning."""
    folded: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        start = _ITEM.match(line.plain)
        columns = cell_len(start.group()) if start else 0
        columns = columns if columns <= width // 2 else 0
        head, rest = line.divide([start.end()]) if start and columns else (Text(), line)
        parts = list(rest.wrap(console, max(width - columns, 1))) or [Text()]
        folded.append(head.append_text(parts[0]))
        folded += [Text(" " * columns).append_text(part) for part in parts[1:]]
    for line in folded:
        line.rstrip()
    return folded


def indent(content: RenderableType, columns: int) -> Padding:
    """Something further to the right, wrapped there too."""
    return Padding(content, (0, 0, 0, columns), expand=False)


def print_notices(console: Console, notices: Iterable[str]) -> None:
    """What made an answer less than it could be."""
    for notice in notices:
        console.print(Text.assemble(("! ", NOTICE), paint_line(notice)))
