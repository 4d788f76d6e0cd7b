"""Notes that a plugin keeps its data in: which parts are data and which are the person's words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_FENCE = r"(?P<fence>`{3,}|~{3,})[ \t]*(?:compressed-json|json)[ \t]*\n.*?(?:\n(?P=fence)[ \t]*(?=\n|\Z)|\Z)"
# `# Drawing` and its fence, with the comment marks around them where they enclose nothing else.
_DRAWING = re.compile(
    rf"^(?:%%[ \t]*\n\s*)?(?:#{{1,6}} Drawing[ \t]*\n\s*){_FENCE}(?:\s*^%%[ \t]*$)?", re.MULTILINE | re.DOTALL
)
_COMPRESSED = re.compile(
    r"^(?P<fence>`{3,}|~{3,})[ \t]*compressed-json[ \t]*\n.*?(?:\n(?P=fence)[ \t]*(?=\n|\Z)|\Z)",
    re.MULTILINE | re.DOTALL,
)
_BANNER = re.compile(r"^==⚠.*EXCALIDRAW VIEW.*$", re.MULTILINE)
_BOARD_SETTINGS = re.compile(r"^%%[ \t]*kanban:settings.*?(?:^[ \t]*%%[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)


def find_plugin_data(
    text: str, body_start: int, properties: Mapping[str, Any]
) -> tuple[tuple[int, int], ...]:
    """Spans of a note's body, in order and apart, that hold an Excalidraw drawing or a Kanban's settings."""
    patterns: list[re.Pattern[str]] = []
    if "excalidraw-plugin" in properties:
        patterns += [_BANNER, _DRAWING, _COMPRESSED]
    if "kanban-plugin" in properties:
        patterns.append(_BOARD_SETTINGS)
    spans = sorted(match.span() for pattern in patterns for match in pattern.finditer(text, body_start))
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return tuple(merged)
