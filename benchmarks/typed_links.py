"""What do the links of a vault say, how many say anything, and what does it cost to find out?

usage: python benchmarks/typed_links.py VAULT [--samples 60] [--seed 7] [--relations FILE.toml]

Reads the notes as the indexer does, without a database and without an embedder, and prints: how many links
stand at how many places, the share of places that say a relation, the seconds of processor time for parsing
and for typing, and the commonest relations by the surest at each place. `--samples` shows so many typed
places by lot, each with what it says, what it stands under and its sentence, the link in ⟦brackets⟧: to be
judged by eye.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from obsidian_rag.config import parse_vaults
from obsidian_rag.link_rows import type_mentions
from obsidian_rag.models import Mention, Note
from obsidian_rag.notes import parse_note
from obsidian_rag.relations import load_table
from obsidian_rag.vaults import open_vaults

COMMONEST = 20

Relations = Mapping[str, float]


def read_notes(vault: str) -> tuple[list[Note], float]:
    """The notes of a vault, and the processor seconds that parsing them took."""
    reader = open_vaults(parse_vaults(vault))
    texts = [(file.path, reader.decode(reader.read(file.path))[0]) for file in reader.notes]
    started = time.process_time()
    notes = [parse_note(path, text) for path, text in texts]
    return notes, time.process_time() - started


def show(note: Note, mention: Mention, relations: Relations) -> str:
    """A place with what it says, in a few lines."""
    link = note.links[mention.link]
    said = ", ".join(f"{name} {sure:.2f}" for name, sure in sorted(relations.items(), key=lambda r: -r[1]))
    at, to = mention.first, mention.last
    sentence = f"{mention.sentence[:at]}⟦{mention.sentence[at:to]}⟧{mention.sentence[to:]}"
    place = " / ".join(" ".join(line.split()) for line in mention.context.splitlines())
    parts = [said, f"{note.file_path}:{mention.line} -> {link.target}"]
    parts += [f"label {mention.label}"] if mention.label else []
    parts += [f"under {place}"] if place else []
    parts += [" ".join(sentence.split())] if mention.sentence else []
    return "\n    ".join(parts)


def report(notes: Sequence[Note], said: Sequence[Sequence[Relations]], parsing: float, typing: float) -> None:
    """Print counts, times and the commonest relations."""
    links = sum(len(note.links) for note in notes)
    places = [relations for found in said for relations in found]
    surest = Counter(max(relations, key=lambda name: relations[name]) for relations in places if relations)
    typed = surest.total()
    print(f"{len(notes)} notes, {links} links at {len(places)} places, {typed} typed", end="")
    print(f" ({typed / len(places):.1%})" if places else "")
    print(f"parsing {parsing:.2f} s, typing {typing:.2f} s, {typing / parsing:.0%} of parsing")
    for name, count in surest.most_common(COMMONEST):
        print(f"{count:7d}  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vault")
    parser.add_argument("--samples", type=int, default=0, help="typed places to show")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--relations", type=Path, help="a table of your own, as LINK_RELATIONS")
    wanted = parser.parse_args()
    table = load_table(wanted.relations)
    notes, parsing = read_notes(wanted.vault)
    started = time.process_time()
    said = [type_mentions(note, table) for note in notes]
    report(notes, said, parsing, time.process_time() - started)
    typed = [
        (note, mention, relations)
        for note, found in zip(notes, said, strict=True)
        for mention, relations in zip(note.mentions, found, strict=True)
        if relations
    ]
    for place in random.Random(wanted.seed).sample(typed, min(wanted.samples, len(typed))):
        print(f"\n  {show(*place)}")


if __name__ == "__main__":
    main()
