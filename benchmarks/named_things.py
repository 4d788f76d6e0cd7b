"""Does a name find its note? Questions made from a vault's own titles and aliases, asked of its index.

usage: python benchmarks/named_things.py VAULT [--each 40] [--mode hybrid] [--show]

The index is that of the settings (DATABASE_URL or the embedded server) and must hold VAULT. Kinds:

  title       a title as it is written
  alias       an alias as it is written
  part        a run of two or more words of a title, that no other note's names hold
  typo        a title with one edit in a word of six letters or more
  case        a title in another case
  diacritics  a title without its diacritics, or with one it does not have

A question is answered where the first note is one that bears the name. Names that several notes bear count
for each of them; a changed name that is another note's own is not asked. Prints hit@1 of each kind; --show
also prints the questions that failed. Exit code 1 where titles or aliases are under .98.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from obsidian_rag.analysis import analyze
from obsidian_rag.config import load_settings
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.postgres import Connection
from obsidian_rag.search.pipeline import search
from obsidian_rag.search.query import make_request

GOAL = 0.98
SEED = 7
LONG_WORD = 6  # letters of a word in which a slip still leaves it readable
CONTENT_WORD = 5  # letters from which a word of a title is taken to have content
ACCENTS = {"a": "á", "e": "é", "i": "í", "o": "ö", "u": "ü", "n": "ñ", "c": "ç"}
KINDS = ("title", "alias", "part", "typo", "case", "diacritics")

Question = tuple[str, frozenset[str]]
Names = Mapping[str, frozenset[str]]
Change = Callable[[str, random.Random], str]


def read_names(conn: Connection) -> tuple[list[tuple[str, str]], list[tuple[str, str]], Names]:
    """Titles and aliases with their note, and the notes that bear each name."""
    rows = conn.execute("SELECT file_path, title, aliases FROM notes ORDER BY file_path").fetchall()
    titles = [(title, path) for path, title, _ in rows]
    aliases = [(alias, path) for path, _, found in rows for alias in found]
    bearers: defaultdict[str, set[str]] = defaultdict(set)
    for name, path in (*titles, *aliases):
        bearers[analyze(name).key].add(path)
    return titles, aliases, {key: frozenset(paths) for key, paths in bearers.items() if key}


def make_questions(conn: Connection, each: int) -> dict[str, list[Question]]:
    """At most `each` questions of every kind, always the same for the same index."""
    titles, aliases, bearers = read_names(conn)
    chance = random.Random(SEED)
    made = {
        "title": [(title, bearers[key]) for title, _ in titles if (key := analyze(title).key) in bearers],
        "alias": [(alias, bearers[key]) for alias, _ in aliases if (key := analyze(alias).key) in bearers],
        "part": list(list_parts(titles, bearers, chance)),
        "typo": list(change(titles, bearers, chance, misspell)),
        "case": list(change(titles, bearers, chance, change_case)),
        "diacritics": list(change(titles, bearers, chance, change_diacritics)),
    }
    return {kind: chance.sample(found, min(each, len(found))) for kind, found in made.items()}


def list_parts(
    titles: Sequence[tuple[str, str]], bearers: Names, chance: random.Random
) -> Iterator[Question]:
    """A run of words from each title that only one note's names hold."""
    padded = {f" {key} ": paths for key, paths in bearers.items()}
    for title, path in titles:
        words = title.split()
        runs = [
            " ".join(words[first:last])
            for first in range(len(words))
            for last in range(first + 2, len(words) + 1)
            if last - first < len(words)
            and sum(len(word) >= CONTENT_WORD and word.isalpha() for word in words[first:last]) > 1
        ]
        chance.shuffle(runs)
        for run in runs:
            key = f" {analyze(run).key} "
            holders = {note for name, paths in padded.items() if key in name for note in paths}
            if holders == {path}:
                yield run, frozenset(holders)
                break


def change(
    titles: Sequence[tuple[str, str]], bearers: Names, chance: random.Random, how: Change
) -> Iterator[Question]:
    """Titles changed, unless into the name of another note."""
    for title, path in titles:
        changed = how(title, chance)
        key = analyze(changed).key
        if changed == title or not key:
            continue
        bearing = bearers.get(analyze(title).key, frozenset()) | {path}
        if bearers.get(key, bearing) <= bearing:
            yield changed, bearing


def change_case(name: str, chance: random.Random) -> str:
    """Small, large, or every word with a capital."""
    others = [changed for changed in (name.lower(), name.upper(), name.title()) if changed != name]
    return chance.choice(others) if others else name


def misspell(name: str, chance: random.Random) -> str:
    """One letter of a long word left out, doubled, exchanged with the next, or replaced."""
    long_words = list(re.finditer(rf"[^\W\d_]{{{LONG_WORD},}}", name))
    long_words = [word for word in long_words if word.group().isascii()]
    if not long_words:
        return name
    word = chance.choice(long_words)
    at = word.start() + chance.randrange(1, len(word.group()) - 1)
    before, letter, after = name[:at], name[at], name[at + 1 :]
    return chance.choice(
        (
            before + after,
            before + letter + letter + after,
            before + after[0] + letter + after[1:],
            before + chance.choice("aeiourstln") + after,
        )
    )


def change_diacritics(name: str, chance: random.Random) -> str:
    """A name without its diacritics; one that has none gets one."""
    plain = "".join(c for c in unicodedata.normalize("NFD", name) if not unicodedata.combining(c))
    if unicodedata.normalize("NFC", plain) != unicodedata.normalize("NFC", name) and plain.isascii():
        return plain
    places = [at for at, letter in enumerate(name) if letter in ACCENTS]
    if not places:
        return name
    at = chance.choice(places)
    return name[:at] + ACCENTS[name[at]] + name[at + 1 :]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vault")
    parser.add_argument("--each", type=int, default=40, help="questions of each kind")
    parser.add_argument("--mode", default="hybrid")
    parser.add_argument("--show", action="store_true", help="print what failed")
    wanted = parser.parse_args()
    reader = IndexReader(load_settings(os.environ, {"VAULT_PATH": wanted.vault}, Path.cwd()), print)
    rates = {}
    try:
        questions = reader.run(lambda conn: make_questions(conn, wanted.each))
        for kind in KINDS:
            found = 0
            for text, right in questions[kind]:
                answer = search(reader, make_request(text, wanted.mode, 3))
                first = answer.results[0] if answer.results else None
                hit = first is not None and first.file_path in right
                found += hit
                if wanted.show and not hit:
                    shown = f"{first.file_path} ({first.evidence})" if first else "nothing"
                    print(f"  {kind}: {text!r} wants {sorted(right)[0]}, got {shown}")
            if questions[kind]:
                rates[kind] = found / len(questions[kind])
                print(f"{kind:<11} n={len(questions[kind]):4d}  hit@1 = {rates[kind]:.3f}")
    finally:
        reader.close()
    asked = sum(map(len, questions.values()))
    print(f"{asked} questions; goal: {GOAL} on titles and aliases")
    return int(min(rates.get("title", 0.0), rates.get("alias", 1.0)) < GOAL)


if __name__ == "__main__":
    sys.exit(main())
