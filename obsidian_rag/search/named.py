"""Which notes a question names inside its words: by title, alias, part of a name, or how links call them.

The longest run of words wins. A run names something only where it is rare enough: common words are words.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import md5

import regex

from obsidian_rag.analysis import analyze, list_pieces
from obsidian_rag.postgres import Connection
from obsidian_rag.relations import Table
from obsidian_rag.search.facts import list_configs

# As the words of the table of relations, with the marks that scripts write beside a letter.
_LETTERS = r"[\p{L}\p{N}][\p{L}\p{N}\p{M}]*"
_WORD = regex.compile(rf"1:1|{_LETTERS}(?:[-'’.&]{_LETTERS})*")
_ONE_SCRIPT = regex.compile(r"\p{Han}+|\p{Hiragana}+|[\p{Katakana}ー]+|[^\p{Han}\p{Hiragana}\p{Katakana}]+")
MOST_TOKENS = 128  # of a question; what is longer is a text, and asks nothing
LONGEST_RUN = 12  # words of a name inside a question
MOST_NAMES = 8  # of a question; each is walked from
MOST_NODES = 8  # that one run may mean; what means more is a word of the vault
LEAST_RARITY = 1.5  # sum of idf a run must reach, its words as much as they are written as a name
STOP_WORD = 1.0  # idf of a word that the index does not hold, being in half of all notes
UNMARKED = 0.6  # of a word's idf where it is not written as a name
WHOLE = {"title": 1.0, "alias": 1.0, "called": 1.0, "short": 0.9, "link": 0.8}
PART = 0.6
PART_SHARE = 0.6  # of the idf of a name that its part must have
LEAST_USES, LEAST_USE_SHARE = 2, 0.2  # of a text by which links call a note

# So many notes of one name tell that it is nobody's own; of parts, some may fall to what is rarer in others.
FIND = """
WITH found AS (
    SELECT m.key, m.kind, n.file_path AS node, m.name
    FROM note_names m JOIN notes n ON n.id = m.note_id
    WHERE md5(m.key) = ANY(%(hashes)s::text[]) AND m.key = ANY(%(keys)s::text[]) AND m.kind <> 'heading'
    UNION ALL
    SELECT l.key, 'link', l.node, l.text FROM link_names l
    WHERE md5(l.key) = ANY(%(hashes)s::text[]) AND l.key = ANY(%(keys)s::text[])
        AND (l.uses >= %(uses)s OR l.share > %(share)s)
), placed AS (
    SELECT *, row_number() OVER (PARTITION BY key, kind ORDER BY node, name) AS place FROM found
)
SELECT key, kind, node, name FROM placed WHERE place <= 100 ORDER BY key, kind, node, name
"""
# How many notes hold a word, in any form that the index has; past a tenth of all it is common anyway. NULL of
# a stop word in a language of the notes.
FREQUENCY = """
SELECT w.word, t.notes, CASE WHEN bool_and(v.lexemes <> '{}') THEN (
    SELECT count(*) FROM (
        SELECT DISTINCT note_id FROM postings p
        WHERE p.lexeme IN (SELECT unnest(tsvector_to_array(to_tsvector(c.config::regconfig, w.word)))
                           FROM unnest(%(configs)s::text[]) AS c (config))
        LIMIT greatest(t.notes / 10, 1)) AS found) END
FROM unnest(%(words)s::text[]) AS w (word) CROSS JOIN keyword_stats t
CROSS JOIN unnest(%(configs)s::text[]) AS c (config)
CROSS JOIN tsvector_to_array(to_tsvector(c.config::regconfig, w.word)) AS v (lexemes)
GROUP BY w.word, t.notes
"""


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the question; of a script without spaces, a pair of characters. `marked` tells that it is
    written as a name: with digits, or a capital letter that no sentence asks for. `keys` are its words as
    names have them; `opens` tells that a sentence or a clause begins with it, `inside` that it is a pair that
    more of its script adjoins.
    """

    text: str
    first: int
    last: int
    marked: bool
    keys: tuple[str, ...]
    opens: bool = False
    inside: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """Tokens [first, last) of the question and the nodes they name, node -> weight up to 1.

    A node is a note's path, or `?` and the lower-case name of one that does not exist.
    """

    first: int
    last: int
    text: str
    nodes: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Run:
    """Tokens [first, last); `has_gap` tells that plain words among them are left out."""

    first: int
    last: int
    has_gap: bool = False


