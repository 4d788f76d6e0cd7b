"""JSON schemas of the tools' structured content."""

from __future__ import annotations

from typing import Any


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT = {"type": "string"}
_WHOLE = {"type": "integer"}
_LINE = {"type": ["integer", "null"]}
_TEXTS = {"type": "array", "items": _TEXT}

HIT = _object(
    {
        "file_path": _TEXT,
        "title": _TEXT,
        "heading_path": _TEXT,
        "chunk_index": _WHOLE,
        "start_line": _LINE,
        "end_line": _LINE,
        "score": {"type": "number"},
        "content": _TEXT,
        "neighbor": {"type": "boolean"},
        "ranks": {"type": "object", "additionalProperties": _WHOLE},
        "evidence": _TEXT,
    }
)
SEARCH = _object(
    {
        "query": _TEXT,
        "mode": {"type": "string", "enum": ["hybrid", "vector", "keyword"]},
        "intent": _TEXT,
        "results": {"type": "array", "items": HIT},
        "notices": _TEXTS,
        "create_safety": {"type": "string", "enum": ["exists", "probable", "unknown"]},
    }
)
GRAPH = _object(
    {
        "file_path": _TEXT,
        "depth": _WHOLE,
        "edges": {
            "type": "array",
            "items": _object(
                {
                    "file_path": _TEXT,
                    "hop": _WHOLE,
                    "direction": {"type": "string", "enum": ["out", "in"]},
                    "from_path": _TEXT,
                    "via": _TEXT,
                    "preview": {"type": ["string", "null"]},
                }
            ),
        },
    }
)
TOPICS = _object(
    {"topics": {"type": "array", "items": _object({"name": _TEXT, "notes": _WHOLE, "chunks": _WHOLE})}}
)
NOTE = _object(
    {
        "file_path": _TEXT,
        "title": _TEXT,
        "content": _TEXT,
        "aliases": _TEXTS,
        "tags": _TEXTS,
        "modified_at": _TEXT,
        "indexed_at": _TEXT,
    }
)
