"""The retriever of names: titles, aliases and headings as wholes, in part, and with a slip of the pen.

Silent unless the query as a whole is a name, or part of one. Only the best kind of match is returned.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from obsidian_rag.analysis import LONGEST_TERM, analyze, list_keys, list_trigrams
from obsidian_rag.postgres import Connection

NameMatch = Literal["exact_title", "alias", "heading", "title_phrase", "alias_phrase", "fuzzy_title"]

LEAST_RUN = 2  # words that part of a name must have to mean it
LEAST_SIMILARITY = 0.72  # of a misspelt word to the word meant: two slips in seven letters
FUZZY_CANDIDATES = 200
LEAST_LIKENESS = 0.5  # of a whole name to the query: else a slip of one word speaks for the others
NEARLY_AS_LIKE = 0.9  # of the likest name; others are not what was meant

EXACT = """
SELECT n.file_path, m.kind, m.name FROM note_names m JOIN notes n ON n.id = m.note_id
WHERE md5(m.key) IN (SELECT md5(k) FROM unnest(%(keys)s::text[]) AS k) AND m.key = ANY(%(keys)s::text[])
    AND m.kind IN ('title', 'alias', 'heading')
    AND (%(allowed)s::int[] IS NULL OR n.id = ANY(%(allowed)s::int[]))
ORDER BY n.file_path LIMIT %(count)s
"""
# A name without any word, like `---`, has no key; it is looked for as it is written.
WORDLESS = """
SELECT file_path, CASE WHEN lower(normalize(title)) = q.name THEN 'exact_title' ELSE 'alias' END AS match,
       title
FROM notes n, (SELECT lower(normalize(%(name)s::text)) AS name) AS q
WHERE (lower(normalize(title)) = q.name
        OR q.name IN (SELECT lower(normalize(alias)) FROM unnest(aliases) AS alias))
    AND (%(allowed)s::int[] IS NULL OR n.id = ANY(%(allowed)s::int[]))
ORDER BY match DESC, file_path LIMIT %(count)s
"""
# The shortest name that holds the run is the one that is least about something else.
PHRASE = """
SELECT n.file_path, m.kind, m.name FROM note_names m JOIN notes n ON n.id = m.note_id
WHERE m.words @> %(words)s::text[] AND position(' ' || %(key)s || ' ' IN ' ' || m.key || ' ') > 0
    AND m.kind <> 'heading' AND (%(allowed)s::int[] IS NULL OR n.id = ANY(%(allowed)s::int[]))
ORDER BY length(m.key), n.file_path LIMIT %(count)s
"""
SIMILAR = """
SELECT n.file_path, m.kind, m.name, m.key FROM note_names m JOIN notes n ON n.id = m.note_id
WHERE m.trigrams && %(trigrams)s::text[]
    AND (%(allowed)s::int[] IS NULL OR n.id = ANY(%(allowed)s::int[]))
ORDER BY cardinality(ARRAY(SELECT unnest(m.trigrams) INTERSECT SELECT unnest(%(trigrams)s::text[]))) DESC,
         length(m.key), n.file_path
LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True)
class NameHit:
    """A note whose name matches; `name` is the name as it is written there."""

    file_path: str
    match: NameMatch
    name: str


def search_names(
    conn: Connection, query: str, count: int, content_words: int, allowed: Sequence[int] | None = None
) -> list[NameHit]:
    """Notes named by the query, best first. `content_words` is how many of its words are not stop words."""
    keys = list_keys(query.strip("\"' ?!."))
    if not list_keys(query):
        asked = {"name": query, "count": count, "allowed": _as_list(allowed)}
        return [NameHit(*row) for row in conn.execute(WORDLESS, asked).fetchall()]
    if not keys or len(keys[0]) > 2 * LONGEST_TERM:
        return []
    exact = conn.execute(EXACT, {"keys": list(keys), "count": count, "allowed": _as_list(allowed)}).fetchall()
    for kind, match in (("title", "exact_title"), ("alias", "alias"), ("heading", "heading")):
        hits = [NameHit(path, match, name) for path, k, name in exact if k == kind]  # type: ignore[arg-type]
        if hits:
            return _once(hits)
    rows: list[Any] = []
    for key in keys:
        if not rows and min(len(key.split()), content_words) >= LEAST_RUN:
            # Longer words are in the key only.
            words = [word for word in key.split() if len(word) <= LONGEST_TERM]
            asked = {"key": key, "words": words, "count": count, "allowed": _as_list(allowed)}
            rows = conn.execute(PHRASE, asked).fetchall()
    return _once(
        [
            NameHit(path, "title_phrase" if kind == "title" else "alias_phrase", name)
            for path, kind, name in rows
        ]
    )


def search_similar_names(
    conn: Connection, query: str, unknown: Sequence[str], count: int, allowed: Sequence[int] | None = None
) -> list[NameHit]:
    """Notes whose name holds every word of the query, the unknown ones with a slip. For a query with words
    that occur nowhere; others mean what they say.
    """
    words = analyze(query).key.split()
    misspelt = {analyze(word).key for word in unknown}
    trigrams = list_trigrams(" ".join(misspelt))
    if not trigrams or len(words) > 12:
        return []
    values = {"trigrams": trigrams, "most": FUZZY_CANDIDATES, "allowed": _as_list(allowed)}
    scored = []
    for path, _, name, key in conn.execute(SIMILAR, values).fetchall():
        similarity = _compare(words, misspelt, key.split())
        if similarity >= LEAST_LIKENESS:
            scored.append((similarity, NameHit(path, "fuzzy_title", name)))
    scored.sort(key=lambda pair: (-pair[0], len(pair[1].name), pair[1].file_path))
    return _once([hit for similarity, hit in scored if similarity >= NEARLY_AS_LIKE * scored[0][0]])[:count]


def _compare(words: Sequence[str], misspelt: set[str], named: Sequence[str]) -> float:
    """Mean similarity of the misspelt words to the name's words, times the share of the name that is asked
    for; 0 where one of them is like none.
    """
    # In a longer word no slip can be told, and looking for one takes the square of its length.
    if any(len(word) > LONGEST_TERM for word in misspelt):
        return 0.0
    found = 0.0
    short = [n for n in named if len(n) <= LONGEST_TERM]
    for word in misspelt:
        best = max((difflib.SequenceMatcher(None, word, n).ratio() for n in short), default=0.0)
        if best < LEAST_SIMILARITY:
            return 0.0
        found += best
    others = [word for word in words if word not in misspelt]
    shared = sum(1 for word in others if word in named)
    return (found + shared) / max(len(words), len(named))


def _once(hits: Sequence[NameHit]) -> list[NameHit]:
    best: dict[str, NameHit] = {}
    for hit in hits:
        best.setdefault(hit.file_path, hit)
    return list(best.values())


def _as_list(allowed: Sequence[int] | None) -> list[int] | None:
    return None if allowed is None else list(allowed)
