"""Numbers in sentences: one note, two notes."""

from __future__ import annotations


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with what it counts: `1 note`, `2 notes`; `plural` where that is not the noun and an s."""
    return f"{number} {choose(number, noun, plural or f'{noun}s')}"


def choose(number: int, one: str, several: str) -> str:
    """The word that fits a number, as `is` or `are`."""
    return one if number == 1 else several
