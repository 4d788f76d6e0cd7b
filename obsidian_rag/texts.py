"""The running texts of a note in order: paragraphs, headings, list items, table rows, with what they stand
under.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from markdown_it.token import Token

CELLS = " | "  # between the cells of a row
# Characters of what can say something of the links below it. A longer item or introduction is a sentence with
# things of its own to say.
LONGEST_HEADING, LONGEST_ITEM = 120, 60
DEEPEST = 4  # list items and introductions that count, from within
_INTRODUCES = re.compile(r"[:：](?:\*\*|__)?\s*$")
_SENTENCE_END = re.compile(r"[.!?]\s|[。！？]|\n")
_CALLOUT = re.compile(r"\[![^\]\n]*\][+-]?[ \t]*([^\n]*)")
_LINK = re.compile(r"!?\[\[[^\[\]\n]*\]\]|\[([^\[\]\n]*)\]\([^()\n]*\)")


@dataclass(frozen=True, slots=True)
class Text:
    """A text with the places where its cells begin; only a table's row has more than one, and `headers`.

    `line` counts from the body's first, 0. `context` is what stands above: the heading, callout titles, list
    items and introductions (`Investors:`), one a line, without links. `quoted` tells that the text stands
    in a block quote.
    """

    content: str
    cells: tuple[tuple[str, int], ...]
    line: int
    context: str = ""
    quoted: bool = False
    headers: tuple[str, ...] = ()

    def context_at(self, position: int) -> str:
        """What a place of the text stands under; in a table the header of its column as well."""
        cell = bisect_right(self.cells, position, key=lambda entry: entry[1]) - 1
        header = self.headers[cell] if cell < len(self.headers) else ""
        return "\n".join(part for part in (self.context, header) if part)


@dataclass(slots=True)
class _Reading:
    heading: str = ""
    # (level, text) of list items and introductions; a callout's title half a level above its texts.
    above: list[tuple[float, str]] = field(default_factory=list)
    quotes: int = 0
    row: list[Token] | None = None
    headers: tuple[str, ...] = ()
    in_heading: bool = False

    @property
    def context(self) -> str:
        lines = (self.heading, *(text for _, text in self.above[-DEEPEST:]))
        return "\n".join(line for line in lines if line)


def read_texts(tokens: Sequence[Token]) -> Iterator[Text]:
    """The texts of a body's block tokens."""
    state = _Reading()
    title = _find_title(tokens)
    for token in tokens:
        kind = token.type
        if kind in ("inline", "paragraph"):
            if state.row is not None:
                state.row.append(token)
            elif token is title:
                yield Text(token.content, ((token.content, 0),), _line(token))
            else:
                yield _read_text(state, token)
        elif kind == "tr_open":
            state.row = []
        elif kind == "tr_close":
            yield from _read_row(state)
        elif kind == "table_open":
            _leave(state, token.level + 1)
            state.headers = ()
        elif kind == "heading_open":
            state.in_heading = True
        elif kind == "heading_close":
            state.in_heading = False
        elif kind == "blockquote_open":
            state.quotes += 1
        elif kind == "blockquote_close":
            state.quotes -= 1
            _leave(state, token.level + 0.5)


def _find_title(tokens: Sequence[Token]) -> Token | None:
    """The heading that names the note, if any: the only one of the first level, before all else.

    Its words say nothing of the links below.
    """
    first = [at for at, token in enumerate(tokens) if token.type == "heading_open" and token.tag == "h1"]
    return tokens[1] if first == [0] else None


def _leave(state: _Reading, level: float) -> None:
    """What stands at a level or deeper introduces nothing any more."""
    while state.above and state.above[-1][0] >= level:
        state.above.pop()


def _read_text(state: _Reading, token: Token) -> Text:
    content = token.content
    if state.in_heading:
        state.heading, state.above = _shorten(content, LONGEST_HEADING), []
        return Text(content, ((content, 0),), _line(token))
    _leave(state, token.level)
    callout = _CALLOUT.match(content) if state.quotes else None
    if callout:
        state.above.append((token.level - 0.5, _shorten(callout[1], LONGEST_HEADING)))
    text = Text(content, ((content, 0),), _line(token), state.context, state.quotes > 0)
    if _INTRODUCES.search(content, max(0, len(content) - 10)):
        sentence = _SENTENCE_END.split(content[-4 * LONGEST_ITEM :])[-1]
        state.above.append((token.level, _shorten(sentence, LONGEST_ITEM)))
    elif token.level > 1:
        state.above.append((token.level, _shorten(content, LONGEST_ITEM)))
    return text


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
    yield Text(content, tuple(cells), _line(row[0]), state.context, state.quotes > 0, state.headers)
    if not state.headers:
        state.headers = tuple(_shorten(cell, LONGEST_HEADING) for cell, _ in cells)


def _shorten(text: str, longest: int) -> str:
    """A heading, an item or an introduction on one line, without wikilinks; nothing of what is too long."""
    if len(text) > 4 * longest:
        return ""
    shown = " ".join(_LINK.sub(r"\1", text).split())
    return shown if len(shown) <= longest else ""


def _line(token: Token) -> int:
    assert token.map is not None, token.type
    return token.map[0]
