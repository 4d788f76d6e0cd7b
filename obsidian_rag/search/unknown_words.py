"""Words of a query that no note holds: as they were written, and those of the notes that may be meant."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import regex
from rapidfuzz.distance import OSA

from obsidian_rag.analysis import analyze_query, fold, is_unspaced, list_pieces
from obsidian_rag.postgres import Connection

SHORTEST = 4  # letters of a word in which a slip is looked for: shorter ones are near too many others
LONGEST = 30
LONG = 8  # letters from which two slips are forgiven
KNOWN_START = 4  # letters that a word with two slips must have right
MOST_WORDS = 3  # of a query, for which words of the notes are looked up
MOST_SCANNED = 500  # lexemes with the same beginning
ENOUGH = 50  # chunks: a word in more of them is no likelier
MOST_CONFIGS = 3  # text search configurations in which words are compared
MOST_LEXEMES = 8  # of which the written form is looked up
SAMPLES = 5  # chunks of each that are read for it
MOST_OFFERED = 2  # words for one that is not there

# Words with one slip are found by all words that one slip makes, each asked for by the index's key; of those
# with two slips the lexemes that begin alike are read, each by one step down the index.
NEAR = """
WITH RECURSIVE scan (word, start, lexeme, number) AS (
    SELECT s.word, s.start, (SELECT min(p.lexeme) FROM postings p WHERE p.lexeme >= s.start), 1
    FROM unnest(%(long)s::int[], %(starts)s::text[]) AS s (word, start)
    UNION ALL
    SELECT word, start, (SELECT min(p.lexeme) FROM postings p WHERE p.lexeme > scan.lexeme), number + 1
    FROM scan WHERE starts_with(lexeme, start) AND number < %(most)s
), asked (word, lexeme, scanned) AS (
    SELECT DISTINCT g.word, lexeme, false
    FROM unnest(%(words)s::int[], %(guesses)s::text[]) AS g (word, guesses)
    CROSS JOIN LATERAL (
        SELECT v.lexeme FROM unnest(%(configs)s::text[]) AS c (config)
        CROSS JOIN LATERAL unnest(to_tsvector(c.config::regconfig, g.guesses)) AS v
        UNION SELECT unnest(string_to_array(g.guesses, ' '))) AS l (lexeme)
    UNION ALL
    SELECT word, lexeme, true FROM scan WHERE starts_with(lexeme, start)
)
SELECT asked.word, asked.lexeme, asked.scanned, found.chunks, found.notes, found.indexes FROM asked
CROSS JOIN LATERAL (
    SELECT count(*), array_agg(note_id), array_agg(chunk_index)
    FROM (SELECT note_id, chunk_index FROM postings p WHERE p.lexeme = asked.lexeme LIMIT %(enough)s) AS first
) AS found (chunks, notes, indexes)
WHERE found.chunks > 0
"""
TEXTS = """
SELECT n.id, d.chunk_index, concat_ws(E'\n', n.file_path, n.aliases::text, d.heading_path, d.content)
FROM unnest(%(notes)s::int[], %(chunks)s::int[]) AS s (note_id, chunk_index)
JOIN notes n ON n.id = s.note_id
JOIN documents d ON d.file_path = n.file_path AND d.chunk_index = s.chunk_index
"""
_WORD = re.compile(r"\w+")
_EDGES = regex.compile(r"^[^\p{L}\p{N}_]+|[^\p{L}\p{N}\p{M}_+#]+$")
_ENDINGS = re.compile("^[\u3041-\u309f]+|[\u3041-\u309f]+$")  # hiragana: particles and endings
_IDEOGRAPH = re.compile("[\u3400-\u9fff\uf900-\ufaff]")


def name_unknown(query: str, unknown: Collection[str], known: Collection[str] = ()) -> tuple[str, ...]:
    """What of a query occurs nowhere, as it was written: whole words where none of their parts is known, and
    of text without spaces the runs of signs. `unknown` are words of the analysis, `known` terms beside them
    that were found.
    """
    named: list[str] = []
    for written in unicodedata.normalize("NFC", query).split():
        if is_unspaced(folded := fold(written)):
            named += _name_runs(folded, unknown, known)
            continue
        token = _EDGES.sub("", written)
        parts = analyze_query(token).words.split()
        missing = [part for part in parts if part in unknown]
        spelled = {fold(word): word for word in _WORD.findall(token)}
        whole = missing and len(missing) == len(parts)
        named += [token] if whole else [spelled.get(part, part) for part in missing]
    return tuple(dict.fromkeys(named))


def _name_runs(text: str, unknown: Collection[str], known: Collection[str]) -> Iterator[str]:
    """The runs of signs that belong to no known piece of a text. Pairs across the border of two words mean
    nothing, and pairs of hiragana are not looked for.
    """
    missing: set[int] = set()
    found: set[int] = set()
    for first, last in list_pieces(text):
        (missing if text[first:last] in unknown else found).update(range(first, last))
    loose = missing - found
    for start in sorted(at for at in loose if at - 1 not in loose):
        end = start
        while end in loose:
            end += 1
        run = _ENDINGS.sub("", text[start:end]) or text[start:end]
        if len(run) > 1 or (_IDEOGRAPH.match(run) and run not in known):
            yield run


@dataclass(frozen=True, slots=True)
class _Near:
    """A lexeme of the index that may be that of a word near one in no note: in how many chunks it is, and
    some of them.
    """

    lexeme: str
    chunks: int
    samples: tuple[tuple[int, int], ...]


def find_meant(conn: Connection, configs: Sequence[str], words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """For words that are in no note the words of the notes that are one slip away, or two where they are
    long: likeliest first, as they are written there.
    """
    asked = [word for word in words if word.isalpha() and SHORTEST <= len(word) <= LONGEST]
    asked = [word for word in asked if not is_unspaced(fold(word))][:MOST_WORDS]
    if not asked:
        return {}
    folded = [fold(word).lower() for word in asked]
    slips = [list_slips(word) for word in folded]
    long = [place for place, word in enumerate(folded) if len(word) >= LONG]
    values = {
        "configs": list(configs[:MOST_CONFIGS]),
        "words": list(range(len(folded))),
        "guesses": [" ".join(sorted(guesses)) for guesses in slips],
        "long": long,
        "starts": [folded[place][:KNOWN_START] for place in long],
        "most": MOST_SCANNED,
        "enough": ENOUGH,
    }
    near: list[list[_Near]] = [[] for _ in folded]
    for place, lexeme, scanned, chunks, notes, indexes in conn.execute(NEAR, values).fetchall():
        if not scanned or _may_be_stem(lexeme, folded[place]):
            samples = list(zip(notes, indexes, strict=True))[:SAMPLES]
            near[place].append(_Near(lexeme, chunks, tuple(samples)))
    found = map(_find_written, repeat(conn), folded, slips, near)
    return {word: meant for word, meant in zip(asked, found, strict=True) if meant}


def _may_be_stem(lexeme: str, word: str) -> bool:
    """Whether a lexeme may be that of a word two slips away."""
    if len(set(lexeme) - set(word)) > 2:
        return False
    ends = {len(word), len(lexeme) - 1, len(lexeme), len(lexeme) + 1}
    return any(OSA.distance(word[:end], lexeme, score_cutoff=2) <= 2 for end in ends)


def _find_written(
    conn: Connection, word: str, slips: Collection[str], near: Sequence[_Near]
) -> tuple[str, ...]:
    """The words near one, as chunks with these lexemes write them: those of fewest slips, of these the one
    with the same beginning in most chunks first.
    """
    likeliest = sorted(near, key=lambda one: (-one.chunks, one.lexeme))[:MOST_LEXEMES]
    chunks = {sample: one.chunks for one in reversed(likeliest) for sample in one.samples}
    values = {"notes": [note for note, _ in chunks], "chunks": [index for _, index in chunks]}
    rows = conn.execute(TEXTS, values).fetchall() if chunks else []
    ranks: dict[str, tuple[int, bool, int]] = {}
    spelled: dict[str, Counter[str]] = {}
    for note, index, text in rows:
        for written in _WORD.findall(text):
            plain = fold(written).lower()
            if count := _count_forgiven(word, plain, slips):
                rank = (count, plain[0] != word[0], -chunks[note, index])
                ranks[plain] = min(rank, ranks.get(plain, rank))
                spelled.setdefault(plain, Counter())[written] += 1
    best = sorted(ranks, key=lambda plain: (ranks[plain], plain))[:MOST_OFFERED]
    alike = [plain for plain in best if ranks[plain][0] == ranks[best[0]][0]]
    # What is written small anywhere needs no capital.
    forms = [max(spelled[plain].items(), key=lambda form: (form[0].islower(), form[1])) for plain in alike]
    return tuple(form for form, _ in forms)


def _count_forgiven(word: str, plain: str, slips: Collection[str]) -> int:
    """How many slips part two words, 0 where they are too many, or none."""
    if plain in slips:
        return 1
    if len(word) < LONG or plain == word or not plain.startswith(word[:KNOWN_START]):
        return 0
    return 2 if OSA.distance(word, plain, score_cutoff=2) == 2 else 0


def list_slips(word: str) -> set[str]:
    """All words that one slip makes of a word: a letter left out, exchanged with the next, another or more.

    Letters are those of the word's own alphabets, each of which lies in blocks of 32 signs of Unicode.
    """
    blocks = {ord(letter) // 32 for letter in word}
    signs = [chr(32 * block + at) for block in sorted(blocks) for at in range(32)]
    letters = [sign for sign in signs if sign.isalpha() and sign == fold(sign).lower()]
    halves = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    slips = {left + right[1:] for left, right in halves if right}
    slips |= {left + right[1] + right[0] + right[2:] for left, right in halves if len(right) > 1}
    slips |= {left + letter + right[1:] for left, right in halves if right for letter in letters}
    slips |= {left + letter + right for left, right in halves for letter in letters}
    return slips - {word}
