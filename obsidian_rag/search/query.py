"""What a query asks for: its parts, its intent told by rules, and the limits of what can be asked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from typing import Literal, get_args

from obsidian_rag.analysis import analyze
from obsidian_rag.errors import QueryError

Mode = Literal["hybrid", "vector", "keyword"]
Intent = Literal["exact", "entity", "question", "temporal", "general"]

MOST_RESULTS = 50
MOST_CHARACTERS = 4000  # of a query; a longer one is a text pasted by mistake

_PART = re.compile(r'(?P<minus>-?)"(?P<phrase>[^"]*)"|(?P<word>\S+)')
_QUOTED = re.compile(r'"[^"]*\w[^"]*"')
_IDENTIFIER = re.compile(
    r"\w+[_./\\:@]\w[\w./\\:@-]*"  # snake_case, docker-compose.yml, 192.168.1.10, a/path, e@mail
    r"|\b0x[0-9a-f]+\b|\bv\d+(\.\d+)+|\b[a-z]+[A-Z]\w*|\b[A-Za-z]{2,}[-_]?\d{2,}\w*\b|\w(\+\+|#)(?=\s|$)"
)
_QUESTION = re.compile(
    r"^\s*(who|what|when|where|which|why|how|whose|whom|is|are|was|were|do|does|did|can|could|should|would"
    r"|wer|was|wann|wo|welche[rsnm]?|warum|wie|wieso|qui|que|quoi|quand|où|pourquoi|comment|quién|qué"
    r"|cuándo|dónde|cómo|chi|cosa|quando|dove|perché|come)\b|[?？]\s*$|(か|ですか|ますか)[。？?]?\s*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Filters:
    """Which notes may answer. Empty means all. `properties` are front matter keys with the value wanted."""

    folder: str | None = None
    tags: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    after: date | None = None
    before: date | None = None

    def __bool__(self) -> bool:
        return self != Filters()


@dataclass(frozen=True, slots=True)
class Request:
    """A search as it was asked. `limit` is the number of notes wanted. `intent` overrides the rules.

    `without` names stages to leave out, for a measurement.
    """

    query: str
    mode: Mode = "hybrid"
    limit: int = 10
    filters: Filters = field(default_factory=Filters)
    intent: Intent | None = None
    without: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Operators:
    """A query with operators. `web` is all of it, analysed, for websearch_to_tsquery; `required` only its
    phrases and exclusions; `scored` the words that count for the ranking, those of phrases included.
    """

    web: str
    required: str
    scored: str


def make_request(
    query: str,
    mode: str = "hybrid",
    limit: int = 10,
    filters: Filters | None = None,
    intent: str | None = None,
    without: frozenset[str] = frozenset(),
) -> Request:
    """A request from what an agent or a person wrote. Raises QueryError with what to write instead."""
    text = query.replace("\x00", " ").encode("utf-8", "replace").decode("utf-8").strip()
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
    if intent is not None and intent not in get_args(Intent):
        raise QueryError(f"intent is {intent!r}", f"Use one of {', '.join(get_args(Intent))}.")
    return Request(text, mode, limit, filters or Filters(), intent, without)  # type: ignore[arg-type]


def classify_intent(query: str, names_a_note: bool = False, names_a_date: bool = False) -> Intent:
    """What kind of thing is asked: exact words, a named note, a time, a question, or a subject."""
    if _QUOTED.search(query) or _IDENTIFIER.search(query):
        return "exact"
    if names_a_note:
        return "entity"
    if names_a_date:
        return "temporal"
    return "question" if _QUESTION.search(query) else "general"


def read_operators(query: str) -> Operators | None:
    """The query's quoted phrases, `OR` and `-word`; None where it has none of them.

    A word that the analysis takes apart (`snake_case`, `日本語`) becomes a phrase of its parts, so that
    websearch_to_tsquery reads it as one word still.
    """
    parts: list[str] = []
    required: list[str] = []
    scored: list[str] = []
    found = False
    for match in _PART.finditer(query):
        written = match["phrase"] if match["phrase"] is not None else match["word"]
        if match["word"] == "OR" and parts:
            parts.append("or")
            found = True
            continue
        minus = match["minus"] or ("-" if match["word"] and re.match(r"-\w", match["word"]) else "")
        words = analyze(written).words
        if not words:
            continue
        parts.append(f'{minus}"{words}"' if " " in words or match["word"] is None else minus + words)
        if minus or match["phrase"] is not None:
            required.append(parts[-1])
            found = True
        if not minus:
            scored.append(written)
    return Operators(" ".join(parts), " ".join(required), " ".join(scored)) if found else None
