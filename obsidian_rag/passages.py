"""The part of a chunk that is shown: around the words that were asked for, and these in bold.

Words are matched without the database: folded as keyword search folds them, and as forms of one word where
they begin alike. A mark is a help to the eye and no claim about the ranking, so that a wrong one does no
harm; to ask the stemmer of each note's language would cost a statement for every answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from obsidian_rag.analysis import analyze_query, fold
from obsidian_rag.tokens import count_fitting

MOST_MARKS = 12  # of a passage: more of them mark nothing
CUT = "…"
BEFORE = 6  # part of a passage that stands before the first of the words
LEAST_STEM = 4  # letters that two forms of a word share at least
SHARED = 0.55  # and how much of the longer one: driving, drive
# Words of more than three letters by which nothing is found; shorter ones in lower case count as such too.
_FILLER_WORDS = """
about after also been before being both could does each ever every from have having here into just like
made make many more most much must only other over said same should some such than that their them then
there these they this those through under upon very want were what when where which while whom whose will
with within without would your
aber alle auch beim dass dein denn diese dieser dieses doch durch eine einem einen einer eines habe haben kann
mein mich nach nicht noch oder ohne sein sich sind uber unter viel wann waren warum welche welcher wenn werden
wird wurde wurden
avec cette comme dans elle elles mais nous plus pour quand quel quelle sans sont tous tout tres votre vous
como cuando desde donde entre esta este estos hasta para pero porque sobre tiene todo todos
"""
_FILLERS = frozenset(_FILLER_WORDS.split())
_WORD = re.compile(r"\w+")
_SIGN = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff]"
)
# What a mark must not stand in: it would break code, formulas, links and addresses, or be read as two marks
# in what is bold or italic already. A fence that is not closed reaches to the end.
_SIGNS = r"[`~\-$%!\[<*_=#\\]"  # with which one of these begins, so that most places are passed by at once
_KEPT = (
    r"^(?P<fence>```+|~~~+)[^\n]*\n.*?(?:^(?P=fence)[^\n]*$|\Z)"
    r"|^---\n.*?^---$"
    r"|(?<!`)(?P<ticks>`++)(?:(?!\n\n).){1,500}?(?<!`)(?P=ticks)(?!`)"
    r"|\$\$.*?\$\$|\$[^\s$](?:[^$\n]*[^\s$])?\$(?!\d)"
    r"|%%.*?%%"
    r"|!?\[\[[^\[\]\n]*\]\]|!?\[[^\[\]\n]*\]\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)|^\[[^\]\n]+\]:.*$"
    r"|<[a-zA-Z/!][^<>\n]{0,500}>"
    r"|\*\*\*?(?=\S)[^*\n]*\*\*\*?|(?<![\w*])\*(?=\S)[^*\n]+\*(?![\w*])|(?<!\w)__?(?=\S)[^\n]*?\S__?(?!\w)"
    r"|==[^=\n]+==|(?<!\w)\#[\w/-]+|\\."
)
_ADDRESS = r"(?<![a-zA-Z])[a-zA-Z][a-zA-Z0-9+.-]*+://\S+|www\.\S+"
_KEPT_SIGNS = re.compile(rf"(?={_SIGNS})(?:{_KEPT})", re.MULTILINE | re.DOTALL)
_KEPT_ADDRESSES = re.compile(rf"(?={_SIGNS})(?:{_KEPT})|{_ADDRESS}", re.MULTILINE | re.DOTALL)
_ENDS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"(?<=[.!?。！？])\s*"), re.compile(r"\s+"))


@dataclass(frozen=True)
class Wanted:
    """What is looked for in passages: words in folded form, and pairs of signs of scripts without spaces."""

    words: frozenset[str] = frozenset()
    pairs: frozenset[str] = frozenset()
    # What was found of words seen before: an answer's passages hold the same ones again and again.
    _forms: dict[str, str | None] = field(default_factory=dict, compare=False, repr=False)

    def __bool__(self) -> bool:
        return bool(self.words or self.pairs)

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Where the words stand in a text: (first, last, which word)."""
        forms = self._forms
        for match in (self._ascii_words if text.isascii() else _WORD).finditer(text):
            word = match.group()
            if self.pairs and _SIGN.search(word):
                yield from self._find_pairs(word, match.start())
                continue
            if word not in forms:
                forms[word] = self._match(fold(word).lower())
            if meant := forms[word]:
                yield match.start(), match.end(), meant

    @cached_property
    def _ascii_words(self) -> re.Pattern[str]:
        """What finds the words of a text in ASCII, where nothing is folded, that may be looked for."""
        starts = sorted(start for start in self._starts if start.isascii())
        return re.compile(rf"\b(?:{'|'.join(map(re.escape, starts)) or '(?!)'})\w*", re.ASCII | re.IGNORECASE)

    @cached_property
    def _starts(self) -> dict[str, list[str]]:
        """The words by how they begin."""
        starts: dict[str, list[str]] = {}
        for word in sorted(self.words):
            starts.setdefault(word[:LEAST_STEM], []).append(word)
        return starts

    def _match(self, word: str) -> str | None:
        if word in self.words:
            return word
        if len(word) < LEAST_STEM or word in _FILLERS:
            return None
        alike = self._starts.get(word[:LEAST_STEM], ())
        return next((wanted for wanted in alike if _are_forms(word, wanted)), None)

    def _find_pairs(self, run: str, start: int) -> Iterator[tuple[int, int, str]]:
        covered: list[int] = []
        for at in range(len(run) - 1):
            if run[at : at + 2] in self.pairs:
                covered += [at, at + 1]
        first = None
        places = sorted(set(covered))
        for number, at in enumerate(places):
            first = at if first is None else first
            if number + 1 == len(places) or places[number + 1] != at + 1:
                yield start + first, start + at + 1, run[first : at + 1]
                first = None


