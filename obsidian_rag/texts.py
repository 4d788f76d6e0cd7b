"""The running texts of a note in order: paragraphs, headings, list items, table rows, with what they stand
under.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from markdown_it.token import Token

CELLS = " | "  # between the cells of a row


@dataclass(frozen=True, slots=True)
class Text:
    """A text with the places where its cells begin; only a table's row has more than one, and `headers`.

    `line` counts from the body's first, 0. `context` is the heading and the list items or the introducing
    line (`Investors:`) above. `quoted` tells that it stands in a block quote.
    """

    content: str
    cells: tuple[tuple[str, int], ...]
    line: int
    context: str = ""
    quoted: bool = False
    headers: tuple[str, ...] = ()

    def context_at(self, position: int) -> str:
        """What a place of the text stands under; in a table the header of its column."""
        if not self.headers:
            return self.context
        cell = bisect_right([start for _, start in self.cells], position) - 1
        header = self.headers[cell] if cell < len(self.headers) else ""
        return f"{self.context}\n{header}".strip()


@dataclass(slots=True)
class _Reading:
    heading: str = ""
    above: list[tuple[int, str]] = field(default_factory=list)  # (level, text) of items and introductions
    quotes: int = 0
    row: list[Token] | None = None
    headers: tuple[str, ...] = ()
    in_heading: bool = False


def read_texts(tokens: Iterable[Token]) -> Iterator[Text]:
    """The texts of a body's block tokens."""
    state = _Reading()
    for token in tokens:
        kind = token.type
        if kind in ("inline", "paragraph"):
            if state.row is not None:
                state.row.append(token)
            else:
                yield _read_text(state, token)
        elif kind == "tr_open":
            state.row = []
        elif kind == "tr_close":
            yield from _read_row(state)
        elif kind == "table_open":
            state.headers = ()
        elif kind == "heading_open":
            state.in_heading = True
        elif kind == "heading_close":
            state.in_heading = False
        elif kind == "blockquote_open":
            state.quotes += 1
        elif kind == "blockquote_close":
            state.quotes -= 1


def _read_text(state: _Reading, token: Token) -> Text:
    content = token.content
    if state.in_heading:
        state.heading, state.above = content, []
        return Text(content, ((content, 0),), _line(token))
    while state.above and state.above[-1][0] >= token.level:
        state.above.pop()
    context = "\n".join([state.heading, *(text for _, text in state.above)]).strip()
    introduces = content.rstrip().endswith((":", "：", ":**"))
    if token.level > 1 or introduces:
        state.above.append((token.level, content[-200:]))
    return Text(content, ((content, 0),), _line(token), context, state.quotes > 0)


def _read_row(state: _Reading) -> Iterator[Text]:
    row = state.row or []
    state.row = None
    if not row:
        return
    cells: list[tuple[str, int]] = []
    start = 0
    for token in row:
        cells.append((token.content, start))
        start += len(token.content) + len(CELLS)
    content = CELLS.join(cell for cell, _ in cells)
    yield Text(content, tuple(cells), _line(row[0]), state.heading, state.quotes > 0, state.headers)
    if not state.headers:
        state.headers = tuple(cell for cell, _ in cells)


def _line(token: Token) -> int:
    assert token.map is not None, token.type
    return token.map[0]
