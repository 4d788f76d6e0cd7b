"""The keyword retriever: BM25 over chunks and over whole notes, with what quotes and exclusions ask for."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from obsidian_rag.analysis import analyze_query
from obsidian_rag.postgres import Connection
from obsidian_rag.search.bm25 import Totals, Weights, rank_notes
from obsidian_rag.search.candidates import find_postings
from obsidian_rag.search.compounds import split_compounds
from obsidian_rag.search.facts import IndexFacts, list_configs
from obsidian_rag.search.query import Operators, read_operators
from obsidian_rag.search.unknown_words import name_unknown

# Half whole note, half best chunk: the note finds what no chunk says alone, the chunk what a long note
# buries. Either alone is worse by up to .01 nDCG@10.
NOTE_SHARE = 0.5
NEARLY_AS_GOOD = 0.8  # of the best chunk's score, from which a note's other chunks answer as well
PART_WEIGHT = 0.5  # of a part of a compound beside the word itself
MOST_LITERAL = 20  # stop words in a row that are looked for as they are written
MOST_STRICT = 20000  # chunks that a quoted phrase or an exclusion may leave to be ranked


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the query with the lexemes it may have in the index, one for each configuration in use."""

    lexemes: tuple[str, ...]
    weight: float = 1.0
    optional: bool = False  # counts where it is found, and is not missed where it is not


@dataclass(frozen=True, slots=True)
class KeywordHit:
    """A note that holds words of the query. Scores lie in [0, 1); `matched` counts words in the chunk, and
    `further` are other chunks of the note that are nearly as good.
    """

    file_path: str
    chunk_index: int
    score: float
    matched: int
    further: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class KeywordResult:
    """Hits, best first. `words` is how many words were looked for; 0 for a query of stop words only.

    `unknown` are words that occur nowhere, as the analysis has them, and `missing` the same as they are
    written in the query. `loosened` tells that nothing holds the query as written with its quotes and
    exclusions, and that chunks with some of its words are shown.
    """

    hits: tuple[KeywordHit, ...]
    words: int
    unknown: tuple[str, ...] = ()
    loosened: bool = False
    missing: tuple[str, ...] = ()

    def find(self, file_path: str) -> KeywordHit | None:
        """The hit of a note, None where it holds no word."""
        return next((hit for hit in self.hits if hit.file_path == file_path), None)


LEXEMES = """
SELECT c.config, v.positions[1]::int, v.lexeme
FROM unnest(%(configs)s::text[]) AS c (config), unnest(to_tsvector(c.config::regconfig, %(words)s::text)) AS v
"""
NOTE_IDS = "SELECT id FROM notes WHERE file_path = ANY(%s)"
NOTE_PATHS = "SELECT id, file_path FROM notes WHERE id = ANY(%s)"
STRICT = """
SELECT n.id, d.chunk_index
FROM unnest(%(configs)s::text[]) AS c (config)
JOIN notes n ON n.fts_config = c.config
JOIN documents d ON d.file_path = n.file_path
WHERE d.search_tsv @@ websearch_to_tsquery(c.config::regconfig, %(web)s::text)
    AND (%(some)s = '' OR d.search_tsv @@ websearch_to_tsquery(c.config::regconfig, %(some)s::text))
LIMIT %(most)s
"""
STRICT_NOTES = """
SELECT n.file_path, min(s.chunk_index), 0.0::float8, 0
FROM unnest(%(notes)s::int[], %(chunks)s::int[]) AS s (note_id, chunk_index) JOIN notes n ON n.id = s.note_id
WHERE %(allowed)s::int[] IS NULL OR n.id = ANY(%(allowed)s::int[])
GROUP BY n.file_path ORDER BY n.file_path LIMIT %(count)s
"""
# A query of stop words only ("to be or not to be") is looked for as it is written, word by word.
LITERAL = """
SELECT d.file_path, min(d.chunk_index), 0.5::float8, 1
FROM documents d JOIN notes n USING (file_path)
WHERE d.content ~* %(pattern)s
    AND (%(allowed)s::int[] IS NULL OR n.id = ANY(%(allowed)s::int[]))
GROUP BY d.file_path ORDER BY d.file_path LIMIT %(count)s
"""


