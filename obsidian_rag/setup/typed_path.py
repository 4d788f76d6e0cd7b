"""A path as people type or paste it: file managers and terminals hand it over as a word of the shell."""

from __future__ import annotations

import shlex

from obsidian_rag.config import is_folder, parse_vaults
from obsidian_rag.errors import ObsidianRagError

QUOTES = ("'", '"')


def read_typed_path(typed: str) -> str:
    """The path that is meant, as `VAULT_PATH` takes it: without quotes around it, and without the backslashes
    before blanks where that is what exists.
    """
    if _exists(typed):
        return typed
    try:
        words = shlex.split(typed)
    except ValueError:  # an apostrophe that is part of the name
        return typed
    if len(words) == 1 and (typed.startswith(QUOTES) or _exists(words[0])):
        return words[0]
    return typed


def _exists(value: str) -> bool:
    try:
        vaults = parse_vaults(value)
    except ObsidianRagError:
        return False
    return bool(vaults) and all(is_folder(vault.root) for vault in vaults)
