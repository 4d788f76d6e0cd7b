"""The schemas as programs read them."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from obsidian_rag import schemas

OF_ANSWERS = {
    "search_notes": schemas.SEARCH,
    "graph_search": schemas.GRAPH,
    "list_topics": schemas.TOPICS,
    "get_note": schemas.NOTE,
}


@pytest.mark.parametrize("name", OF_ANSWERS)
def test_a_schema_is_one_and_its_root_is_an_object_without_alternatives(name: str) -> None:
    schema = OF_ANSWERS[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "$ref"} & set(schema)


def list_objects(schema: Any) -> list[dict[str, Any]]:
    """A schema and those in it, of objects with named properties."""
    inner = [schema.get("items"), *schema.get("properties", {}).values()]
    below = [found for part in inner if isinstance(part, dict) for found in list_objects(part)]
    return [schema, *below] if "properties" in schema else below


@pytest.mark.parametrize("name", OF_ANSWERS)
def test_a_schema_says_everything_that_is_there_and_nothing_else(name: str) -> None:
    for schema in list_objects(OF_ANSWERS[name]):
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])


def test_tools_are_described_without_their_markdown_breaking() -> None:
    assert set(schemas.DESCRIPTIONS) == set(schemas.USAGE) == set(OF_ANSWERS)
    for name, usage in schemas.USAGE.items():
        assert usage.startswith(f"{name}(")
        assert schemas.DESCRIPTIONS[name].endswith(".")
    assert schemas.LEAST_TOKENS < schemas.BUDGET < schemas.MOST_TOKENS


def test_the_prompt_takes_a_question_with_braces() -> None:
    assert schemas.PROMPT.format(question="{what} {0}?").endswith("Question: {what} {0}?")
