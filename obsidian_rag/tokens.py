"""How many tokens a text may take, told from its characters, on the safe side.

A token is about four characters of English prose in the tokenizers of today, fewer of names, tables and other
languages of the Latin script: 3.5 are counted. Greek and Cyrillic take one for two characters. Every other
script, Chinese, Japanese and Korean among them, is counted with a token for each character, and what lies
beyond the Basic Multilingual Plane (emoji) with two. No tokenizer is asked: each model has its own, and what
counts is that an answer never crowds a context.
"""

from __future__ import annotations

import json
import re
from typing import Any

# What a character costs, in fourteenths of a token.
TOKEN = 14
_LATIN, _GREEK, _OTHER, _BEYOND = 4, 7, 14, 28
# Beside letters what all languages write: general punctuation, arrows, box drawing.
_COSTLY = re.compile("[\u0370-\u1dff\u2c00-\U0010ffff]+")  # all of those below, in one look
_GREEKS = re.compile("[\u0370-\u058f]+")
_OTHERS = re.compile("[\u0590-\u1dff\u2c00-\uffff]+")
_BEYONDS = re.compile("[\U00010000-\U0010ffff]+")


def estimate_tokens(text: str) -> int:
    """How many tokens a text takes at most, nearly always."""
    return -(-_weigh(text) // TOKEN)


def estimate_json(value: Any) -> int:
    """How many tokens a value takes as the JSON that a client may show to its model."""
    return estimate_tokens(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def count_fitting(text: str, tokens: int, start: int = 0) -> int:
    """How many characters of `text[start:]` take no more than so many tokens."""
    rest = tokens * TOKEN
    piece = text[start : start + max(0, rest) // _LATIN]
    if piece.isascii():
        return len(piece)
    low, high = 0, len(piece)  # the weight grows with the length
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _weigh(piece[:middle]) <= rest else (low, middle - 1)
    return low


def _weigh(text: str) -> int:
    weight = _LATIN * len(text)
    if text.isascii():
        return weight
    costly = "".join(_COSTLY.findall(text))
    if not costly:
        return weight
    for pattern, cost in ((_GREEKS, _GREEK), (_OTHERS, _OTHER), (_BEYONDS, _BEYOND)):
        weight += (cost - _LATIN) * sum(len(run) for run in pattern.findall(costly))
    return weight
