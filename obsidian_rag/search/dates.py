"""The days a query speaks of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

from obsidian_rag.note_dates import make_date

MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
)  # fmt: skip
_MONTH_NAMES = "|".join([*MONTHS, *(m[:3] for m in MONTHS), "sept"])
# "may" and "mar" are words as well: a month alone counts only after a preposition or beside a year.
_MONTH = re.compile(
    rf"\b(?:(?P<before>in|since|until|during|from|of|last|this)\s+)?(?P<name>{_MONTH_NAMES})\.?"
    r"(?:\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?)?(?:,?\s+(?P<year>(?:19|20)\d\d))?\b",
    re.IGNORECASE,
)
_ISO = re.compile(r"\b(?P<year>(?:19|20)\d\d)[-/.](?P<month>0[1-9]|1[0-2])(?:[-/.](?P<day>[0-3]\d))?\b")
_YEAR = re.compile(r"\b(?:in|since|during|of|from)\s+(?P<year>(?:19|20)\d\d)\b", re.IGNORECASE)
_RELATIVE = re.compile(
    r"\b(?P<which>last|this|past|previous)\s+(?P<unit>week|month|year|weekend)\b"
    r"|\b(?P<day>today|yesterday)\b|\b(?P<count>\d{1,3})\s+(?P<ago>day|week|month|year)s?\s+ago\b",
    re.IGNORECASE,
)


YEAR_WORDS = 6
PERIOD_WORDS = (
    "last", "this", "past", "previous", "days", "weeks", "weekend", "months", "years", "today", "yesterday",
    "ago", "since", "until", "during",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Period:
    """Days from `first` to `last`, both included."""

    first: date
    last: date


def is_date_word(word: str) -> bool:
    """Whether a word of a query with a period belongs to the period, most likely."""
    return word.isdigit() or any(name.startswith(word.lower()) for name in (*MONTHS, *PERIOD_WORDS))


def read_period(query: str, today: date) -> Period | None:
    """The period a query speaks of, None where it speaks of none.

    A month without a year is the last one that has begun; weeks start on Monday. A bare year counts only in
    a query of few words: in a longer one it is part of the story.
    """
    return _read_iso(query) or _read_month(query, today) or _read_relative(query, today) or _read_year(query)


def _month(year: int, month: int) -> Period:
    following = date(year + month // 12, month % 12 + 1, 1)
    return Period(date(year, month, 1), following - timedelta(days=1))


def _read_iso(query: str) -> Period | None:
    match = _ISO.search(query)
    if not match:
        return None
    if match["day"]:
        day = make_date(match["year"], match["month"], match["day"])
        return Period(day, day) if day else None
    return _month(int(match["year"]), int(match["month"]))


def _read_month(query: str, today: date) -> Period | None:
    for match in _MONTH.finditer(query):
        if not (match["before"] or match["year"] or match["day"]):
            continue
        month = next(i for i, name in enumerate(MONTHS, 1) if name.startswith(match["name"][:3].lower()))
        year = int(match["year"]) if match["year"] else today.year - (month > today.month)
        if not match["day"]:
            return _month(year, month)
        day = make_date(str(year), str(month), match["day"])
        if day:
            return Period(day, day)
    return None


def _read_relative(query: str, today: date) -> Period | None:
    match = _RELATIVE.search(query)
    if not match:
        return None
    if match["day"]:
        day = today - timedelta(days=match["day"].lower() == "yesterday")
        return Period(day, day)
    if match["count"]:
        return _count_back(int(match["count"]), match["ago"].lower(), today)
    return _name_back(match["which"].lower() != "this", match["unit"].lower(), today)


def _count_back(count: int, unit: str, today: date) -> Period:
    days = {"day": 1, "week": 7, "month": 30, "year": 365}[unit] * count
    around = {"day": 0, "week": 3, "month": 15, "year": 182}[unit]
    middle = today - timedelta(days=days)
    return Period(middle - timedelta(days=around), middle + timedelta(days=around))


def _name_back(previous: bool, unit: str, today: date) -> Period:
    if unit == "year":
        year = today.year - previous
        return Period(date(year, 1, 1), date(year, 12, 31))
    if unit == "month":
        first = today.replace(day=1)
        start = first - timedelta(days=1) if previous else first
        return _month(start.year, start.month)
    monday = today - timedelta(days=today.weekday() + 7 * previous)
    first = monday + timedelta(days=5) if unit == "weekend" else monday
    return Period(first, monday + timedelta(days=6))


def _read_year(query: str) -> Period | None:
    match = _YEAR.search(query) if len(query.split()) <= YEAR_WORDS else None
    return Period(date(int(match["year"]), 1, 1), date(int(match["year"]), 12, 31)) if match else None