def search_keywords(
    conn: Connection,
    facts: IndexFacts,
    query: str,
    count: int,
    *,
    allowed: Sequence[int] | None = None,
    also: Sequence[str] = (),
    without: Collection[str] = (),
) -> KeywordResult:
    """The `count` best notes for a query, and those in `also` that hold any of its words.

    Quoted phrases, OR and -words mean what websearch_to_tsquery takes them for; other words are ranked, and
    none of them is required. `allowed` are note ids to stay within. `without` names parts to leave out for a
    measurement: `compounds`, and `note`, the share of the whole note in the score.
    """
    operators = read_operators(query)
    text = operators.scored if operators else query
    words, raw, only_stop_words = _read_words(conn, facts.configs, text, without)
    strict, loosened = _find_strict(conn, facts.configs, operators)
    if only_stop_words:
        hits = _list_strict(conn, strict, count, allowed) or _match_literally(conn, query, count, allowed)
        if hits or not words:
            return KeywordResult(hits, 0)
    share = 0.0 if "note" in without else NOTE_SHARE
    hits, nowhere = _score(conn, facts.totals, words, strict, count, allowed, also, share)
    if strict and not loosened:
        scored = {hit.file_path for hit in hits}
        others = [hit for hit in _list_strict(conn, strict, count, allowed) if hit.file_path not in scored]
        hits = (*hits, *others)[: max(count, len(hits))]
    wholes = [word.lexemes[0] for i, word in enumerate(words) if word.optional and i not in nowhere]
    unknown = [raw[i] for i in nowhere if i in raw and not any(raw[i].lower() in whole for whole in wholes)]
    missing = name_unknown(text, set(unknown), set(wholes)) if unknown else ()
    return KeywordResult(hits, len(raw), tuple(unknown), loosened, missing)


def read_words(conn: Connection, query: str) -> dict[str, Word]:
    """The words that a query is looked for by, by their raw spelling; parts and wholes are left out."""
    operators = read_operators(query)
    words, raw, _ = _read_words(conn, list_configs(conn), operators.scored if operators else query, ())
    return {spelled: words[place] for place, spelled in raw.items()}


def _read_words(
    conn: Connection, configs: Sequence[str], text: str, without: Collection[str]
) -> tuple[list[Word], dict[int, str], bool]:
    """The words to look for, the raw spelling of each by its place among them, and whether all are stop words
    of the query's language and mean something in another at most.
    """
    terms = analyze_query(text)
    spelled = terms.words.split()
    rows = conn.execute(LEXEMES, {"configs": list(configs), "words": terms.words}).fetchall()
    by_config: dict[str, dict[int, str]] = {config: {} for config in configs}
    for config, position, lexeme in rows:
        by_config[config][position] = lexeme
    # The query is in the language that knows most of its words as stop words; what that language drops is
    # not a rare word of another. The commonest configuration comes first and wins a tie.
    language = min(configs, key=lambda config: len(by_config[config]))
    kept = by_config[language] or {p: x for found in by_config.values() for p, x in found.items()}
    chosen = [(p, [f[p] for f in by_config.values() if p in f]) for p in sorted(kept)]
    raw = {i: spelled[p - 1] for i, (p, _) in enumerate(chosen) if p <= len(spelled)}
    # `youtube` is also looked for unstemmed, as the whole of a `YouTube` is kept, and the other way round.
    words = [
        Word(tuple(dict.fromkeys((*lexemes, *_unstemmed(raw.get(i), lexemes[0])))))
        for i, (_, lexemes) in enumerate(chosen)
    ]
    stems = _stem_wholes(conn, configs, terms.wholes)
    for whole in terms.wholes:
        words.append(Word(tuple(dict.fromkeys((whole, *stems.get(whole, ())))), optional=True))
    compounds = {} if "compounds" in without else split_compounds(conn, configs, raw)
    for parts in compounds.values():
        words += [Word((part,), PART_WEIGHT, optional=True) for part in parts]
    return words, raw, not by_config[language] and not terms.wholes


