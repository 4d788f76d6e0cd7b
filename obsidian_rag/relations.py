"""What links say: the relation of two notes, read without a model from the words around a link.

The words stand in one table, `bundled/relations.toml`, that a person's own file adds to. A link's relations
come from its label (a property's key, `> **Author:** [[Ann]]`), from the sentence it stands in and from what
that stands under. Confidences lie in (0, 1].
"""

from __future__ import annotations

import hashlib
import math
import re
import tomllib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from obsidian_rag.errors import SettingsError

# Raise when the way that links are typed changes; with the table it tells which rules typed an index.
TYPING_VERSION = 1
RELATION_KEYS = ("words", "asks", "means", "seeds", "between", "implied")

REACH = 5.0  # words at which a cue has lost two thirds of its weight
# What stands between a cue and its link weakens it: the end of a clause, another link.
OVER_CLAUSE = 0.55
OVER_LINK = 0.5
FROM_CONTEXT = 0.6  # of a heading or a list item that the link stands under
LEAST = 0.15  # of a confidence that is kept
WORD = re.compile(r"1:1|[^\W_]+(?:[-'’.&][^\W_]+)*")
_CLAUSE_END = re.compile(r"[,;:—–|()]|\b(?:and|while|but|whereas|which|who)\b", re.IGNORECASE)
# Labels that introduce a link without a meaning of their own.
_EMPTY_LABEL = re.compile(
    r"notes?|see|todo|tip|warning|info|example|update|edit|links?|alias(?:es)?|tags?|title|cssclasses|date"
    r"|created|modified",
    re.IGNORECASE,
)
_SLUG = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Relation:
    """A row of the table: the words that say it in a text, those that only ask for it, what follows from it
    (relation -> how surely), phrases that a question is compared with, the pairs of kinds that it connects,
    and how far it is meant where only a kind is said.
    """

    name: str
    words: tuple[str, ...]
    asks: tuple[str, ...] = ()
    means: Mapping[str, float] = field(default_factory=dict)
    seeds: tuple[str, ...] = ()
    between: tuple[tuple[str, str], ...] = ()
    implied: float = 0.0


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


class Phrases:
    """Finds phrases in lists of lower-case words; `*` at the end of a word stands for any ending."""

    def __init__(self, phrases: Iterable[tuple[str, str]]) -> None:
        self._exact: defaultdict[str, list[tuple[tuple[str, ...], str]]] = defaultdict(list)
        self._stems: defaultdict[str, list[tuple[tuple[str, ...], str]]] = defaultdict(list)
        for phrase, name in phrases:
            words = tuple(phrase.lower().split())
            first = words[0]
            if first.endswith("*"):
                self._stems[first[:3]].append((words, name))
            else:
                self._exact[first].append((words, name))

    def find(self, words: Sequence[str]) -> list[Cue]:
        """Every phrase in the words, in order; of two of one name that overlap, the longer."""
        cues: list[Cue] = []
        for at, word in enumerate(words):
            here: dict[str, int] = {}
            for phrase, name in (*self._exact.get(word, ()), *self._stems.get(word[:3], ())):
                if here.get(name, 0) < len(phrase) and _matches(phrase, words, at):
                    here[name] = len(phrase)
            cues += [Cue(name, at, at + length) for name, length in here.items()]
        return [c for c in cues if not any(_covers(d, c) for d in cues)]


def _matches(phrase: tuple[str, ...], words: Sequence[str], at: int) -> bool:
    if at + len(phrase) > len(words):
        return False
    return all(
        word.startswith(part[:-1]) if part.endswith("*") else word == part
        for part, word in zip(phrase, words[at : at + len(phrase)], strict=True)
    )


def _covers(longer: Cue, cue: Cue) -> bool:
    return (
        longer.name == cue.name
        and longer.first <= cue.first
        and cue.last <= longer.last
        and longer.last - longer.first > cue.last - cue.first
    )


@dataclass(frozen=True)
class Table:
    """The relations and kinds, the words for what is shared, and `plain` ones, which ask and bind and mean
    nothing by themselves. `digest` tells one table from another.
    """

    relations: Mapping[str, Relation]
    kinds: Mapping[str, Kind]
    sharing: tuple[str, ...]
    plain: frozenset[str]
    digest: bytes

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
        """The words by which notes say relations."""
        return Phrases((word, r.name) for r in self.relations.values() for word in r.words)

    @cached_property
    def asked(self) -> Phrases:
        """The words by which questions ask for relations."""
        return Phrases((word, r.name) for r in self.relations.values() for word in (*r.words, *r.asks))

    @cached_property
    def called(self) -> Phrases:
        """The words by which questions call kinds of notes."""
        return Phrases((word, kind.name) for kind in self.kinds.values() for word in kind.words)

    @cached_property
    def shared(self) -> Phrases:
        """The words for what several notes have in common."""
        return Phrases((word, "sharing") for word in self.sharing)


