"""What the server says of its tools: JSON schemas of their structured content, descriptions, arguments.

Written out, so that a server can tell its tools without importing what they need; tests hold them equal to
the objects they describe.
"""

from __future__ import annotations

from typing import Any

MODES = ("hybrid", "vector", "keyword")
INTENTS = ("exact", "entity", "question", "temporal", "general")
MOST_RESULTS = 50
MOST_HOPS = 3
DIRECTIONS = ("both", "out", "in")

# Not docstrings: from those FastMCP would pick out arguments, with a parser that costs a tenth of the start.
DESCRIPTIONS = {
    "search_notes": "Search the person's notes. Returns the best passage of each note with its path, heading"
    " and lines; passages marked (neighbor) stand before or after one of the first five. A question that"
    ' names a note ("Who was at the meetings about X?") also brings what is linked with it, and tells the'
    " way.",
    "graph_search": "Show which notes a note links to (→) and which link to it (←), up to three links away,"
    " each with how the text says the two are connected, where it does, and the sentence.",
    "list_topics": "List the vault's top-level folders with how many notes and chunks each holds.",
    "get_note": "Read one note whole, as it was indexed.",
}
USAGE = {
    "search_notes": 'search_notes(query, limit=10, mode="hybrid", folder="…", tags=["…"],'
    ' properties=["key=value"], after="2025-09-01", before="2025-09-30", intent="…",'
    ' boosts=["folder=1.5"], include_excluded=false)',
    "graph_search": 'graph_search(file_path, depth=1, include_content=false, relation=["…"],'
    ' direction="both")',
    "list_topics": "list_topics() without arguments",
    "get_note": "get_note(file_path)",
}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT = {"type": "string"}
_WHOLE = {"type": "integer"}
_LINE = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
_TEXT_OR_NONE = {"anyOf": [_TEXT, {"type": "null"}]}
_TEXTS = {"type": "array", "items": _TEXT}

LINK_STEP = _object(
    {
        "from_path": _TEXT,
        "to_path": _TEXT,
        "direction": _TEXT,
        "relation": _TEXT_OR_NONE,
        "sentence": _TEXT_OR_NONE,
        "source_path": _TEXT_OR_NONE,
        "line": _LINE,
    }
)
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
        "linked_by": {"type": "array", "items": LINK_STEP},
    }
)
SEARCH = _object(
    {
        "query": _TEXT,
        "mode": {"type": "string", "enum": list(MODES)},
        "intent": _TEXT,
        "results": {"type": "array", "items": HIT},
        "notices": _TEXTS,
        "create_safety": {"type": "string", "enum": ["exists", "probable", "unknown"]},
    }
)
EDGE = _object(
    {
        "file_path": _TEXT,
        "hop": _WHOLE,
        "direction": {"type": "string", "enum": ["out", "in"]},
        "from_path": _TEXT,
        "via": _TEXT,
        "preview": _TEXT_OR_NONE,
        "relation": _TEXT_OR_NONE,
        "sentence": _TEXT_OR_NONE,
    }
)
GRAPH = _object(
    {
        "file_path": _TEXT,
        "depth": _WHOLE,
        "edges": {"type": "array", "items": EDGE},
        "hops": {"type": "array", "items": _WHOLE},
        "total": _WHOLE,
        "notices": _TEXTS,
        "relations": _TEXTS,
        "direction": {"type": "string", "enum": list(DIRECTIONS)},
    }
)
TOPIC = _object({"name": _TEXT, "notes": _WHOLE, "chunks": _WHOLE})
TOPICS = _object({"topics": {"type": "array", "items": TOPIC}, "notices": _TEXTS})
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
