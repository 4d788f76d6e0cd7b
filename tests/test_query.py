"""What a query asks for: operators, intent, filters, and what cannot be asked."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from obsidian_rag import schemas
from obsidian_rag.errors import QueryError
from obsidian_rag.search import query as module
from obsidian_rag.search.query import (
    BESIDE_PLAIN_RRF,
    STAGES,
    Filters,
    apply_fusion,
    classify_intent,
    make_filters,
    make_request,
    read_operators,
)


@pytest.mark.parametrize(
    ("query", "intent"),
    [
        ('what did "Ann Lee" say', "exact"),
        ("docker-compose.yml", "exact"),
        ("parse_note", "exact"),
        ("parseNote", "exact"),
        ("0x80070005", "exact"),
        ("192.168.1.10", "exact"),
        ("v2.3", "exact"),
        ("ann@example.com", "exact"),
        ("why C++ is hard", "exact"),
        ("who waters the garden", "question"),
        ("Warum ist der Himmel blau", "question"),
        ("東京はどこですか", "question"),
        ("the garden, is it wet?", "question"),
        ("garden watering plan", "general"),
    ],
)
def test_intent_is_told_by_rules(query: str, intent: str) -> None:
    assert classify_intent(query) == intent


def test_a_name_or_a_date_decides_before_the_form_of_the_words() -> None:
    assert classify_intent("who is Ann", names_a_note=True) == "entity"
    assert classify_intent("what happened last week", names_a_date=True) == "temporal"
    assert classify_intent('"last week"', names_a_note=True, names_a_date=True) == "exact"


@pytest.mark.parametrize(
    ("query", "web", "required"),
    [
        ('"heat pump" noise', '"heat pump" noise', '"heat pump"'),
        ("heat OR cold", "heat or cold", ""),
        ("pump -noise", "pump -noise", "-noise"),
        ('pump -"heat pump"', 'pump -"heat pump"', '-"heat pump"'),
        ("-snake_case pump", '-"snake case" pump', '-"snake case"'),
        ('"日本語"', '"日本 本語"', '"日本 本語"'),
    ],
)
def test_operators_are_kept_for_postgresql(query: str, web: str, required: str) -> None:
    operators = read_operators(query)
    assert operators is not None
    assert (operators.web, operators.required) == (web, required)
    assert operators.excludes == ("-" in required)


@pytest.mark.parametrize(
    "query", ["plain words", "well-known facts", "this or that", "a - b", "OR", "-", '""', "2024-01-02"]
)
def test_a_query_without_operators_has_none(query: str) -> None:
    assert read_operators(query) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": "  \x00 "}, "empty"),
        ({"query": "a" * 5000}, "5000 characters"),
        ({"query": "a", "mode": "fuzzy"}, "mode is 'fuzzy'.*hybrid, vector, keyword"),
        ({"query": "a", "limit": 0}, "limit is 0.*1 to 50"),
        ({"query": "a", "limit": 51}, "limit is 51"),
        ({"query": "a", "intent": "guess"}, "intent is 'guess'.*temporal"),
        ({"query": "a", "without": frozenset({"magic"})}, "no stage 'magic'.*vector, keyword"),
    ],
)
def test_what_cannot_be_asked_is_an_error_that_says_what_can(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        make_request(**arguments)


def test_a_query_may_hold_anything_a_keyboard_or_a_program_gives() -> None:
    assert make_request(" a\x00b \ud800").query == "a b ?"


def test_filters_are_read_as_people_write_them() -> None:
    assert make_filters(
        "/Projects/", ["#Home/Garden", "a"], ["status=done", " Due = a=b "], "2025-01-02", "2025-01-02"
    ) == Filters(
        "Projects",
        ("Home/Garden", "a"),
        (("status", "done"), ("Due", "a=b")),
        date(2025, 1, 2),
        date(2025, 1, 2),
    )


@pytest.mark.parametrize(
    "arguments",
    [{}, {"folder": ""}, {"folder": "/"}, {"tags": [], "properties": [], "after": "", "before": None}],
)
def test_empty_filters_filter_nothing(arguments: dict[str, Any]) -> None:
    assert not make_filters(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tags": ["#"]}, "tag is '#'"),
        ({"properties": ["status"]}, "property is 'status'.*key=value"),
        ({"properties": ["=done"]}, "property is '=done'"),
        ({"properties": ["status="]}, "property is 'status='"),
        ({"after": "last week"}, "after is 'last week'.*2025-09-30"),
        ({"before": "2025-02-30"}, "before is '2025-02-30'"),
        ({"after": "2025-02-02", "before": "2025-02-01"}, "after is 2025-02-02, later than before"),
        ({"folder": "a\x00"}, "folder is"),
    ],
)
def test_a_filter_that_cannot_be_used_is_an_error_with_its_mend(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        make_filters(**arguments)


def test_plain_rrf_leaves_out_what_is_beside_words_and_vectors() -> None:
    request = make_request("a", without=frozenset({"neighbors"}))
    assert apply_fusion(request, "calibrated") == request
    assert apply_fusion(request, "rrf").without == BESIDE_PLAIN_RRF | {"neighbors"}
    assert set(STAGES) >= BESIDE_PLAIN_RRF


def test_the_server_promises_the_intents_there_are() -> None:
    assert set(schemas.INTENTS) == set(module.get_args(module.Intent))