def load_table(own_file: Path | None = None) -> Table:
    """The table, with what a person's own file adds. Raises SettingsError for a file that cannot be used."""
    bundled = resources.files("obsidian_rag").joinpath("bundled/relations.toml").read_bytes()
    data = _read_table(bundled, "the bundled table")
    digest = hashlib.blake2b(bundled + bytes([TYPING_VERSION]), digest_size=16)
    if own_file is not None:
        try:
            own = own_file.read_bytes()
        except OSError as exc:
            raise SettingsError(
                f"LINK_RELATIONS names {own_file}, which cannot be read: {exc.strerror}",
                "Name a TOML file, or unset LINK_RELATIONS.",
            ) from exc
        digest.update(own)
        added = _read_table(own, str(own_file))
        data = (
            data[0] | added[0],
            data[1] | added[1],
            tuple(dict.fromkeys((*data[2], *added[2]))),
            data[3] | added[3],
        )
    return Table(*data, digest.digest())


def _read_table(
    raw: bytes, name: str
) -> tuple[dict[str, Relation], dict[str, Kind], tuple[str, ...], frozenset[str]]:
    try:
        data = tomllib.loads(raw.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise SettingsError(f"{name} is no TOML file: {exc}", "Mend it, or unset LINK_RELATIONS.") from exc
    unknown = sorted(data.keys() - {"relations", "kinds", "sharing", "plain"})
    if unknown:
        raise SettingsError(
            f"{name} has a table [{unknown[0]}]",
            "There are [relations.NAME], [kinds.NAME], [sharing] and [plain].",
        )
    relations = {
        key: Relation(
            key,
            _read_words(row, "words", f"{name}: [relations.{key}]", required=True),
            _read_words(row, "asks", f"{name}: [relations.{key}]"),
            _read_shares(row.get("means", {}), f"{name}: [relations.{key}] means"),
            _read_words(row, "seeds", f"{name}: [relations.{key}]"),
            _read_pairs(row.get("between", []), f"{name}: [relations.{key}] between"),
            _read_shares({"implied": row.get("implied", 1)}, f"{name}: [relations.{key}]")["implied"]
            if "implied" in row
            else 0.0,
        )
        for key, row in _read_rows(data, "relations", RELATION_KEYS, name).items()
    }
    kinds = {
        key: Kind(
            key,
            _read_words(row, "words", f"{name}: [kinds.{key}]", required=True),
            frozenset(word.lower() for word in _read_words(row, "places", f"{name}: [kinds.{key}]")),
        )
        for key, row in _read_rows(data, "kinds", ("words", "places"), name).items()
    }
    sharing = _read_words(data.get("sharing", {}), "words", f"{name}: [sharing]")
    plain = _read_words(data.get("plain", {}), "words", f"{name}: [plain]")
    return relations, kinds, sharing, frozenset(plain)


def _read_rows(data: Mapping[str, Any], table: str, keys: Sequence[str], name: str) -> dict[str, Any]:
    rows = data.get(table, {})
    for key, row in rows.items() if isinstance(rows, dict) else [(table, None)]:
        wrong = sorted(row.keys() - set(keys)) if isinstance(row, dict) else [str(row)]
        if wrong:
            raise SettingsError(
                f"{name}: [{table}.{key}] has {wrong[0]}", f"A row of it has {', '.join(keys)}."
            )
    return dict(rows)


def _read_words(row: Any, key: str, place: str, required: bool = False) -> tuple[str, ...]:
    words = row.get(key, []) if isinstance(row, dict) else None
    if not isinstance(words, list) or not all(isinstance(w, str) and w.strip(" *") for w in words):
        raise SettingsError(f"{place} {key} is not a list of words", 'Write it as ["one", "another"].')
    if required and not words:
        raise SettingsError(f"{place} has no {key}", 'Write them as words = ["one", "another"].')
    return tuple(words)


def _read_pairs(pairs: Any, place: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(kind, str) for kind in pair)
        for pair in pairs
    ):
        raise SettingsError(f"{place} is {pairs!r}", 'Write pairs of kinds: [["person", "project"]].')
    return tuple((pair[0], pair[1]) for pair in pairs)


def _read_shares(means: Any, place: str) -> dict[str, float]:
    if not isinstance(means, dict) or not all(
        isinstance(share, int | float) and 0 < share <= 1 for share in means.values()
    ):
        raise SettingsError(f"{place} is {means!r}", "Write it as { other_relation = 0.5 }, up to 1.")
    return {name: float(share) for name, share in means.items()}


