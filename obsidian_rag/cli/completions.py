"""What a shell offers where an argument begins. Quick, and silent where it fails."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

PROGRAM = "obsidian-rag"
VARIABLE = "_OBSIDIAN_RAG_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
PATIENCE = 1.0  # seconds to look through the vault
MOST = 200
_SPECIAL = re.compile(r"([^\w@%+=:,./-])")


@add_completion_class
class QuotingBash(BashComplete):
    """Click's own, but what is offered stays one word: names of notes have blanks."""

    source_template = BashComplete.source_template.replace(" read type ", " read -r type ")

    def format_completion(self, item: CompletionItem) -> str:
        words = os.environ.get("COMP_WORDS", "")
        if not _ends_in_quotes(words):  # inside of quotes bash takes it as it is
            item = CompletionItem(_SPECIAL.sub(r"\\\1", str(item.value)), item.type)
        return super().format_completion(item)


def _ends_in_quotes(words: str) -> bool:
    last = words.rsplit("\n", 1)[-1]
    return last[:1] in ("'", '"')


def offer(*choices: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Offers words of a list."""
    return lambda context, parameter, typed: [word for word in choices if word.startswith(typed)]


mode_option = click.option(
    "--mode",
    default="hybrid",
    show_default=True,
    shell_complete=offer("hybrid", "vector", "keyword"),
    help="hybrid, vector or keyword.",
)


def complete_notes(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """Offers the notes of the vault whose path, or file name, begins as was typed, whatever its case. From
    the disk: a database may be slow to answer, or asleep.
    """
    with suppress(Exception):
        folded = typed.casefold()
        fitting = (
            path
            for path in _list_notes(context)
            if path.casefold().startswith(folded)
            or ("/" not in folded and path.rpartition("/")[2].casefold().startswith(folded))
        )
        return sorted(islice(fitting, MOST))
    return []


def _list_notes(context: click.Context) -> Iterator[str]:
    from obsidian_rag.config import NAMES, load_settings

    flags = {name: context.params.get(name.lower()) for name in NAMES}
    end = time.monotonic() + PATIENCE
    for vault in load_settings(os.environ, flags, Path.cwd()).vaults:
        for folder, folders, files in os.walk(vault.root):
            if time.monotonic() > end:
                return
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            below = Path(folder).relative_to(vault.root)
            for name in files:
                path = vault.prefix + (below / name).as_posix()
                if name.lower().endswith(".md") and path.isprintable():
                    yield path
