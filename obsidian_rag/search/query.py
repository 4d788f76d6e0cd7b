"""What a query asks for: its parts, its intent told by rules, and the limits of what can be asked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache
from typing import Literal, get_args

from obsidian_rag.analysis import analyze
from obsidian_rag.config import Boost, Settings, parse_boosts
from obsidian_rag.errors import QueryError, SettingsError

Mode = Literal["hybrid", "vector", "keyword"]
Intent = Literal["exact", "entity", "question", "temporal", "general"]

# What a measurement can leave out: retrievers, parts of the keyword score, and what follows them.
STAGES = (
    "vector",
    "keyword",
    "names",
    "links",
    "phrases",
    "dates",
    "calibration",
    "compounds",
    "note",
    "priors",
    "popularity",
    "neighbors",
    "expansion",
    "rerank",
)
# What plain RRF of words and vectors does without.
BESIDE_PLAIN_RRF = frozenset({"calibration", "names", "links", "dates", "popularity"})

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

    `without` names stages to leave out, for a measurement. `boosts` are folders with their factors; they
    count before `usual_boosts`, which are those of the settings, as are `archive`, the factor of archive
    folders, and `excludes`, which say what notes do not answer.
    """

    query: str
    mode: Mode = "hybrid"
    limit: int = 10
    filters: Filters = field(default_factory=Filters)
    intent: Intent | None = None
    without: frozenset[str] = frozenset()
    boosts: tuple[Boost, ...] = ()
    include_excluded: bool = False
    usual_boosts: tuple[Boost, ...] = ()
    archive: float = 1.0
    excludes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operators:
    """A query with operators. `web` is all of it, analysed, for websearch_to_tsquery; `required` only its
    phrases and exclusions; `scored` the words that count for the ranking, those of phrases included.
    `excludes` tells whether there are exclusions.
    """

    web: str
    required: str
    scored: str
    excludes: bool


def make_request(
    query: str,
    mode: str = "hybrid",
    limit: int = 10,
    filters: Filters | None = None,
    intent: str | None = None,
    without: frozenset[str] = frozenset(),
    boosts: Sequence[str] | None = None,
    include_excluded: bool = False,
) -> Request:
    """A request from what an agent or a person wrote, boosts as `folder=factor`. Raises QueryError with what
    to write instead.
    """
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
    unknown = sorted(without - set(STAGES))
    if unknown:
        raise QueryError(f"There is no stage {unknown[0]!r}", f"Leave out some of {', '.join(STAGES)}.")
    return Request(
        text,
        mode,  # type: ignore[arg-type]
        limit,
        filters or Filters(),
        intent,  # type: ignore[arg-type]
        without,
        _read_boosts(boosts or ()),
        include_excluded,
    )


def _read_boosts(written: Sequence[str]) -> tuple[Boost, ...]:
    try:
        return parse_boosts("boosts", [_clean(entry, "boosts") for entry in written])
    except SettingsError as exc:
        raise QueryError(exc.message, exc.mend) from exc


def apply_settings(request: Request, settings: Settings) -> Request:
    """The request under the settings that every search is under."""
    return replace(
        apply_fusion(request, settings.search_fusion),
        usual_boosts=settings.search_boosts,
        archive=settings.search_archive,
        excludes=() if request.include_excluded else settings.search_excludes,
    )


def apply_fusion(request: Request, fusion: str) -> Request:
    """The request under the setting SEARCH_FUSION."""
    return replace(request, without=request.without | BESIDE_PLAIN_RRF) if fusion == "rrf" else request


def make_filters(
    folder: str | None = None,
    tags: Sequence[str] | None = None,
    properties: Sequence[str] | None = None,
    after: str | None = None,
    before: str | None = None,
) -> Filters:
    """Filters from what an agent or a person wrote: properties as `key=value`, days as 2025-09-30.

    Raises QueryError with what to write instead.
    """
    filters = Filters(
        folder=_clean(folder or "", "folder").strip("/") or None,
        tags=tuple(_read_tag(tag) for tag in tags or ()),
        properties=tuple(_read_property(written) for written in properties or ()),
        after=_read_day("after", after),
        before=_read_day("before", before),
    )
    if filters.after and filters.before and filters.after > filters.before:
        raise QueryError(
            f"after is {after}, later than before, which is {before}",
            "Exchange them; both days are included.",
        )
    return filters


def _read_tag(written: str) -> str:
    tag = _clean(written, "tag").lstrip("#").strip("/")
    if not tag:
        raise QueryError(f"tag is {written!r}", "Write a tag's name, with or without #.")
    return tag


def _read_property(written: str) -> tuple[str, str]:
    key, sign, value = _clean(written, "property").partition("=")
    if not (sign and key.strip() and value.strip()):
        raise QueryError(f"property is {written!r}", "Write it as key=value, for example status=done.")
    return key.strip(), value.strip()


def _read_day(name: str, written: str | None) -> date | None:
    if not written:
        return None
    try:
        return date.fromisoformat(written.strip())
    except ValueError as exc:
        raise QueryError(f"{name} is {written!r}", "Write a day as year-month-day: 2025-09-30.") from exc


def _clean(text: str, name: str) -> str:
    if re.search("[\0\ud800-\udfff]", text):
        raise QueryError(f"{name} is {text!r}, with a character that no note holds", "Leave it out.")
    return text.strip()


def classify_intent(query: str, names_a_note: bool = False, names_a_date: bool = False) -> Intent:
    """What kind of thing is asked: exact words, a named note, a time, a question, or a subject."""
    if _QUOTED.search(query) or _IDENTIFIER.search(query):
        return "exact"
    if names_a_note:
        return "entity"
    if names_a_date:
        return "temporal"
    return "question" if _QUESTION.search(query) else "general"


@lru_cache(maxsize=64)  # every retriever asks
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
    if not found:
        return None
    excludes = any(part.startswith("-") for part in required)
    return Operators(" ".join(parts), " ".join(required), " ".join(scored), excludes)
