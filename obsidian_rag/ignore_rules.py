"""The vault's own list of excluded files (Settings, "Files and links")."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import regex

from obsidian_rag.models import Failure


class IgnoreRules:
    """Which paths a vault's `userIgnoreFilters` exclude: `/…/` is an expression, else a path's start."""

    def __init__(self, filters: Iterable[str] = ()) -> None:
        """Raises re.error for an expression that cannot be read."""
        self._patterns = [_compile(text) for text in filters if text]

    def exclude(self, path: str) -> bool:
        """Whether Obsidian hides the file from search."""
        if not self._patterns:
            return False
        path = unicodedata.normalize("NFC", path)
        return any(pattern.search(path) for pattern in self._patterns)


def _compile(text: str) -> re.Pattern[str] | regex.Pattern[str]:
    text = unicodedata.normalize("NFC", text)
    if len(text) > 2 and text.startswith("/") and text.endswith("/"):
        # A group's name is written (?<name>…) in JavaScript.
        expression = re.sub(r"\(\?<(?![=!])", "(?P<", text[1:-1])
        try:
            return re.compile(expression, re.IGNORECASE)
        except re.error:  # JavaScript knows more forms, a look-behind of any length among them
            return regex.compile(expression, regex.IGNORECASE)
    return re.compile("^" + re.escape(text), re.IGNORECASE)


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
        except (re.error, regex.error) as error:
            failures.append(_fail(name, f"the filter {text} cannot be used: {error}"))
        else:
            kept.append(text)
    return IgnoreRules(kept), failures


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
