"""Which notes a question names inside its words: by title, alias, part of a name, or how links call them.

The longest run of words wins. A run names something only where it is rare enough: common words are words.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from obsidian_rag.analysis import analyze
from obsidian_rag.postgres import Connection
from obsidian_rag.relations import WORD, Table

LONGEST_RUN = 12  # words of a name inside a question
MOST_NODES = 8  # that one run may mean; what means more is a word of the vault
LEAST_RARITY = 1.5  # sum of idf a run must reach, its words as much as they are written as a name
UNMARKED = 0.6  # of a word's idf where it is not written as a name
WHOLE = {"title": 1.0, "alias": 1.0, "called": 1.0, "short": 0.9, "link": 0.8}
PART = 0.6
PART_SHARE = 0.6  # of the idf of a name that its part must have
LEAST_USES, LEAST_USE_SHARE = 2, 0.2  # of a text by which links call a note

FIND = """
SELECT m.key, m.kind, n.file_path, m.name FROM note_names m JOIN notes n ON n.id = m.note_id
WHERE md5(m.key) = ANY(%(hashes)s) AND m.key = ANY(%(keys)s) AND m.kind <> 'heading'
UNION ALL
SELECT l.key, 'link', l.node, l.text FROM link_names l
WHERE md5(l.key) = ANY(%(hashes)s) AND l.key = ANY(%(keys)s) AND (l.uses >= %(uses)s OR l.share > %(share)s)
LIMIT 5000
"""
# How many notes hold a word, in any form that the index has; past a tenth of all it is common anyway.
FREQUENCY = """
SELECT w.word, t.notes, (SELECT count(*) FROM (
    SELECT DISTINCT note_id FROM postings p WHERE p.lexeme IN (
        SELECT v.lexeme FROM unnest(%(configs)s::text[]) AS c (config),
            unnest(to_tsvector(c.config::regconfig, w.word)) AS v)
    LIMIT greatest(t.notes / 10, 100)) AS found)
FROM unnest(%(words)s::text[]) AS w (word) CROSS JOIN keyword_stats t
"""
CONFIGS = "SELECT DISTINCT fts_config FROM notes WHERE fts_config IS NOT NULL LIMIT 6"


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the question. `marked` tells that it is written as a name: with a capital letter that no
    sentence asks for, with digits, or in a script without capitals. `keys` are its words as names have them;
    `opens` tells that a sentence or a clause begins with it.
    """

    text: str
    first: int
    last: int
    marked: bool
    keys: tuple[str, ...]
    opens: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """Tokens [first, last) of the question and the nodes they name, node -> weight up to 1.

    A node is a note's path, or `?` and the lower-case name of one that does not exist.
    """

    first: int
    last: int
    text: str
    nodes: Mapping[str, float]


def read_tokens(query: str) -> list[Token]:
    """The words of a question."""
    tokens: list[Token] = []
    end = 0
    for match in WORD.finditer(query):
        text = match.group()
        between = query[end : match.start()]
        begins = not tokens or any(mark in between for mark in ".?!:")
        opens = begins or any(mark in between for mark in ";,")
        marked = not text.islower() and not (begins and text[1:].islower() and text[:1].isupper())
        keys = tuple(analyze(text).key.split())
        end = match.end()
        tokens.append(Token(text.lower().replace("’", "'"), match.start(), end, marked, keys, opens))
    return tokens


def find_named(conn: Connection, query: str, tokens: Sequence[Token], table: Table) -> list[Named]:
    """The notes that a question names, in the order of its words.

    Plain words may stand between those of a name: `the meeting between Ann and Bob`. A part of a name must
    hold more than words of the table.
    """
    runs = {key: (first, last) for key, first, last in _list_runs(tokens, table.plain)}
    common = _find_common(tokens, table)
    if not runs:
        return []
    rows = conn.execute(FIND, _parameters(conn, runs)).fetchall()
    found: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for key, kind, node, name in rows:
        found[key].append((kind, node, name))
    words = {key for run in found for key in run.split()}
    words |= {word for entries in found.values() for kind, _, name in entries if kind == "part"
              for word in analyze(name).key.split()}  # fmt: skip
    rarity = _measure_rarity(conn, sorted(words))
    named: list[Named] = []
    for key in sorted(found, key=lambda key: (-len(key.split()), runs[key])):
        first, last = runs[key]
        if any(first < other.last and other.first < last for other in named):
            continue
        entries = found[key]
        if common.issuperset(range(first, last)):
            entries = [entry for entry in entries if entry[0] != "part"]
        nodes = _choose_nodes(key, entries, tokens[first:last], rarity)
        if nodes:
            text = query[tokens[first].first : tokens[last - 1].last]
            named.append(Named(first, last, text, nodes))
    return sorted(named, key=lambda name: name.first)


