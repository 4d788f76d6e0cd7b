"""The vault's own list of excluded files (Settings, "Files and links")."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import regex

from obsidian_rag.models import Failure

# A vault may come from anybody, and an expression may take longer for a path than the world has been there.
PATIENCE = 1.0  # seconds for one path
MOST_SLOW = 5  # expressions that are waited for; after that none is asked any more
LARGEST = 1_000_000  # bytes of the vault's settings


class IgnoreRules:
    """Which paths a vault's `userIgnoreFilters` exclude: `/…/` is an expression, else a path's start.

    `slow` are failures of the file `name`: expressions that were given up, because a path took them too long.
    """

    def __init__(self, filters: Iterable[str] = (), name: str = "") -> None:
        """Raises regex.error for an expression that cannot be read."""
        self._patterns = {text: _compile(text) for text in filters if text}
        self._name = name
        self.slow: list[Failure] = []

    def exclude(self, path: str) -> bool:
        """Whether Obsidian hides the file from search."""
        if not self._patterns:
            return False
        path = unicodedata.normalize("NFC", path)
        return any(self._matches(text, path) for text in tuple(self._patterns))

    def _matches(self, text: str, path: str) -> bool:
        pattern = self._patterns.get(text)
        try:
            return pattern is not None and pattern.search(path, timeout=PATIENCE) is not None
        except TimeoutError:
            self.slow.append(_fail(self._name, f"the filter {text} takes too long for the note {path}"))
            too_many = len(self.slow) >= MOST_SLOW
            for expression in [t for t in self._patterns if _is_expression(t)] if too_many else [text]:
                del self._patterns[expression]
            return False


def _is_expression(text: str) -> bool:
    return len(text) > 2 and text.startswith("/") and text.endswith("/")


def _compile(text: str) -> regex.Pattern[str]:
    text = unicodedata.normalize("NFC", text)
    if _is_expression(text):
        # A group's name is written (?<name>…) in JavaScript.
        return regex.compile(re.sub(r"\(\?<(?![=!])", "(?P<", text[1:-1]), regex.IGNORECASE)
    return regex.compile("^" + re.escape(text), regex.IGNORECASE)


def read_ignore_rules(root: Path) -> tuple[IgnoreRules | None, list[Failure]]:
    """The rules of a vault, None where they cannot be read; and why, or which of them cannot be used."""
    try:
        file = _find_settings(root)
    except OSError as error:  # the folder, or the vault itself, is closed to us
        return None, [_fail(".obsidian/app.json", str(error))]
    if file is None:
        return IgnoreRules(), []
    name = file.relative_to(root).as_posix()
    try:
        if not file.is_file():  # a pipe would be waited for
            raise OSError("it is no file, or a link that leads nowhere")
        if file.stat().st_size > LARGEST:
            raise OSError(f"it has more than {LARGEST:,} bytes")
        settings = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        return None, [_fail(name, str(error))]
    filters = settings.get("userIgnoreFilters") if isinstance(settings, dict) else None
    kept, failures = [], []
    for text in filters if isinstance(filters, list) else []:
        if not isinstance(text, str):
            continue
        try:
            _compile(text)
        except (regex.error, RecursionError, MemoryError, OverflowError) as error:
            failures.append(_fail(name, f"the filter {text} cannot be used: {error}"))
        else:
            kept.append(text)
    return IgnoreRules(kept, name), failures


def _fail(name: str, reason: str) -> Failure:
    message = f"Excluded files could not be told: {reason}. Mend them in Obsidian under Files and links."
    return Failure(name, "walk", message)


def _find_settings(root: Path) -> Path | None:
    """`.obsidian/app.json`; a vault may call the folder otherwise, but always with a dot.

    Raises OSError where it cannot be told whether the file is there.
    """
    usual = root / ".obsidian"
    if usual.is_dir():
        file = usual / "app.json"
        return file if _is_there(file) else None
    try:
        others = sorted(folder for folder in root.iterdir() if folder.name.startswith("."))
    except OSError:
        return None
    return next((folder / "app.json" for folder in others if (folder / "app.json").is_file()), None)


def _is_there(file: Path) -> bool:
    """Whether a file is there, also one that cannot be read. Raises OSError where that cannot be told."""
    try:
        file.lstat()
    except FileNotFoundError:
        return False
    return True
