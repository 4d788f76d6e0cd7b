"""How this program is called: by its name where the shell finds that, else by its path.

Messages say `obsidian-rag COMMAND`; those that a person reads at a terminal name it as it can be typed there.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from obsidian_rag.screen.safety import show_text

NAME = "obsidian-rag"
COMMANDS = (
    "init", "index", "serve", "demo", "completion", "search", "note", "graph", "topics", "web", "status",
    "doctor", "diagnose", "eval", "psql",
)  # fmt: skip
# Only before a command's name, and nowhere inside a path: the program's name in a sentence, or in a note's
# name, is no command.
_COMMAND = re.compile(rf"(?<![\w./-]){NAME}(?= (?:{'|'.join(COMMANDS)})(?!\w|[./-]\w))")


def find_program() -> str:
    """How this program is called from any folder, for a shell."""
    beside = _find_beside()
    return f"{shlex.quote(sys.executable)} -m obsidian_rag" if beside is None else shlex.quote(str(beside))


def name_program() -> str:
    """How this program is called from the working folder, for a shell: as briefly as it can be typed."""
    beside = _find_beside()
    found = shutil.which(NAME)
    if beside is None:
        return NAME if found else find_program()
    if found and os.path.realpath(found) == os.path.realpath(beside):
        return NAME
    here = Path.cwd()
    return shlex.quote(f"./{beside.name}" if beside.parent == here else _shorten(beside, here))


def spell_commands(text: str) -> str:
    """A message in which `obsidian-rag COMMAND` is written as it can be typed in the working folder."""
    if _COMMAND.search(text) is None:
        return text
    program = name_program()
    return _COMMAND.sub(lambda _: program, text)


def show_message(text: str) -> str:
    """A message as a person reads it at a terminal: its commands can be typed there, and the terminal obeys
    nothing in it.
    """
    return show_text(spell_commands(text))


def _find_beside() -> Path | None:
    beside = Path(sys.executable).with_name(NAME)
    return beside if beside.exists() else None


def _shorten(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)