def read_tokens(query: str) -> list[Token]:
    """The first words of a question."""
    tokens: list[Token] = []
    end = 0
    for match in _WORD.finditer(query):
        between = query[end : match.start()]
        begins = not tokens or any(mark in between for mark in ".?!:")
        opens = begins or any(mark in between for mark in ";,")
        end = match.end()
        pieces = list_pieces(match.group())
        for first, last in pieces:
            text = match.group()[first:last]
            tokens.append(
                Token(
                    text.lower().replace("’", "'"),
                    match.start() + first,
                    match.start() + last,
                    _is_marked(text, begins),
                    tuple(analyze(text).key.split()),
                    opens and first == 0,
                    len(pieces) > 1 and _is_inside(match.group(), first, last),
                )
            )
        if len(tokens) >= MOST_TOKENS:
            break
    return tokens[:MOST_TOKENS]


def _is_marked(text: str, begins: bool) -> bool:
    """Whether a word is written as a name. A sentence begins with a capital letter anyway, but `Ann's`."""
    if not any(c.isupper() or c.isdigit() for c in text):
        return False
    return not begins or not (text[:1].isupper() and text[1:].islower()) or text.endswith(("'s", "’s"))


def _is_inside(word: str, first: int, last: int) -> bool:
    """Whether a pair is cut out of a longer run of its script: `京都` in `東京都`, not in `京都の寺`."""
    before, after = word[:first][-1:], word[last:][:1]
    return (before != "" and _ONE_SCRIPT.fullmatch(before + word[first]) is not None) or (
        after != "" and _ONE_SCRIPT.fullmatch(word[last - 1] + after) is not None
    )


def find_named(conn: Connection, query: str, tokens: Sequence[Token], table: Table) -> list[Named]:
    """The notes that a question names, in the order of its words.

    Plain words may stand between those of a whole name: `the meeting between Ann and Bob`. Words of the table
    that are not written as a name are part of none, and are one only where the question names nothing else.
    """
    runs = dict(_list_runs(tokens, table.plain))
    if not runs:
        return []
    found: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for key, kind, node, name in conn.execute(FIND, _parameters(runs)).fetchall():
        found[key].append((kind, node, name))
    rarity = _Rarity(conn)
    rarity.measure({word for key in found for word in key.split()})
    common = _find_common(tokens, table)
    asking = {key for key in found if common.issuperset(range(runs[key].first, runs[key].last))}
    named: list[Named] = []
    for key in sorted(found, key=lambda key: (key in asking, -len(key.split()), runs[key].first)):
        if len(named) == MOST_NAMES:
            break
        run = runs[key]
        if any(run.first < other.last and other.first < run.last for other in named):
            continue
        if key in asking and named:
            continue
        whole_only = key in asking or run.has_gap
        entries = [entry for entry in found[key] if entry[0] != "part" or not whole_only]
        nodes = _choose_nodes(key, entries, tokens[run.first : run.last], rarity)
        if nodes:
            text = query[tokens[run.first].first : tokens[run.last - 1].last]
            named.append(Named(run.first, run.last, text, nodes))
    return sorted(named, key=lambda name: name.first)


def _find_common(tokens: Sequence[Token], table: Table) -> set[int]:
    """The tokens that are words of the table, and not written as names."""
    words = [token.text for token in tokens]
    cues = [cue for phrases in (table.asked, table.called) for cue in phrases.find(words)]
    common = {at for cue in cues for at in range(cue.first, cue.last)}
    common |= {at for at, word in enumerate(words) if word in table.plain}
    return {at for at in common if not tokens[at].marked}