def _are_forms(one: str, other: str) -> bool:
    shared = max(LEAST_STEM, math.ceil(SHARED * max(len(one), len(other))))
    if min(len(one), len(other)) < shared or not (one.isalpha() and other.isalpha()):
        return False
    return one[:shared] == other[:shared]


def read_wanted(query: str) -> Wanted:
    """What of a query is worth a mark: not what every text holds, nor what must not be there."""
    kept = re.sub(r'(?<!\S)-(?:"[^"]*"|\w\S*)', " ", query)
    words: set[str] = set()
    pairs: set[str] = set()
    shouted = {fold(word).lower() for word in _WORD.findall(kept) if word.isupper() and len(word) > 1}
    for word in analyze_query(kept).words.split():
        low = word.lower()
        if _SIGN.search(word):
            pairs.add(word)
        elif low in _FILLERS:
            continue
        elif len(low) > 3 or low in shouted or any(sign.isdigit() for sign in low) or not low.isascii():
            words.add(low)
    return Wanted(frozenset(words), frozenset(pairs))


def mark(text: str, wanted: Wanted) -> str:
    """The text with the words that are looked for in bold, where that breaks nothing."""
    found = list(wanted.find(text)) if wanted else []
    if not found:
        return text
    pattern = _KEPT_ADDRESSES if "://" in text or "www." in text else _KEPT_SIGNS
    kept = [match.span() for match in pattern.finditer(text)]
    pieces: list[str] = []
    done = marks = number = 0
    for first, last, _ in found:
        while number < len(kept) and kept[number][1] <= first:
            number += 1
        if number < len(kept) and kept[number][0] < last:
            continue
        if text[first - 1 : first] in ("*", "_", "\\") or text[last : last + 1] in ("*", "_"):
            continue
        pieces += [text[done:first], "**", text[first:last], "**"]
        done = last
        marks += 1
        if marks == MOST_MARKS:
            break
    return "".join([*pieces, text[done:]])


def clip(text: str, wanted: Wanted, tokens: int) -> str:
    """At most about so many tokens of a text, those around most of what is looked for, else its beginning;
    cut between paragraphs, lines, sentences or words, and said by an ellipsis.
    """
    text = text.strip()
    room = count_fitting(text, tokens)
    if room >= len(text):
        return text
    first, last = _find_window(list(wanted.find(text)), room)
    start = min(max(0, first - room // BEFORE), max(0, len(text) - room))
    end = min(len(text), start + count_fitting(text, tokens, start))
    start = _step_in(text, start, first) if start else 0
    end = _step_back(text, max(last, end - room // 4), end) if end < len(text) else end
    return f"{CUT if start else ''}{text[start:end].strip()}{CUT if end < len(text) else ''}"


def _find_window(places: Sequence[tuple[int, int, str]], room: int) -> tuple[int, int]:
    """The first and the last sign of the words to show: those that are most different ones, then most, among
    so many characters; the first such.
    """
    room -= 2 * room // BEFORE
    best, window = (0, 0), (0, 0)
    first = 0
    counts: dict[str, int] = {}
    for number, (_, last, word) in enumerate(places):
        counts[word] = counts.get(word, 0) + 1
        while last - places[first][0] > room and first < number:
            left = places[first][2]
            counts[left] -= 1
            if not counts[left]:
                del counts[left]
            first += 1
        value = (len(counts), number - first + 1)
        if value > best:
            best, window = value, (places[first][0], last)
    return window


def _step_in(text: str, start: int, latest: int) -> int:
    """The first good place to begin at, not after `latest`."""
    for pattern in _ENDS:
        if found := pattern.search(text, start, latest):
            return found.end()
    return start


def _step_back(text: str, earliest: int, end: int) -> int:
    """The last good place to end at, not before `earliest`."""
    for pattern in _ENDS:
        if found := [match.start() for match in pattern.finditer(text, earliest, end)]:
            return found[-1]
    return end
