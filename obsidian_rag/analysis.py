"""Text -> the words that keyword search counts, the same for notes and queries.

PostgreSQL stems and drops stop words; this module decides what a word is before it does:

- diacritics are folded (`café` -> `cafe`), in Latin and Greek only: `й` and `が` are letters of their own;
- scripts without spaces become overlapping pairs of characters (`日本語` -> `日本 本語`), beside them each
  ideograph, the first syllable of a Korean word and each longer katakana word as a term of its own;
- emoji are terms;
- identifiers (`docker-compose.yml`, `snake_case`, `CamelCase`, `192.168.1.10`, `C++`) are found by part and
  whole: their parts are words, the whole is a term of its own that no stemmer touches.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import regex

LONGEST_TERM = 120  # characters; a longer run (a data URL, a key) is found by its parts only
LONGEST_NAME = 500  # characters of a heading, an alias, a tag; what is longer is a text

# Han, kana, Hangul and the scripts of mainland South-East Asia are written without spaces, or, as Hangul,
# with endings joined to words; pairs of characters serve all of them (Lucene's CJKAnalyzer does the same).
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
_RUN = regex.compile(rf"(?V1)[{_UNSPACED}][{_UNSPACED}\p{{M}}]*|[[\p{{L}}\p{{N}}\p{{M}}]--[{_UNSPACED}]]+")
_IS_UNSPACED = regex.compile(rf"[{_UNSPACED}]")


def _list_patterns(letter: str, lower: str, upper: str, digit: str) -> tuple[str, str, str]:
    """Patterns of compounds, of the places inside a word in CamelCase, and of such a word.

    Compounds are letters and digits joined by the signs that occur inside names of things, or followed by +
    or #. What begins where a run of letters does, and never goes back in it, reads a run of megabytes but
    once.
    """
    sign = letter + digit
    compound = (
        rf"(?<![{sign}_])"
        rf"(?:[{sign}_]++(?:(?:://|[-./\\:@#+&=?~%])[{sign}_]++)+|[{sign}_][{sign}]*+_[{sign}_]++)"
        r"(?:\+\+|\#)?"
        rf"|[{letter}][{sign}]{{0,{LONGEST_TERM}}}+(?:\+\+|\#)"
    )
    camel = rf"(?<=[{lower}])(?=[{upper}])|(?<=[{upper}])(?=[{upper}][{lower}])"
    return compound, camel, rf"(?<![{letter}])[{letter}]*?[{lower}][{upper}][{sign}]*+"


_COMPOUND, _CAMEL, _CAMEL_WORD = map(regex.compile, _list_patterns(r"\p{L}", r"\p{Ll}", r"\p{Lu}", r"\p{N}"))
# Most text is, once folded, written with ASCII letters; the standard library reads that three times as fast.
_PLAIN_COMPOUND, _PLAIN_CAMEL, _PLAIN_CAMEL_WORD = map(
    re.compile, _list_patterns("A-Za-z", "a-z", "A-Z", "0-9")
)
_PLAIN_RUN = re.compile("[A-Za-z0-9]+")
_PIECES = regex.compile(r"://|[/\\:@#&=?~%]")
_IDEOGRAPH = regex.compile(r"\p{Han}")
# A Korean word of one syllable is written together with its ending.
_HANGUL_START = regex.compile(r"(?<!\p{Hangul})\p{Hangul}(?=\p{Hangul})")
_KATAKANA_WORD = regex.compile(r"[\p{Katakana}ー]{3,}")
# Pairs of hiragana alone are nearly always endings and particles: stop words of a query that has others.
_HIRAGANA = regex.compile(r"\p{Hiragana}+")
_HANGUL_SYLLABLE = regex.compile(r"\p{Hangul}")
_PICTURE = regex.compile(r"\p{Extended_Pictographic}(?<![\p{N}©®™#*])")
# Letters that no decomposition folds.
_SPECIAL = {
    "ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "đ": "d", "Đ": "D",
    "ł": "l", "Ł": "L", "ħ": "h", "Ħ": "H", "ı": "i", "ð": "d", "Ð": "D", "þ": "th", "Þ": "Th", "ŧ": "t",
    "ё": "е", "Ё": "Е",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Terms:
    """The words of a text, in order and separated by spaces for PostgreSQL's parser, and the terms that go
    beside it as they are: wholes of identifiers, ideographs, katakana words, folded and in lower case.
    """

    words: str
    wholes: tuple[str, ...]

    @property
    def key(self) -> str:
        """The words in lower case: equal for two spellings of one name."""
        return self.words.lower()


def analyze(text: str) -> Terms:
    """Words and wholes of a text. Linear in its length."""
    folded = fold(text)
    if _is_plain(folded):
        return _analyze_plain(folded)
    compounds, camel_words = _find_wholes(folded, _COMPOUND, _CAMEL_WORD)
    wholes = dict.fromkeys((*compounds, *camel_words, *_PICTURE.findall(folded)))
    if _IS_UNSPACED.search(folded):
        wholes.update(dict.fromkeys(_IDEOGRAPH.findall(folded)))
        wholes.update(dict.fromkeys(_HANGUL_START.findall(folded)))
        wholes.update(dict.fromkeys(w for w in _KATAKANA_WORD.findall(folded) if len(w) <= LONGEST_TERM))
    words = " ".join(word for run in _RUN.findall(_CAMEL.sub(" ", folded)) for word in _split_run(run))
    return Terms(words, tuple(wholes))


def _analyze_plain(folded: str) -> Terms:
    """No pattern reaches over a blank, and most of what stands between two blanks was read before."""
    read = [
        _read_token(token) if len(token) <= LONGEST_TERM else _split_token(token) for token in folded.split()
    ]
    words = " ".join([part[0] for part in read if part[0]])
    joined = [part for part in read if len(part) > 1]
    wholes = dict.fromkeys(whole for part in joined for whole in part[1])
    wholes.update(dict.fromkeys(whole for part in joined for whole in part[2]))
    return Terms(words, tuple(wholes))


def _split_token(token: str) -> tuple[str] | tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Of what stands between two blanks the words, and where it has any, compounds and words in CamelCase."""
    compounds, camel_words = _find_wholes(token, _PLAIN_COMPOUND, _PLAIN_CAMEL_WORD)
    words = " ".join(_PLAIN_RUN.findall(_PLAIN_CAMEL.sub(" ", token)))
    return (words, compounds, camel_words) if compounds or camel_words else (words,)


