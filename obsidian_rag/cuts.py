"""How much a text measures, and where it may be cut: the ground that chunks are cut on.

Weights are whole quarters of a token, so that sums are exact and a measure is the same however it is added.
Every search looks at the window it is given and no further, and enters a run of blanks at one place only,
so that no text, however odd, makes cutting a note slower than linear.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import regex
from numpy.typing import NDArray

from obsidian_rag.markdown import TooMuchWork, parse_blocks, parse_plainly
from obsidian_rag.models import Block

QUARTERS = 4
"""The weight of one token."""

_WORD_PIECE, _HALF, _MARK, _WHOLE = 1, 2, 3, 4
# (first, last, weight); later rows win.
_WEIGHTED = (
    (0x0000, 0x007F, _MARK),  # punctuation and signs: nearly every one is a token of its own
    (ord("0"), ord("9"), _HALF),
    (ord("A"), ord("Z"), _WORD_PIECE),
    (ord("a"), ord("z"), _WORD_PIECE),
    (0x0300, 0x036F, _WORD_PIECE),  # combining marks of a decomposed text
    (0x0E00, 0x109F, _WHOLE),  # Thai, Lao, Tibetan, Burmese
    (0x1780, 0x17FF, _WHOLE),  # Khmer
    (0x2000, 0x2BFF, _MARK),
    (0x2E80, 0xA4CF, _WHOLE),  # kana, ideographs, Yi
    (0xAC00, 0xD7A3, _WHOLE),  # Hangul syllables
    (0xF900, 0xFAFF, _WHOLE),
    (0xFF00, 0xFFEF, _WHOLE),
    (0x10000, 0x10FFFF, _WHOLE),  # emoji, rare ideographs, historic scripts
)


def _weights() -> NDArray[np.uint8]:
    """A weight for every code point; what no row of the table names is an alphabet at two letters a token.

    White space, and nothing else, weighs nothing: word-piece vocabularies drop it, and so a run of it,
    however long, can stay with the text before it without breaking the bound.
    """
    weights = np.full(0x110000, _HALF, dtype=np.uint8)
    for first, last, weight in _WEIGHTED:
        weights[first : last + 1] = weight
    weights[[code for code in range(0x3001) if chr(code).isspace()]] = 0
    return weights


_WEIGHTS = _weights()


def _weigh(text: str) -> NDArray[np.uint8]:
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return _WEIGHTS[codes]


def measure(text: str) -> float:
    """The estimated size of a text in tokens, exactly additive: measure(a + b) == measure(a) + measure(b).

    Latin letters count a quarter, digits and letters of other alphabets a half, punctuation three quarters,
    ideographs, kana, Hangul, Thai and emoji one, white space nothing. Against an English WordPiece vocabulary
    this is within about 10 % for English prose and Markdown and for Japanese, and a third low for German.
    """
    return int(_weigh(text).sum(dtype=np.int64)) / QUARTERS


class Body:
    """A text and its running weight: what a span weighs, and how far a weight reaches, at once."""

    __slots__ = ("sums", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.sums = np.zeros(len(text) + 1, dtype=np.int64)
        np.cumsum(_weigh(text), out=self.sums[1:])

    def weight(self, start: int, end: int) -> int:
        return int(self.sums[end] - self.sums[start])

    def last_within(self, start: int, weight: int) -> int:
        """The last offset up to which the text from `start` on weighs no more than `weight`; a negative
        weight goes back.
        """
        return int(self.sums.searchsorted(self.sums[start] + weight, "right")) - 1

    def first_beyond(self, start: int, weight: int) -> int:
        """The first offset up to which the text from `start` on weighs `weight` or more; a negative weight
        goes back.
        """
        return int(self.sums.searchsorted(self.sums[start] + weight, "left"))


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose pieces repeat its header. Its rows fill [rows, end) of the text."""

    rows: int
    end: int
    header: str
    header_weight: int


