"""Asking a person at the terminal, or taking the usual answer where nobody is to be asked."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import click

from obsidian_rag.errors import SettingsError
from obsidian_rag.program import show_message
from obsidian_rag.screen.safety import show_text

ANSWERS = {"yes": True, "y": True, "no": False, "n": False}


@dataclass(frozen=True, slots=True)
class Talk:
    """`asks` tells whether there is somebody to ask. Ctrl-C and the end of the input stop the program as an
    interrupt does.
    """

    asks: bool

    def say(self, text: str = "") -> None:
        click.echo(show_message(text))

    def title(self, text: str) -> None:
        click.echo()
        click.secho(text, bold=True)

    def confirm(self, question: str, *, usual: bool = True) -> bool:
        """A yes or no; the usual answer where nobody is asked."""
        if not self.asks:
            return usual
        try:
            answer = click.prompt(
                question,
                default="yes" if usual else "no",
                show_default=False,
                prompt_suffix=" [Y/n]: " if usual else " [y/N]: ",
                value_proc=_read_answer,
            )
            return bool(answer)
        except click.Abort as exc:
            raise KeyboardInterrupt from exc

    def ask(self, question: str, usual: str | None = None) -> str:
        """A line of text. Only where somebody is to be asked."""
        try:
            return str(click.prompt(question, default=usual)).strip()
        except click.Abort as exc:
            raise KeyboardInterrupt from exc


def _read_answer(text: str) -> bool:
    answer = text.strip().lower()
    if answer not in ANSWERS:
        raise click.UsageError(f"{show_text(text.strip())!r} is no answer to this; type yes or no.")
    return ANSWERS[answer]


def open_talk(yes: bool) -> Talk:
    """Raises SettingsError where questions are wanted and there is no terminal to ask them at."""
    if not yes and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise SettingsError(
            "There is no terminal to ask at",
            "Say what you want: obsidian-rag init --vault /path/to/vault --yes, with --no-index to index"
            " later and --client NAME to connect a client.",
        )
    return Talk(not yes)
