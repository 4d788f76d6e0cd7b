"""What links can say: one table of relations with their words, `bundled/relations.toml`, to which a person's
own file adds, and how its phrases are found among the words of a text or a question.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from obsidian_rag.errors import SettingsError

# Raise when the way that links are typed changes; with the table it tells which rules typed an index.
TYPING_VERSION = 3

# The words of questions.
WORD = re.compile(r"1:1|[^\W_]+(?:[-'’.&][^\W_]+)*")
# The words of notes: of scripts without spaces (Thai, Lao, Tibetan, Burmese, Khmer, kana, ideographs) each
# character is one, and a phrase is a row of them.
_UNSPACED = (
    "\u0e00-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_LETTER = rf"[^\W_{_UNSPACED}]"
NOTE_WORD = re.compile(rf"1:1|[{_UNSPACED}]|{_LETTER}+(?:[-'’.&]{_LETTER}+)*")
# What phrases are called that say no relation; none can have such a name.
DENIAL, IDIOM = "-denial", "-idiom"
_NAME = re.compile(r"(?:(?![A-Z])[^\W_])+(?:_(?:(?![A-Z])[^\W_])+)*")

# What a row of each table may have; the lists are one row each.
_TABLES = {
    "relations": ("words", "labels", "asks", "means", "seeds", "between", "implied", "replace"),
    "kinds": ("words", "places", "replace"),
}
_LISTS = ("sharing", "denials", "idioms", "plain")


@dataclass(frozen=True, slots=True)
class Relation:
    """A row of the table: the words that say it in a text, those that only ask for it, what follows from it
    (relation -> how surely), phrases that a question is compared with, the pairs of kinds that it connects,
    how far it is meant where only a kind is said, and the words that say it as a label or a heading only.
    """

    name: str
    words: tuple[str, ...]
    asks: tuple[str, ...] = ()
    means: Mapping[str, float] = field(default_factory=dict)
    seeds: tuple[str, ...] = ()
    between: tuple[tuple[str, str], ...] = ()
    implied: float = 0.0
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of note: what questions call it, and the folders, tags and types that hold such notes."""

    name: str
    words: tuple[str, ...]
    places: frozenset[str]


@dataclass(frozen=True, slots=True)
class Cue:
    """Words [first, last) of a text that say `name`."""

    name: str
    first: int
    last: int


def fold_words(words: Iterable[str]) -> list[str]:
    """Words as phrases have them: in lower case, with a straight apostrophe."""
    return [word.lower().replace("’", "'") for word in words]


class Phrases:
    """Finds phrases, given as (phrase, name), among words; `*` at the end of a word stands for any ending.

    `word` is what a word is, for the phrases as for the text that they are looked for in.
    """

    def __init__(self, phrases: Iterable[tuple[str, str]], word: re.Pattern[str] = WORD) -> None:
        part = _make_part(word)
        self._exact: defaultdict[str, list[tuple[tuple[str, ...], str]]] = defaultdict(list)
        self._stems: defaultdict[str, list[tuple[tuple[str, ...], str]]] = defaultdict(list)
        for phrase, name in phrases:
            words = tuple(fold_words(part.findall(phrase)))
            first = words[0]
            if first.endswith("*"):
                self._stems[first[:-1][:3]].append((words, name))
            else:
                self._exact[first].append((words, name))
        self._lengths = sorted({len(stem) for stem in self._stems})

    def find(self, words: Sequence[str]) -> list[Cue]:
        """Every phrase in the words, in order; of one name none inside a longer one."""
        cues: list[Cue] = []
        reached: dict[str, int] = {}  # up to where cues of a name reach
        for at, word in enumerate(words):
            begun = list(self._exact.get(word, ()))
            for length in self._lengths:
                begun += self._stems.get(word[:length], ())
            if not begun:
                continue
            here: dict[str, int] = {}
            for phrase, name in begun:
                if here.get(name, 0) < len(phrase) and _matches(phrase, words, at):
                    here[name] = len(phrase)
            for name, length in here.items():
                if at + length > reached.get(name, 0):
                    reached[name] = at + length
                    cues.append(Cue(name, at, at + length))
        return cues


def _make_part(word: re.Pattern[str]) -> re.Pattern[str]:
    return re.compile(rf"(?:{word.pattern})(?:\*(?!\S))?")


def _matches(phrase: tuple[str, ...], words: Sequence[str], at: int) -> bool:
    if at + len(phrase) > len(words):
        return False
    for offset, part in enumerate(phrase):
        word = words[at + offset]
        if not (word.startswith(part[:-1]) if part.endswith("*") else word == part):
            return False
    return True