# --- typing ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LinkPlace:
    """One link of a sentence: its text at sentence[first:last], what it stands under, its label."""

    first: int
    last: int
    context: str
    label: str | None


def type_links(sentence: str, links: Sequence[LinkPlace], table: Table) -> list[dict[str, float]]:
    """The relations of each link of one sentence, relation -> confidence.

    A cue counts `exp(-distance in words / 5)`, less over the end of a clause or another link; a relation's
    confidence is what its nearest cue counts times the root of its share of all that is said of the link.
    """
    spans = sorted({(link.first, link.last) for link in links if link.last > link.first})
    tokens = list(WORD.finditer(sentence))
    words = [token.group().lower().replace("’", "'") for token in tokens]
    linked = [any(first <= t.start() < last for first, last in spans) for t in tokens]
    cues = [
        (cue.name, tokens[cue.first].start(), tokens[cue.last - 1].end(), cue.first, cue.last - 1)
        for cue in table.said.find(words)
        if not any(linked[cue.first : cue.last])
    ]
    return [_type_link(sentence, link, spans, cues, [t.start() for t in tokens], table) for link in links]


def _type_link(
    sentence: str,
    link: LinkPlace,
    spans: Sequence[tuple[int, int]],
    cues: Sequence[tuple[str, int, int, int, int]],
    starts: Sequence[int],
    table: Table,
) -> dict[str, float]:
    said: dict[str, float] = {}
    if link.label is not None:
        labelled = _read_label(link.label, table)
        if labelled:
            return _add_means(labelled, table)
    first_word, last_word = bisect_left(starts, link.first), bisect_left(starts, link.last)
    for name, start, end, first, last in cues:
        if end <= link.first:
            distance, between = first_word - last - 1, sentence[end : link.first]
            over = sum(1 for a, b in spans if end <= a and b <= link.first)
        else:
            distance, between = first - last_word, sentence[link.last : start]
            over = sum(1 for a, b in spans if link.last <= a and b <= start)
        weight = math.exp(-max(0, distance) / REACH) * OVER_LINK**over
        if over == 0 and _CLAUSE_END.search(between):
            weight *= OVER_CLAUSE
        said[name] = max(said.get(name, 0.0), weight)
    for name in {cue.name for cue in table.said.find([w.lower() for w in WORD.findall(link.context)])}:
        said[name] = max(said.get(name, 0.0), FROM_CONTEXT)
    total = sum(said.values())
    sure = {name: weight * math.sqrt(weight / total) for name, weight in said.items()}
    return _add_means({name: c for name, c in sure.items() if c >= LEAST}, table)


def _read_label(label: str, table: Table) -> dict[str, float]:
    """The relations that a label means; one of its own where it is marked as a label (`::`) and unknown."""
    name = label.removesuffix("::")
    words = [w.lower() for w in WORD.findall(name.replace("_", " "))]
    if name in table.relations:
        return {name: 1.0}
    known = {cue.name: 1.0 for cue in table.said.find(words)}
    if known or not label.endswith("::") or _EMPTY_LABEL.fullmatch(name.strip()):
        return known
    slug = _SLUG.sub("_", name.strip().lower()).strip("_")
    return {slug: 1.0} if slug else {}


def _add_means(sure: dict[str, float], table: Table) -> dict[str, float]:
    """Relations with those that follow from them, rounded."""
    all_of_them = dict(sure)
    for name, confidence in sure.items():
        relation = table.relations.get(name)
        for other, share in relation.means.items() if relation else ():
            all_of_them[other] = max(all_of_them.get(other, 0.0), confidence * share)
    return {name: round(c, 3) for name, c in all_of_them.items() if c >= LEAST}


def combine(confidences: Iterable[float]) -> float:
    """Several independent sayings of one thing, by noisy-or: `1 - product of (1 - confidence)`."""
    return 1.0 - math.prod(1.0 - min(c, 0.99) for c in confidences)


def choose_relation(mentions: Sequence[Mapping[str, float]]) -> tuple[str | None, int]:
    """The surest relation of a link over all its places, and the index of the place that says it best; of a
    link that says nothing, None and the first.
    """
    best: tuple[float, str | None, int] = (0.0, None, 0)
    for name in sorted({name for mention in mentions for name in mention}):
        confidences = [mention.get(name, 0.0) for mention in mentions]
        sure = combine(confidences)
        if sure > best[0]:
            best = (sure, name, max(range(len(mentions)), key=confidences.__getitem__))
    return best[1], best[2]
