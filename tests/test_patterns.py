"""The expressions of the program on every Python that it runs on."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import obsidian_rag

# Before 3.11.5 a possessive repetition of a group that can go back loses matches (CPython issue 106052).
_POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{[\d,]+\})\+|\(\?>")


def list_patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Every expression of the standard library that a module holds, with where."""
    for info in pkgutil.walk_packages(obsidian_rag.__path__, "obsidian_rag."):
        if info.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(info.name)).items():
            found = value if isinstance(value, tuple | list) else (value,)
            yield from ((f"{info.name}.{name}", item) for item in found if isinstance(item, re.Pattern))


def test_no_expression_repeats_a_group_in_a_way_that_some_pythons_get_wrong() -> None:
    patterns = list(list_patterns())
    assert len(patterns) > 60
    assert [place for place, pattern in patterns if _POSSESSIVE_GROUP.search(str(pattern.pattern))] == []


def test_such_an_expression_is_found() -> None:
    assert all(map(_POSSESSIVE_GROUP.search, ("(?:a|b)++", "(a*b)*+c", "(a)?+", "(?:a){2,3}+", "(?>a|b)")))
    assert not any(map(_POSSESSIVE_GROUP.search, (r"[^\]]++", r"\)++", "(?:a++|b)+c", r"(a)\+")))
