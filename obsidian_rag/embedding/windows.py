"""Cutting a text that is longer than a model's window into parts that fit.

Nothing is dropped: the parts, put together, are the text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

# Scripts whose words are not set apart by spaces: one token a character, or nearly.
_DENSE = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
_WORD = re.compile(r"\S+")
_BREAKS = ("\n\n", "\n", " ", "\t")


def clean(text: str) -> str:
    """The text as every model can take it: no NUL (it ends a C string), no lone surrogate (no UTF-8)."""
    if "\0" in text:
        text = text.replace("\0", " ")
    return text.encode("utf-8", "replace").decode("utf-8")


def least_tokens(text: str) -> int:
    """Fewer tokens than this the text cannot have, whatever the tokenizer: every word is at least one."""
    return len(_WORD.findall(text))


def likely_tokens(text: str) -> int:
    """A cautious guess at the tokens of a text: rather too many than too few for prose."""
    dense = len(_DENSE.findall(text))
    return math.ceil(dense * 1.1 + max((len(text) - dense) / 3.0, least_tokens(text) * 1.3))


def cut_evenly(text: str, parts: int = 2) -> list[str]:
    """Cut a text into about equal parts, at white space near the ideal place where there is some.

    Parts are never empty; a text of fewer characters than `parts` gives fewer.
    """
    parts = min(parts, len(text))
    pieces: list[str] = []
    start = 0
    for left in range(parts, 1, -1):
        ideal = start + (len(text) - start) // left
        cut = _near_break(text, start, ideal, len(text) - (left - 1))
        pieces.append(text[start:cut])
        start = cut
    pieces.append(text[start:])
    return pieces


def _near_break(text: str, start: int, ideal: int, last: int) -> int:
    """The end of the white space nearest before `ideal`, within a fifth of the part; else `ideal` itself."""
    low = max(start + 1, ideal - max(1, (ideal - start) // 5))
    for mark in _BREAKS:
        at = text.rfind(mark, low, ideal)
        if at >= 0:
            return min(at + len(mark), last)
    return max(start + 1, min(ideal, last))


def cut_at_tokens(text: str, spans: Sequence[tuple[int, int]], room: int) -> list[str]:
    """Cut a text into parts of at most `room` tokens, about equal, at white space where there is some.

    `spans` are the tokens' places in the text, in order, without special tokens.
    """
    if len(spans) <= room:
        return [text]
    parts = math.ceil(len(spans) / room)
    pieces: list[str] = []
    first, start = 0, 0
    while len(spans) - first > room:
        size = min(room, math.ceil((len(spans) - first) / max(1, parts - len(pieces))))
        stop = _last_word_start(text, spans, first + size, first + max(1, size - size // 5))
        pieces.append(text[start : spans[stop][0]])
        start, first = spans[stop][0], stop
    pieces.append(text[start:])
    return [piece for piece in pieces if piece]


def _last_word_start(text: str, spans: Sequence[tuple[int, int]], stop: int, low: int) -> int:
    """The last token at or before `stop` that follows white space; `stop` where none does after `low`."""
    for index in range(stop, low, -1):
        begin = spans[index][0]
        if begin > 0 and text[begin - 1].isspace():
            return index
    return stop
