"""What links say: the relations of a link, read without a model from the words around it.

They come from its label (a property's key, `> **Author:** [[Ann]]`), else from the sentence it stands in and
from what that stands under. Confidences lie in (0, 1].
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from obsidian_rag.cues import DENIES_LINK, Words, find_cues, is_denied, is_question, read_words
from obsidian_rag.relations import Cue, Table

REACH = 5.0  # words at which a cue has lost two thirds of its weight
# What stands between a cue and its link weakens it: the end of a clause, another link.
OVER_CLAUSE = 0.55
OVER_LINK = 0.5
FROM_CONTEXT = 0.6  # of a heading, a list item or a table's column that the link stands under
LEAST = 0.15  # of a confidence that is kept
LONGEST_NAME = 60  # characters of a label that names a relation of its own
# Labels that introduce a link without a meaning of their own.
_EMPTY_LABEL = re.compile(
    r"notes?|see(?:_also)?|todo|tip|warning|info|example|update|edit|links?|alias(?:es)?|tags?|title"
    r"|cssclasses|date|created|modified"
)
_SLUG = re.compile(r"[\W_]+")
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, slots=True)
class LinkPlace:
    """One link of a sentence: its text at sentence[first:last], what it stands under, its label."""

    first: int
    last: int
    context: str
    label: str | None


@dataclass(frozen=True, slots=True)
class _Sentence:
    """What is known of a sentence before its links are looked at, all in order: its words, the links' texts,
    the words that say relations, those that deny what follows.
    """

    words: Words
    spans: tuple[tuple[int, int], ...]
    cues: tuple[Cue, ...]
    denials: tuple[Cue, ...]


def type_links(sentence: str, links: Sequence[LinkPlace], table: Table) -> list[dict[str, float]]:
    """The relations of each link of one sentence, relation -> confidence.

    A cue counts `exp(-distance in words / 5)`, less over the end of a clause or another link; a relation's
    confidence is what its nearest cue counts times the root of its share of all that is said of the link.
    """
    read = _read_sentence(sentence, links, table)
    contexts = [_read_context(sentence, link) for link in links]
    under = {context: _find_names(table, context.splitlines()) for context in set(contexts)}
    return [
        _type_link(link, read, under[context], table) for link, context in zip(links, contexts, strict=True)
    ]


def _read_sentence(sentence: str, links: Sequence[LinkPlace], table: Table) -> _Sentence:
    spans = sorted({(link.first, link.last) for link in links if link.last > link.first})
    words = read_words(sentence, spans)
    cues, denials = ([], []) if is_question(sentence) else find_cues(table.said, words, table)
    return _Sentence(words, tuple(spans), tuple(cues), tuple(denials))


def _read_context(sentence: str, link: LinkPlace) -> str:
    """What a link stands under; in a row that begins with something else, that is what its column says."""
    before, bar, _ = sentence[: link.first].rpartition(" | ")
    return link.context.rpartition("\n")[2] if bar and _LETTER.search(before) else link.context


def _find_names(table: Table, lines: Iterable[str]) -> list[str]:
    """The relations that labels or headings say."""
    names: set[str] = set()
    for words in map(read_words, lines):
        cues, _ = find_cues(table.labelled, words, table)
        names.update(cue.name for cue in cues)
    return sorted(names)


def _type_link(link: LinkPlace, sentence: _Sentence, under: Iterable[str], table: Table) -> dict[str, float]:
    if link.label is not None:
        labelled = _read_label(link.label, table)
        if labelled:
            return _add_means(labelled, table)
    said: dict[str, float] = dict.fromkeys(under, FROM_CONTEXT)
    for cue in sentence.cues:
        if weight := _weigh_cue(cue, link, sentence):
            said[cue.name] = max(said.get(cue.name, 0.0), weight)
    total = sum(said.values())
    sure = {name: weight * math.sqrt(weight / total) for name, weight in said.items()}
    return _add_means({name: c for name, c in sure.items() if c >= LEAST}, table)


def _weigh_cue(cue: Cue, link: LinkPlace, sentence: _Sentence) -> float:
    """What a cue counts for a link, by what stands between them."""
    words, at = sentence.words, bisect_left(sentence.words.starts, link.first)
    start, end = words.starts[cue.first], words.ends[cue.last - 1]
    if end <= link.first:
        gap, distance = (end, link.first), at - cue.last
        between = [denial for denial in sentence.denials if cue.last <= denial.first]
        if any(is_denied(at, link.first, denial, words, DENIES_LINK) for denial in between):
            return 0.0
    else:
        gap, distance = (link.last, start), cue.first - bisect_left(words.starts, link.last)
    weight = math.exp(-max(0, distance) / REACH)
    others = bisect_left(sentence.spans, gap[1:]) - bisect_left(sentence.spans, gap[:1])
    if others:
        return weight * OVER_LINK**others
    if words.count_clauses(*gap):
        return weight * OVER_CLAUSE
    return weight


def _read_label(label: str, table: Table) -> dict[str, float]:
    """The relations that a label means; one of its own where it is marked as a label (`::`) and unknown."""
    name = label.removesuffix("::")
    slug = _SLUG.sub("_", name.lower()).strip("_")
    if slug in table.relations:
        return {slug: 1.0}
    known = dict.fromkeys(_find_names(table, [name.replace("_", " ")]), 1.0)
    is_name = label.endswith("::") and 0 < len(slug) <= LONGEST_NAME and not _EMPTY_LABEL.fullmatch(slug)
    return {slug: 1.0} if is_name and not known else known


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