def _list_runs(tokens: Sequence[Token], plain: frozenset[str]) -> Iterator[tuple[str, _Run]]:
    """Every run of words by its key as a name, with and without plain words in it; later ones first, so that
    the first place of a key is kept. Plain words alone name nothing, unless they are written as a name.
    """
    says = [token.marked or token.text not in plain for token in tokens]
    for first in range(len(tokens) - 1, -1, -1):
        keys: list[str] = []
        telling: list[str] = []
        for last in range(first, min(len(tokens), first + LONGEST_RUN)):
            token = tokens[last]
            keys += token.keys
            telling += token.keys if says[last] else ()
            if not telling or (first == last and token.inside):
                continue
            if says[first] and says[last] and len(telling) < len(keys):
                yield " ".join(telling), _Run(first, last + 1, True)
            yield " ".join(keys), _Run(first, last + 1)
            if len(token.keys) > 1 and token.text.endswith("'s"):
                yield " ".join(keys[:-1]), _Run(first, last + 1)  # `Ann Lee's father` names Ann Lee


def _parameters(keys: Collection[str]) -> dict[str, object]:
    return {
        "keys": list(keys),
        "hashes": [md5(key.encode(), usedforsecurity=False).hexdigest() for key in keys],
        "uses": LEAST_USES,
        "share": LEAST_USE_SHARE,
    }


class _Rarity:
    """idf over notes of words, `ln(1 + (N - df + .5) / (df + .5))`."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._known: dict[str, float] = {}

    @cached_property
    def _configs(self) -> list[str]:
        return [*list_configs(self._conn)]

    def measure(self, words: Collection[str]) -> None:
        """Look words up, in one statement."""
        missing = sorted(set(words) - self._known.keys())
        if missing:
            values = {"configs": self._configs, "words": missing}
            for word, total, df in self._conn.execute(FREQUENCY, values).fetchall():
                rare = STOP_WORD if df is None else math.log1p((max(total - df, 0) + 0.5) / (df + 0.5))
                self._known[word] = rare

    def add(self, words: Sequence[str]) -> float:
        """The sum over words."""
        return sum(self._known.get(word, 0.0) for word in words)


def _choose_nodes(
    key: str, entries: Sequence[tuple[str, str, str]], tokens: Sequence[Token], rarity: _Rarity
) -> dict[str, float]:
    words = key.split()
    marked = {word for token in tokens if token.marked for word in token.keys}
    telling = rarity.add([w for w in words if w in marked]) + UNMARKED * rarity.add(
        [w for w in words if w not in marked]
    )
    if telling < LEAST_RARITY:
        return {}
    parts = [name for kind, _, name in entries if kind == "part"]
    rarity.measure({word for name in parts for word in analyze(name).key.split()})
    nodes: dict[str, float] = {}
    for kind, node, name in entries:
        weight = WHOLE.get(kind) or _weigh_part(words, name, tokens, rarity)
        nodes[node] = max(nodes.get(node, 0.0), weight)
    best = max(nodes.values(), default=0.0)
    kept = {node: weight for node, weight in nodes.items() if weight >= 0.8 * best and weight > 0}
    if len(kept) > MOST_NODES:
        return {}
    order = sorted(kept, key=lambda node: (-kept[node], node))
    return {node: kept[node] / math.sqrt(len(kept)) for node in order}


def _weigh_part(words: Sequence[str], name: str, tokens: Sequence[Token], rarity: _Rarity) -> float:
    """Part of a name means it where it has most of its rarity; a single word must be written as a name."""
    whole, part = rarity.add(analyze(name).key.split()), rarity.add(words)
    if len(words) == 1:
        return 0.5 * PART if tokens[0].marked and part >= 0.4 * whole else 0.0
    return PART if part >= PART_SHARE * whole else 0.0