def _unstemmed(spelled: str | None, lexeme: str) -> tuple[str, ...]:
    """The word itself; nothing where the database's parser has cut the text into other words than we."""
    return (spelled.lower(),) if spelled and spelled.lower()[:1] == lexeme[:1] else ()


def _stem_wholes(
    conn: Connection, configs: Sequence[str], wholes: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """The lexemes of wholes that are one word in another case (`YouTube`)."""
    plain = [whole for whole in wholes if len(whole) > 1 and whole.isalnum()]
    if not plain:
        return {}
    rows = conn.execute(LEXEMES, {"configs": list(configs), "words": " ".join(plain)}).fetchall()
    return {
        whole: tuple(dict.fromkeys(lexeme for _, position, lexeme in rows if position == place))
        for place, whole in enumerate(plain, 1)
    }


def _find_strict(
    conn: Connection, configs: Sequence[str], operators: Operators | None
) -> tuple[list[tuple[int, int]] | None, bool]:
    """Chunks (note id, chunk index) that the operators leave; None where every chunk may answer.

    Where nothing holds the query as written, phrases and exclusions are kept and other words are not
    required: a sentence with a quoted name in it is still answered.
    """
    if operators is None:
        return None, False
    # Of exclusions alone most chunks are left; those with some word of the query are enough to be ranked.
    some = " or ".join(f'"{word}"' for word in analyze_query(operators.scored).words.split())
    for loosened, web in enumerate((operators.web, operators.required)):
        if web:
            values = {"configs": list(configs), "web": web, "some": some * loosened, "most": MOST_STRICT}
            found = conn.execute(STRICT, values).fetchall()
            if found:
                return found, bool(loosened)
    return [], True


def _score(
    conn: Connection,
    totals: Totals,
    words: Sequence[Word],
    strict: Sequence[tuple[int, int]] | None,
    count: int,
    allowed: Sequence[int] | None,
    also: Sequence[str],
    share: float,
) -> tuple[tuple[KeywordHit, ...], list[int]]:
    lexemes = [(lexeme, i) for i, word in enumerate(words) for lexeme in word.lexemes]
    weights = Weights(
        np.array([word.weight for word in words]), np.array([word.optional for word in words], dtype=bool)
    )
    others = [row[0] for row in conn.execute(NOTE_IDS, (list(also),)).fetchall()] if also else []
    every = strict is not None or allowed is not None
    found = find_postings(conn, lexemes, weights, totals, others, every=every)
    ranked = rank_notes(
        found.postings,
        weights,
        found.counts,
        totals,
        share=share,
        nearly=NEARLY_AS_GOOD,
        count=count,
        also=others,
        allowed=allowed,
        strict=strict,
    )
    paths: dict[int, str] = dict(conn.execute(NOTE_PATHS, ([note.note for note in ranked],)).fetchall())
    hits = [
        KeywordHit(paths[note.note], note.chunk, note.score, note.matched, note.further)
        for note in ranked
        if note.note in paths
    ]
    hits.sort(key=lambda hit: (-hit.score, hit.file_path))
    return tuple(hits), [int(word) for word in np.flatnonzero(found.counts.notes == 0)]


def _list_strict(
    conn: Connection,
    strict: Sequence[tuple[int, int]] | None,
    count: int,
    allowed: Sequence[int] | None,
) -> tuple[KeywordHit, ...]:
    """What a query of exclusions only leaves, in the order of the paths: there is nothing to rank by."""
    values = {
        "notes": [note for note, _ in strict or ()],
        "chunks": [chunk for _, chunk in strict or ()],
        "allowed": None if allowed is None else list(allowed),
        "count": count,
    }
    return tuple(KeywordHit(*row) for row in conn.execute(STRICT_NOTES, values).fetchall())


def _match_literally(
    conn: Connection, query: str, count: int, allowed: Sequence[int] | None
) -> tuple[KeywordHit, ...]:
    written = re.findall(r"\w+", query)[:MOST_LITERAL]
    if not written:
        return ()
    pattern = r"\m" + r"\W+".join(written) + r"\M"
    values = {"pattern": pattern, "count": count, "allowed": None if allowed is None else list(allowed)}
    return tuple(KeywordHit(*row) for row in conn.execute(LITERAL, values).fetchall())