@dataclass(frozen=True)
class Table:
    """The relations and kinds, the words for what is shared, and `plain` ones, which ask and bind and mean
    nothing by themselves. `denials` deny what a sentence goes on to say, or leave it open; in `idioms` the
    words of relations and denials mean something else. `digest` tells one table from another.
    """

    relations: Mapping[str, Relation]
    kinds: Mapping[str, Kind]
    sharing: tuple[str, ...]
    plain: frozenset[str]
    digest: bytes
    denials: tuple[str, ...] = ()
    idioms: tuple[str, ...] = ()

    @cached_property
    def pairs(self) -> Mapping[frozenset[str], tuple[str, ...]]:
        """The relations that connect two kinds."""
        found: defaultdict[frozenset[str], list[str]] = defaultdict(list)
        for relation in self.relations.values():
            for pair in relation.between:
                found[frozenset(pair)].append(relation.name)
        return {pair: tuple(names) for pair, names in found.items()}

    @cached_property
    def said(self) -> Phrases:
        """The words by which sentences say relations, and idioms."""
        words = [(word, r.name) for r in self.relations.values() for word in r.words]
        return Phrases([*words, *self._idioms], NOTE_WORD)

    @cached_property
    def labelled(self) -> Phrases:
        """The words by which labels and headings say relations, and idioms."""
        words = [(word, r.name) for r in self.relations.values() for word in (*r.words, *r.labels)]
        return Phrases([*words, *self._idioms], NOTE_WORD)

    @cached_property
    def denied(self) -> Phrases:
        """The words that deny what follows them, and idioms."""
        return Phrases([*((word, DENIAL) for word in self.denials), *self._idioms], NOTE_WORD)

    @property
    def _idioms(self) -> list[tuple[str, str]]:
        return [(phrase, IDIOM) for phrase in self.idioms]

    @cached_property
    def asked(self) -> Phrases:
        """The words by which questions ask for relations."""
        return Phrases(
            (word, r.name) for r in self.relations.values() for word in (*r.words, *r.labels, *r.asks)
        )

    @cached_property
    def called(self) -> Phrases:
        """The words by which questions call kinds of notes."""
        return Phrases((word, kind.name) for kind in self.kinds.values() for word in kind.words)

    @cached_property
    def shared(self) -> Phrases:
        """The words for what several notes have in common."""
        return Phrases((word, "sharing") for word in self.sharing)


# --- reading -----------------------------------------------------------------------------------------

Row = Mapping[str, Any]


def load_table(own_file: Path | None = None) -> Table:
    """The table, with what a person's own file adds. Raises SettingsError for a file that cannot be used."""
    file = "The bundled table"
    raw = resources.files("obsidian_rag").joinpath("bundled/relations.toml").read_bytes()
    digest = hashlib.blake2b(raw + bytes([TYPING_VERSION]), digest_size=16)
    tables = _read_file(raw, file)
    if own_file is not None:
        file = str(own_file)
        try:
            raw = own_file.read_bytes()
        except OSError as exc:
            raise SettingsError(
                f"LINK_RELATIONS names {file}, which cannot be read: {exc.strerror or exc}",
                "Name a TOML file, or unset LINK_RELATIONS.",
            ) from exc
        digest.update(raw)
        added = _read_file(raw, file)
        tables = {name: _join_rows(rows, added[name]) for name, rows in tables.items()}
    _check_rows(tables, file)
    return Table(
        {name: _make_relation(name, row) for name, row in tables["relations"].items()},
        {name: Kind(name, row["words"], frozenset(row["places"])) for name, row in tables["kinds"].items()},
        tables["sharing"][""]["words"],
        frozenset(tables["plain"][""]["words"]),
        digest.digest(),
        tables["denials"][""]["words"],
        tables["idioms"][""]["words"],
    )


def _make_relation(name: str, row: Row) -> Relation:
    return Relation(
        name,
        row["words"],
        row["asks"],
        row["means"],
        row["seeds"],
        row["between"],
        row["implied"] or 0.0,
        row["labels"],
    )


def _join_rows(rows: Mapping[str, Row], added: Mapping[str, Row]) -> dict[str, Row]:
    """Rows with those of another file: it adds to one of the same name, unless it says `replace`."""
    joined = dict(rows)
    for name, row in added.items():
        known = {} if row.get("replace") else rows.get(name, {})
        joined[name] = {key: _join_values(known.get(key), value) for key, value in row.items()}
    return joined


def _join_values(known: Any, added: Any) -> Any:
    if isinstance(known, tuple):
        return tuple(dict.fromkeys((*known, *added)))
    if isinstance(known, dict):
        return known | added
    return known if added is None else added


def _check_rows(tables: Mapping[str, Mapping[str, Row]], file: str) -> None:
    """That every row has words, and that what a row names is there: a slip must not go unnoticed."""
    relations, kinds = tables["relations"], tables["kinds"]
    for name, row in (*relations.items(), *kinds.items()):
        if not row["words"] and not row.get("labels"):
            table = "relations" if "labels" in row else "kinds"
            raise SettingsError(f"{file}: [{table}.{name}] has no words", 'Add words = ["one", "another"].')
    for name, row in relations.items():
        for key, named, known in (
            ("means", row["means"], relations),
            ("between", [kind for pair in row["between"] for kind in pair], kinds),
        ):
            missing = [other for other in named if other not in known]
            if missing:
                raise SettingsError(
                    f"{file}: [relations.{name}] {key} names {missing[0]!r}, which is in no table",
                    f"Add it, or name one of: {', '.join(sorted(known))}.",
                )