@dataclass(frozen=True, slots=True)
class Joints:
    """Where a section can be cut: at the starts of its blocks, at their seams, and never inside of `solid`
    spans, which are in order and apart from one another.
    """

    blocks: list[int]
    seams: list[int]
    solid: list[tuple[int, int]]
    tables: list[Table]

    def solid_around(self, offset: int) -> tuple[int, int] | None:
        """The solid span that a cut at `offset` would break."""
        index = bisect_left(self.solid, (offset, 0)) - 1
        if index >= 0 and offset < self.solid[index][1]:
            return self.solid[index]
        return None

    def table_around(self, offset: int) -> Table | None:
        """The table whose header a piece that begins at `offset` repeats."""
        index = bisect_right(self.tables, offset, key=lambda table: table.rows) - 1
        return self.tables[index] if index >= 0 and offset < self.tables[index].end else None

    def gaps(self, low: int, top: int) -> Iterator[tuple[int, int]]:
        """The spans of [low, top] whose offsets, both ends included, are outside of solid spans, the last one
        first. `top` itself must be outside.
        """
        for index in range(bisect_left(self.solid, (top, 0)) - 1, -1, -1):
            start, end = self.solid[index]
            if end <= low:
                break
            yield end, top
            top = start
        if top >= low:
            yield low, top


def find_joints(body: Body, blocks: Sequence[Block], end: int, bound: int) -> Joints:
    """The joints of a section that ends at `end` and has these blocks.

    Solid are, where they weigh no more than `bound`, fences (in lists and quotes too), display mathematics,
    and a table's header up to its first row. A header that weighs over half of the bound is not repeated.
    """
    solid: list[tuple[int, int]] = []
    tables: list[Table] = []
    for block in blocks:
        block_end = min(block.end, end)
        if block.kind in ("fence", "math"):
            solid.append((block.start, block_end))
            continue
        solid.extend(_inner_fences(body.text, block.start, block_end))
        header = body.text[block.start : block.head_end].strip("\n")
        header_weight = body.weight(block.start, max(block.start, block.head_end))
        if header and header_weight <= bound // 2:
            solid.append((block.start, min(block.head_end + 1, block_end)))
            tables.append(Table(block.head_end, block_end, header + "\n", header_weight))
    return Joints(
        blocks=[block.start for block in blocks],
        seams=sorted({seam for block in blocks for seam in block.seams if block.start < seam < block.end}),
        solid=_apart(sorted(span for span in solid if body.weight(*span) <= bound)),
        tables=tables,
    )


