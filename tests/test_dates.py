"""The days a query or a note speaks of."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from conftest import Workbench
from search_bench import local_today

from obsidian_rag.note_dates import find_note_date
from obsidian_rag.search.dates import Period, read_period

TODAY = date(2025, 9, 17)  # a Wednesday


def days(first: str, last: str) -> Period:
    return Period(date.fromisoformat(first), date.fromisoformat(last))


@pytest.mark.parametrize(
    ("query", "period"),
    [
        ("what did I do on 2025-09-03", days("2025-09-03", "2025-09-03")),
        ("2025-09", days("2025-09-01", "2025-09-30")),
        ("2024/02", days("2024-02-01", "2024-02-29")),
        ("meetings in March", days("2025-03-01", "2025-03-31")),
        ("meetings in November", days("2024-11-01", "2024-11-30")),
        ("December 2023", days("2023-12-01", "2023-12-31")),
        ("sept 5th", days("2025-09-05", "2025-09-05")),
        ("March 3, 2024", days("2024-03-03", "2024-03-03")),
        ("last week", days("2025-09-08", "2025-09-14")),
        ("this week", days("2025-09-15", "2025-09-21")),
        ("last month", days("2025-08-01", "2025-08-31")),
        ("this month", days("2025-09-01", "2025-09-30")),
        ("last year", days("2024-01-01", "2024-12-31")),
        ("last weekend", days("2025-09-13", "2025-09-14")),
        ("today", days("2025-09-17", "2025-09-17")),
        ("what I wrote yesterday", days("2025-09-16", "2025-09-16")),
        ("3 days ago", days("2025-09-14", "2025-09-14")),
        ("2 weeks ago", days("2025-08-31", "2025-09-06")),
        ("trips in 2023", days("2023-01-01", "2023-12-31")),
    ],
)
def test_a_query_that_speaks_of_days_is_read(query: str, period: Period) -> None:
    assert read_period(query, TODAY) == period


@pytest.mark.parametrize(
    "query",
    [
        "garden plan",
        "may I ask",
        "the march of time",
        "2025-13",
        "2025-02-31",
        "version 2024",
        "February 31",
        "10.0.0.1",
        "a long story about the many things that changed in 2023 for all of us",
        "",
    ],
)
def test_other_queries_speak_of_none(query: str) -> None:
    assert read_period(query, TODAY) is None


@pytest.mark.parametrize(
    "today", [date(2024, 2, 29), date(2025, 1, 1), date(2025, 12, 31), date(2025, 3, 31)]
)
def test_every_day_of_the_year_can_ask(today: date) -> None:
    for query in ("last week", "last month", "last year", "this weekend", "in February", "100 months ago"):
        period = read_period(query, today)
        assert period is not None
        assert period.first <= period.last
    assert read_period("last month", today).last == today.replace(day=1) - timedelta(days=1)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("title", "front_matter", "found"),
    [
        ("2025-09-03", {}, date(2025, 9, 3)),
        ("Meeting 20250903 notes", {}, date(2025, 9, 3)),
        ("Plan", {"date": "2025-09-03"}, date(2025, 9, 3)),
        ("Plan", {"created": " 2025-09-03T10:00:00 "}, date(2025, 9, 3)),
        ("2024-01-01", {"date": "2025-09-03"}, date(2025, 9, 3)),
        ("2024-01-01", {"date": "soon"}, date(2024, 1, 1)),
        ("Plan", {"date": ["2025-09-03"]}, None),
        ("2025-02-31", {}, None),
        ("Call 12025-09-031", {}, None),
        ("Plan", {}, None),
    ],
)
def test_a_note_says_its_day_by_property_or_name(
    title: str, front_matter: dict[str, object], found: date | None
) -> None:
    assert find_note_date(title, front_matter) == found


def test_notes_of_a_period_are_found_by_their_day(bench: Workbench) -> None:
    today = local_today()
    week_ago = today - timedelta(days=today.weekday() + 7)  # Monday of last week
    bench.vault.write(f"Daily/{week_ago}.md", "Called the plumber.\n")
    bench.vault.write("Daily/2001-05-05.md", "Called the plumber as well.\n")
    bench.vault.write("Trip.md", f"---\ndate: {week_ago + timedelta(days=1)}\n---\nBy train to the sea.\n")
    bench.index()

    answer = bench.search("last week")
    found = [hit.file_path for hit in answer.results if not hit.neighbor]
    assert answer.intent == "temporal"
    assert set(found[:2]) == {f"Daily/{week_ago}.md", "Trip.md"}
    assert {hit.evidence for hit in answer.results[:2]} == {"date"}
    assert bench.found("plumber last week")[0] == f"Daily/{week_ago}.md"
    assert bench.found("plumber in May 2001")[0] == "Daily/2001-05-05.md"