_read_token = lru_cache(maxsize=1 << 16)(_split_token)


def _find_wholes(folded: str, compound: Any, camel_word: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    compounds = tuple(whole for match in compound.finditer(folded) for whole in _list_wholes(match.group()))
    camel_words = (match.group() for match in camel_word.finditer(folded))
    return compounds, tuple(word.lower() for word in camel_words if len(word) <= LONGEST_TERM)


def _is_plain(folded: str) -> bool:
    """Whether all letters, digits and marks of a text are ASCII, and it has no emoji."""
    return folded.isascii() or all(map(_is_plain_sign, set(folded)))


@cache
def _is_plain_sign(sign: str) -> bool:
    return sign.isascii() or not (unicodedata.category(sign)[0] in "LNM" or _PICTURE.match(sign))


def analyze_query(text: str) -> Terms:
    """Words and wholes of a query: as `analyze`, without pairs of hiragana where there are other terms, and
    without the first syllables of longer Korean words.
    """
    terms = analyze(text)
    if text.isascii():
        return terms
    terms = Terms(terms.words, tuple(w for w in terms.wholes if not _HANGUL_SYLLABLE.fullmatch(w)))
    kept = [word for word in terms.words.split(" ") if not _HIRAGANA.fullmatch(word)]
    return Terms(" ".join(kept), terms.wholes) if kept or terms.wholes else terms


def list_keys(name: str) -> tuple[str, ...]:
    """The keys of a name: its words, and where they are run together as well its words as they are written,
    so that `GitHub` is found by `github` and `MeetingNotes` by `meeting notes`.
    """
    folded = fold(name)
    if folded.isascii():
        words = _PLAIN_RUN.findall(folded)
    else:
        words = [word for run in _RUN.findall(folded) for word in _split_run(run)]
    return tuple(dict.fromkeys(key for key in (analyze(name).key, " ".join(words).lower()) if key))


def is_unspaced(text: str) -> bool:
    """Whether a text has signs of a script that is written without spaces."""
    return _IS_UNSPACED.search(text) is not None


def list_pieces(word: str) -> list[tuple[int, int]]:
    """The parts of a word that the index has as words, as [first, last): itself, but in scripts without
    spaces its pairs of characters.
    """
    if not _IS_UNSPACED.search(word):
        return [(0, len(word))]
    pieces: list[tuple[int, int]] = []
    for run in _RUN.finditer(word):
        first, last = run.span()
        if _IS_UNSPACED.match(run.group()) and last - first > 1:
            pieces += [(at, at + 2) for at in range(first, last - 1)]
        else:
            pieces.append((first, last))
    return pieces


def strip_extension(file_path: str) -> str:
    """A note's path without `.md`, for its words."""
    return file_path[:-3] if file_path.lower().endswith(".md") else file_path


def list_trigrams(key: str) -> list[str]:
    """The trigrams of a key's words, each padded as pg_trgm pads it: two blanks before, one after."""
    padded = [f"  {word} " for word in key.split()]
    return sorted({word[at : at + 3] for word in padded for at in range(len(word) - 2)})


def fold(text: str) -> str:
    """Text in compatibility form without the diacritics of Latin and Greek."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text).translate(_folding())


@cache
def _folding() -> dict[int, str]:
    table = {ord(letter): plain for letter, plain in _SPECIAL.items()}
    ranges = ((0x00C0, 0x0250), (0x0370, 0x0400), (0x1E00, 0x2000))
    for code in (code for first, last in ranges for code in range(first, last)):
        decomposed = unicodedata.normalize("NFD", chr(code))
        if len(decomposed) > 1:
            plain = (_SPECIAL.get(c, c) for c in decomposed if not unicodedata.combining(c))
            table.setdefault(code, "".join(plain))
    table.update(dict.fromkeys(range(0x0300, 0x0370), ""))
    return table


def _list_wholes(compound: str) -> Iterator[str]:
    """`bob@example.com/a` -> itself, `example.com`: a piece that is itself compound is a name too."""
    for piece in (compound, *_PIECES.split(compound)):
        if 1 < len(piece) <= LONGEST_TERM and not piece.isalnum():
            yield piece.lower().strip("._-")


def _split_run(run: str) -> Iterator[str]:
    if not _IS_UNSPACED.search(run):
        yield run
        return
    if len(run) == 1:
        yield run
    for at in range(len(run) - 1):
        yield run[at : at + 2]