def _read_file(raw: bytes, file: str) -> dict[str, dict[str, Row]]:
    """The rows of each table; a list is a row without a name."""
    try:
        data = tomllib.loads(raw.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise SettingsError(f"{file} is no TOML file: {exc}", "Mend it, or unset LINK_RELATIONS.") from exc
    unknown = sorted(data.keys() - {*_TABLES, *_LISTS})
    if unknown:
        raise SettingsError(
            f"{file} has a table [{unknown[0]}]",
            f"There are [relations.NAME], [kinds.NAME], [{'], ['.join(_LISTS)}].",
        )
    tables = {
        name: _read_rows(data.get(name, {}), keys, f"{file}: [{name}") for name, keys in _TABLES.items()
    }
    lists = {
        name: {"": _read_row(data.get(name, {}), ("words", "replace"), f"{file}: [{name}]")}
        for name in _LISTS
    }
    return tables | lists


def _read_rows(table: Any, keys: Sequence[str], place: str) -> dict[str, Row]:
    if not isinstance(table, dict):
        raise SettingsError(f"{place}] is {table!r}", "Write each row as a table of its own name.")
    for name in table:
        if not _NAME.fullmatch(name):
            raise SettingsError(
                f"{place}.{name}] has not the name of a relation or kind",
                "Name it in small letters and digits with single _ between: works_at.",
            )
    return {name: _read_row(row, keys, f"{place}.{name}]") for name, row in table.items()}


def _read_row(row: Any, keys: Sequence[str], place: str) -> Row:
    wrong = sorted(row.keys() - set(keys)) if isinstance(row, dict) else [repr(row)]
    if wrong:
        raise SettingsError(f"{place} has {wrong[0]}", f"It may have {', '.join(keys)}.")
    return {key: _READERS[key](row.get(key), f"{place} {key}") for key in keys}


def _read_phrases(value: Any, place: str) -> tuple[str, ...]:
    if value is not None and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        raise SettingsError(f"{place} is no list of words", 'Write it as ["one", "another"].')
    phrases = tuple(" ".join(item.lower().split()) for item in value or ())
    part = _make_part(NOTE_WORD)
    for phrase in phrases:
        if "".join(part.findall(phrase)) != phrase.replace(" ", "") or not phrase:
            raise SettingsError(
                f"{place} has {phrase!r}, which matches no words of a text",
                "Write letters and digits, with spaces between words and * only at the end of a word.",
            )
    return phrases


def _read_texts(value: Any, place: str) -> tuple[str, ...]:
    if value is not None and not (
        isinstance(value, list) and all(isinstance(item, str) and item.strip() for item in value)
    ):
        raise SettingsError(f"{place} is no list of texts", 'Write it as ["one", "another"].')
    return tuple(value or ())


def _read_places(value: Any, place: str) -> tuple[str, ...]:
    return tuple(text.lower() for text in _read_texts(value, place))


def _read_pairs(value: Any, place: str) -> tuple[tuple[str, str], ...]:
    if value is not None and not (
        isinstance(value, list)
        and all(
            isinstance(pair, list) and len(pair) == 2 and all(isinstance(kind, str) for kind in pair)
            for pair in value
        )
    ):
        raise SettingsError(f"{place} is {value!r}", 'Write pairs of kinds: [["person", "project"]].')
    return tuple((one, two) for one, two in value or ())


def _read_shares(value: Any, place: str) -> dict[str, float]:
    if value is not None and not isinstance(value, dict):
        raise SettingsError(f"{place} is {value!r}", "Write it as { other_relation = 0.5 }.")
    return {name: _read_share(share, f"{place}.{name}") or 0.0 for name, share in (value or {}).items()}


def _read_share(value: Any, place: str) -> float | None:
    if value is not None and not (type(value) in (int, float) and 0 < value <= 1):
        raise SettingsError(f"{place} is {value!r}", "Write a number above 0 and up to 1.")
    return None if value is None else float(value)


def _read_switch(value: Any, place: str) -> bool:
    if value is not None and not isinstance(value, bool):
        raise SettingsError(f"{place} is {value!r}", "Write true or false.")
    return bool(value)


_READERS: Mapping[str, Callable[[Any, str], Any]] = {
    "words": _read_phrases,
    "labels": _read_phrases,
    "asks": _read_phrases,
    "means": _read_shares,
    "seeds": _read_texts,
    "between": _read_pairs,
    "implied": _read_share,
    "replace": _read_switch,
    "places": _read_places,
}
