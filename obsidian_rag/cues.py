"""The words of a sentence that say relations, and whether they mean it: what is denied, left open or asked
says nothing, nor does what somebody related has: `her brother's dog`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from obsidian_rag.relations import IDIOM, NOTE_WORD, Cue, Phrases, Table, fold_words

_CLAUSE = r"[,;:—–|()，、；：]|\b(?:and|while|but|whereas|which|who)\b"
_CLAUSE_END = re.compile(_CLAUSE, re.IGNORECASE)
# What a denial does not reach beyond: `not seen since she founded it`.
_DENIAL_END = re.compile(
    rf"{_CLAUSE}|\b(?:since|when|after|until|because|although|though|where)\b", re.IGNORECASE
)
DENIES_WORDS = 4  # words at most between a denial and the words of a relation
DENIES_LINK = 3  # and between it and a link: `founded Acme, but not [[Bolt]]`
_QUESTION = re.compile(r"[?？؟][\s\"'”’»*_」』]*$")


@dataclass(frozen=True)
class Words:
    """The words of a text: as phrases have them, where each starts and ends, which of them are of links."""

    text: str
    folded: Sequence[str]
    starts: Sequence[int]
    ends: Sequence[int]
    linked: frozenset[int]

    @cached_property
    def clauses(self) -> Sequence[int]:
        """Where clauses end."""
        return [match.start() for match in _CLAUSE_END.finditer(self.text)]

    def count_clauses(self, first: int, last: int) -> int:
        """The ends of clauses in text[first:last]."""
        return bisect_left(self.clauses, last) - bisect_left(self.clauses, first)


def read_words(text: str, spans: Iterable[tuple[int, int]] = ()) -> Words:
    """The words of a text with links at text[first:last]."""
    tokens = list(NOTE_WORD.finditer(text))
    starts = [token.start() for token in tokens]
    linked = {
        at for first, last in spans for at in range(bisect_left(starts, first), bisect_left(starts, last))
    }
    return Words(
        text,
        fold_words(token.group() for token in tokens),
        starts,
        [token.end() for token in tokens],
        frozenset(linked),
    )


def find_cues(phrases: Phrases, words: Words, table: Table) -> tuple[list[Cue], list[Cue]]:
    """The words outside of links that say a relation and mean it; and those that deny what follows them, or
    leave it open.
    """
    cues = _find_free(phrases, words)
    if not cues:
        return [], []
    denials = [denial for denial in _find_free(table.denied, words) if not _is_of_title(denial.first, words)]
    meant = [
        cue
        for cue in cues
        if not _is_possessive(cue, words)
        and not any(is_denied(cue.first, words.starts[cue.first], denial, words) for denial in denials)
    ]
    return meant, denials


def is_denied(at: int, start: int, denial: Cue, words: Words, most: int = DENIES_WORDS) -> bool:
    """Whether a denial holds for what starts there, with the word `at`: it stands before it in its clause,
    with `most` words between.
    """
    near = 0 <= at - denial.last <= most
    return near and not _DENIAL_END.search(words.text, words.ends[denial.last - 1], start)


def is_question(text: str) -> bool:
    """Whether a sentence asks."""
    return _QUESTION.search(text) is not None


def _find_free(phrases: Phrases, words: Words) -> list[Cue]:
    found = phrases.find(words.folded)
    free = [cue for cue in found if words.linked.isdisjoint(range(cue.first, cue.last))]
    return [cue for cue in _keep_longest(free) if cue.name != IDIOM]


def _keep_longest(cues: Iterable[Cue]) -> list[Cue]:
    """Cues without those inside a longer one: `board member` says nothing of members."""
    kept: list[Cue] = []
    for cue in sorted(cues, key=lambda cue: (cue.first, -cue.last)):
        longer = kept[-1] if kept else cue
        if cue.last > longer.last or (cue.first, cue.last) == (longer.first, longer.last):
            kept.append(cue)
    return kept


def _is_possessive(cue: Cue, words: Words) -> bool:
    """Whether the words of a relation only say whose something is; somebody's name is no such thing."""
    last, end = words.folded[cue.last - 1], words.ends[cue.last - 1]
    has_mark = last.endswith("'s") or (last.endswith("s") and words.text[end : end + 1] in ("'", "’"))
    return has_mark and "name" not in words.folded[cue.last : cue.last + 2]


def _is_of_title(at: int, words: Words) -> bool:
    """Whether a word is of a title or a name: it begins with a capital where no clause does."""
    start = words.starts[at]
    word = words.text[start : words.ends[at]]
    return (
        word[0].isupper()
        and not word.isupper()
        and at > 0
        and not words.count_clauses(words.ends[at - 1], start)
    )