def _find_common(tokens: Sequence[Token], table: Table) -> set[int]:
    """The tokens that are words of the table, and not written as names."""
    words = [token.text for token in tokens]
    cues = [cue for phrases in (table.asked, table.called) for cue in phrases.find(words)]
    common = {at for cue in cues for at in range(cue.first, cue.last)}
    common |= {at for at, word in enumerate(words) if word in table.plain}
    return {at for at in common if not tokens[at].marked}


def _list_runs(tokens: Sequence[Token], plain: frozenset[str]) -> Iterator[tuple[str, int, int]]:
    """Every run of words as a name's key, with and without plain words in it; later ones first, so that the
    first place of a key is kept.
    """
    for first in range(len(tokens) - 1, -1, -1):
        keys: list[str] = []
        telling: list[str] = []
        for last in range(first, min(len(tokens), first + LONGEST_RUN)):
            keys += tokens[last].keys
            if tokens[last].text not in plain:
                telling += tokens[last].keys
                if tokens[first].text not in plain and len(telling) < len(keys):
                    yield " ".join(telling), first, last + 1
            if keys:
                yield " ".join(keys), first, last + 1
            if len(tokens[last].keys) > 1 and tokens[last].text.endswith("'s"):
                yield " ".join(keys[:-1]), first, last + 1  # `Ann Lee's father` names Ann Lee


def _parameters(conn: Connection, runs: Mapping[str, tuple[int, int]]) -> dict[str, object]:
    from hashlib import md5

    return {
        "keys": list(runs),
        "hashes": [md5(key.encode(), usedforsecurity=False).hexdigest() for key in runs],
        "uses": LEAST_USES,
        "share": LEAST_USE_SHARE,
    }


def _measure_rarity(conn: Connection, words: Sequence[str]) -> dict[str, float]:
    """idf over notes of each word: `ln(1 + (N - df + .5) / (df + .5))`."""
    configs = [row[0] for row in conn.execute(CONFIGS).fetchall()]
    rows = conn.execute(FREQUENCY, {"configs": configs, "words": list(words)}).fetchall()
    return {word: math.log1p((max(total - df, 0) + 0.5) / (df + 0.5)) for word, total, df in rows}


def _choose_nodes(
    key: str, entries: Sequence[tuple[str, str, str]], tokens: Sequence[Token], rarity: Mapping[str, float]
) -> dict[str, float]:
    words = key.split()
    marks = [token.marked for token in tokens for _ in token.keys]
    idf = [rarity.get(word, 0.0) for word in words]
    if sum(r if marked else UNMARKED * r for r, marked in zip(idf, marks, strict=False)) < LEAST_RARITY:
        return {}
    nodes: dict[str, float] = {}
    for kind, node, name in entries:
        weight = WHOLE.get(kind) or _weigh_part(words, idf, name, tokens, rarity)
        nodes[node] = max(nodes.get(node, 0.0), weight)
    best = max(nodes.values(), default=0.0)
    kept = {node: weight for node, weight in nodes.items() if weight >= 0.8 * best and weight > 0}
    if len(kept) > MOST_NODES:
        return {}
    return {node: weight / math.sqrt(len(kept)) for node, weight in kept.items()}


def _weigh_part(
    words: Sequence[str],
    idf: Sequence[float],
    name: str,
    tokens: Sequence[Token],
    rarity: Mapping[str, float],
) -> float:
    """Part of a name means it where it has most of its rarity; a single word must be written as a name."""
    whole = sum(rarity.get(word, 0.0) for word in analyze(name).key.split())
    if len(words) == 1:
        return 0.5 * PART if tokens[0].marked and whole and idf[0] >= 0.4 * whole else 0.0
    return PART if whole and sum(idf) >= PART_SHARE * whole else 0.0
