"""What a query asks for: its intent, told by rules, and the limits of what can be asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from obsidian_rag.errors import QueryError

Mode = Literal["hybrid", "vector", "keyword"]
Intent = Literal["exact", "question", "temporal", "general"]

MOST_RESULTS = 50
MOST_CHARACTERS = 4000  # of a query; a longer one is a text pasted by mistake

_QUOTED = re.compile(r'"[^"]*\w[^"]*"')
_IDENTIFIER = re.compile(
    r"\b\w+[_./\\:@]\w[\w./\\:@-]*"  # snake_case, docker-compose.yml, 192.168.1.10, a/path, e@mail
    r"|\b0x[0-9a-f]+\b|\bv?\d+\.\d+|\b[a-z]+[A-Z]\w*|\b[A-Z]{2,}\d+\b"
)
_DATE = re.compile(
    r"\b(19|20)\d\d(-\d\d)?(-\d\d)?\b"
    r"|\b(yesterday|today|last|this|past)\s*(day|week|month|year|summer|winter|spring|autumn|night)?\b"
    r"|\b(in|since|until|before|after)\s+(january|february|march|april|may|june|july|august|september"
    r"|october|november|december)\b",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"^\s*(who|what|when|where|which|why|how|whose|is|are|was|were|do|does|did|can|could|should|would"
    r"|wer|was|wann|wo|welche[rsnm]?|warum|wie)\b|[?？]\s*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Request:
    """A search as it was asked. `limit` is the number of notes wanted."""

    query: str
    mode: Mode = "hybrid"
    limit: int = 10


def make_request(query: str, mode: str = "hybrid", limit: int = 10) -> Request:
    """A request from what an agent or a person wrote. Raises QueryError with what to write instead."""
    text = query.replace("\x00", " ").strip()
    if not text:
        raise QueryError("The query is empty", "Write some words to look for.")
    if len(text) > MOST_CHARACTERS:
        raise QueryError(
            f"The query has {len(text)} characters, at most {MOST_CHARACTERS} can be searched",
            "Ask with a sentence or a few words.",
        )
    if mode not in get_args(Mode):
        raise QueryError(f"mode is {mode!r}", f"Use one of {', '.join(get_args(Mode))}.")
    if not 1 <= limit <= MOST_RESULTS:
        raise QueryError(f"limit is {limit}", f"Use a number from 1 to {MOST_RESULTS}.")
    return Request(text, mode, limit)  # type: ignore[arg-type]


def classify_intent(query: str) -> Intent:
    """What kind of thing is asked: exact words, a time, a question, or a subject."""
    if _QUOTED.search(query) or _IDENTIFIER.search(query):
        return "exact"
    if _DATE.search(query):
        return "temporal"
    if _QUESTION.search(query):
        return "question"
    return "general"