def _apart(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, without those that begin inside the one before."""
    kept: list[tuple[int, int]] = []
    for start, end in spans:
        if start < end and (not kept or start >= kept[-1][1]):
            kept.append((start, end))
    return kept


def _inner_fences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The fences in a list, a quote or a comment: a note's own blocks are the outermost only."""
    if text.find("```", start, end) < 0 and text.find("~~~", start, end) < 0:
        return
    inner = text[start:end]
    try:
        tokens = parse_blocks(inner)
    except (TooMuchWork, RecursionError):
        tokens = parse_plainly(inner)
    offsets = [start]
    for line in inner.split("\n"):
        offsets.append(offsets[-1] + len(line) + 1)
    for token in tokens:
        if token.type == "fence" and token.map:
            first, last = token.map
            yield offsets[first], min(offsets[last], end)


# A line begins after the blank lines that precede it.
_LINE = re.compile(r"\n(?:[^\S\n]*+\n)*")
# A sentence or clause ends after its mark and the blanks that follow, without which only the marks of
# scripts that have no spaces count.
_SENTENCE = re.compile(
    r"(?:(?<=[.!?…‽؟۔।॥։።])|(?<=[.!?…‽؟۔।॥։።][\"'”’»)\]*_]))\s+(?=\S)"
    r"|[。！？｡．‼⁇⁈⁉]+[」』”’）】》〉\])\"']*\s*"
)
_CLAUSE = re.compile(r"(?<=[,;:،؛])\s+(?=\S)|[，、；：…—]+\s*")
# Kana and ideographs have no spaces, and nearly every character begins a word. There a line may break
# anywhere but after an opening mark and before a closing one, or one that lengthens or repeats.
_KANA_HAN = "\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff"
_BREAKABLE = (
    r"(?<![\s(\[{“‘（［｛「『【〔〖《〈])(?![\s)\]}”’）］｝」』】〕〗》〉、。，．！？：；・…—ー々ゝゞヽヾ])"
)
_WORD = re.compile(rf"(?<=\s)(?=\S)|{_BREAKABLE}(?:(?<=[{_KANA_HAN}])|(?=[{_KANA_HAN}]))")
# What a reader sees as one character (UAX 29). The `regex` package follows each edition of Unicode here,
# which the standard library has no tables for.
_CHARACTER = regex.compile(r"\X")
# How far past its window the search for characters looks for the end of the last one. What is longer (an
# emoji joined to a hundred others) is no character that a reader would miss, and is cut like a long word.
_LONGEST_CHARACTER = 64
_DEEPEST = 80


def best_cut(body: Body, joints: Joints, at: int, low: int, top: int) -> int:
    """The best place in [low, top] to end a piece that begins at `at`; `top` must be outside of solid spans.

    The last place of the best kind: a block, a seam, a line, a sentence, a clause, a word, a character. Of
    the seams in the later half it is the least indented, which parts neither item from its sub-items nor code
    from its function.
    """
    for place in reversed(_between(joints.blocks, low, top)):
        if not joints.solid_around(place):
            return place
    seams = [place for place in _between(joints.seams, low, top) if not joints.solid_around(place)]
    if seams:
        later = [place for place in seams if place >= (low + top) // 2]
        return min(later or seams, key=lambda place: (_indent(body.text, place), -place))
    for pattern, least in ((_LINE, low), (_SENTENCE, low), (_CLAUSE, (low + top) // 2), (_WORD, low)):
        for first, last in joints.gaps(least, top):
            for place in reversed(_ends(pattern, body.text, first, last)):
                if _begins(pattern, body.text, place):
                    return place
    for place in reversed(list(_character_ends(body.text, at, top))):
        if place >= low and not joints.solid_around(place):
            return place
    return top


def _between(places: list[int], low: int, top: int) -> list[int]:
    return places[bisect_left(places, low) : bisect_right(places, top)]


def _indent(text: str, offset: int) -> int:
    """How far the line that begins here is indented; a blank or a closing one as far as can be."""
    line = text[offset : offset + _DEEPEST]
    words = line.lstrip(" \t")
    return len(line) - len(words) if words[:1].strip("\n)]}") else _DEEPEST


def best_overlap(body: Body, joints: Joints, since: int, at: int, weight: int) -> int:
    """Where the text begins that a piece beginning at `at` repeats of the piece that began at `since`.

    At most `weight` of it, and none of a solid span but the whole: from a line, a sentence or a clause where
    that leaves half of it or more, else from a word or a character. `at` itself if nothing can be repeated.
    """
    first = max(since, body.first_beyond(at, -weight))
    if solid := joints.solid_around(first):
        first = solid[1]
    if first == since and body.weight(first, at):
        return first
    half = max(first, body.first_beyond(at, -weight // 2))
    for patterns, last in (((_LINE, _SENTENCE), half), ((_CLAUSE,), half), ((_WORD,), at - 1)):
        places = [
            (place, pattern) for pattern in patterns for place in _ends(pattern, body.text, first, last)
        ]
        for place, pattern in sorted(places, key=itemgetter(0)):
            if not joints.solid_around(place) and _begins(pattern, body.text, place):
                return place if body.weight(place, at) else at
    for place in _character_ends(body.text, since, at - 1):
        if place >= first and not joints.solid_around(place):
            return place if body.weight(place, at) else at
    return at


def _ends(pattern: re.Pattern[str], text: str, first: int, last: int) -> list[int]:
    """The places in [first, last] that a match of the pattern ends at."""
    matches = pattern.finditer(text, max(first - 1, 0), last + 1)
    return [end for match in matches if first <= (end := match.end()) <= last]


def _begins(pattern: re.Pattern[str], text: str, offset: int) -> bool:
    """Whether what the pattern stands for can begin here: no sentence does with a small letter after a blank
    ("e.g. this"), and nothing does in the middle of a character.
    """
    if offset >= len(text):
        return False
    before, after = text[offset - 1], text[offset]
    if pattern is _SENTENCE and before.isspace() and after.islower():
        return False
    if after.isascii() and (before.isascii() or before.isspace()):
        return True
    return next(_character_ends(text, offset - 1, offset), None) == offset


def _character_ends(text: str, start: int, end: int) -> Iterator[int]:
    """The ends of the characters of text[start:end], `start` being the beginning of one."""
    # A copy, because the search looks back as far as it can to pair the letters of a flag.
    window = text[start : end + _LONGEST_CHARACTER]
    if window.isascii():
        yield from range(start + 1, end + 1)
        return
    for match in _CHARACTER.finditer(window):
        if start + match.end() > end:
            return
        yield start + match.end()
