"""Vaults that are made, not written: the same bytes for the same name and size on every machine.

usage: python benchmarks/made_vaults.py FOLDER --notes 14000 | --hub

Words follow a Zipf-Mandelbrot law over 40,000: English function words first, then made-up ones that are
spelled and inflected like English. A note leans on the words of one of many subjects, lies in a folder, and
has front matter, headings, lists, a table, a code block with names of its own, tags and links, most of them
to notes of its subject, some to hubs, some to nothing. Two kinds:

- `notes`: about 7 KB each, as in a vault of grown notes: 14,000 are 100 MB (at 100,000 notes 4 KB each);
- `hub`: 6,571 short notes with many links and tables, and a few index pages of hundreds of links, like a
  community's catalogue.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

VERSION = 2  # of what is made: another one is made anew
VOCABULARY = 40_000
TOPIC_WORDS = 400
HUB_NOTES = 6_571
MANY = 50_000  # notes from which on they are shorter
UNRESOLVED = 0.08  # of the links
BYTES_A_WORD = 7.4  # with what stands around it

_FREQUENT = (
    "the of and to a in is that it for was on are as with be this by have from or had not but what all were"
    " when we there can an your which their if do will each about how up out them then she many some so these"
    " would other into has more her two like him see time could no make than first been its who now people my"
    " made over did down only way find use may water long little very after words called just where most know"
    " get through back much before go good new write our used me man too any day same right look think also"
    " around another came come work three word must because does part even place well such here take why help"
    " put different away again off went old number great tell men say small every found still between name"
)
FUNCTION_WORDS = _FREQUENT.split()
COMMON = ["time", "water", "people", "work", "number", "great"]  # of them, and no stop words
ONSETS = [
    *"bcdfghjklmnprstvwbcdfglmnprst",
    "br",
    "ch",
    "cl",
    "cr",
    "dr",
    "fl",
    "gr",
    "pl",
    "pr",
    "sh",
    "st",
    "tr",
]
NUCLEI = ["a", "e", "i", "o", "u", "a", "e", "i", "o", "ai", "ea", "ee", "ie", "oa", "ou"]
CODAS = ["", "", "", "", "l", "m", "n", "n", "r", "r", "s", "t", "t", "nd", "st", "ck"]
ENDINGS = ["", "", "", "", "", "", "", "s", "s", "ed", "ing", "er", "ly", "tion", "al", "ment"]


@dataclass(frozen=True)
class Plan:
    """What a vault is to be."""

    kind: str
    notes: int
    mean_bytes: int
    links: int  # to a note, on average
    seed: int

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.notes}-v{VERSION}"


def plan_notes(count: int) -> Plan:
    return Plan("notes", count, 7_100 if count < MANY else 4_000, 7, 20_000 + count)


def plan_hub(count: int = HUB_NOTES) -> Plan:
    return Plan("hub", count, 2_300, 12, 7)


@dataclass(frozen=True)
class MadeVault:
    """A vault on disk, and words to look for in it."""

    root: Path
    notes: int
    bytes: int
    rare: list[str]
    frequent: list[str]
    questions: list[str]
    titles: list[str]


def provide(cache: Path, plan: Plan) -> MadeVault:
    """The vault, from the cache folder or made now. It must not be changed there; see `copy_vault`."""
    home = cache / plan.name
    if not (home / "facts.json").exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            made = Path(folder) / "made"
            facts = _Maker(plan).write(made / "vault")
            (made / "facts.json").write_text(json.dumps(facts))
            if home.exists():
                shutil.rmtree(home)
            made.rename(home)
    return MadeVault(home / "vault", **json.loads((home / "facts.json").read_text()))


def copy_vault(vault: MadeVault, target: Path) -> MadeVault:
    """A copy to change."""
    shutil.copytree(vault.root, target)
    return MadeVault(**{**asdict(vault), "root": target})


def make_words(count: int, chance: random.Random) -> list[str]:
    """So many different words; early ones, which will be frequent, are short."""
    words: dict[str, None] = dict.fromkeys(FUNCTION_WORDS)
    while len(words) < count:
        syllables = 1 + (len(words) > 700) + (chance.random() < len(words) / count)
        stem = "".join(chance.choice(ONSETS) + chance.choice(NUCLEI) for _ in range(syllables))
        words[stem + chance.choice(CODAS) + chance.choice(ENDINGS)] = None
    return list(words)[:count]


class _Words:
    """A stream of words by frequency, drawn in blocks: one draw each would take most of the time."""

    def __init__(self, chance: np.random.Generator) -> None:
        self._chance = chance
        self.all = make_words(VOCABULARY, random.Random(1))
        weights = 1 / (np.arange(VOCABULARY) + 2.7)
        self._sums = np.cumsum(weights / weights.sum())
        topical = 1 / (np.arange(TOPIC_WORDS) + 5.0)
        self._topic_sums = np.cumsum(topical / topical.sum())
        self._array = np.array(self.all, dtype=object)

    def draw(self, count: int, topic: int) -> list[str]:
        """So many words; about a quarter is of the topic's own."""
        general = np.searchsorted(self._sums, self._chance.random(count))
        own = np.searchsorted(self._topic_sums, self._chance.random(count))
        start = topic * 7919
        own = len(FUNCTION_WORDS) + (start + own * 89) % (VOCABULARY - len(FUNCTION_WORDS))
        mixed = np.where(self._chance.random(count) < 0.25, own, general)
        mixed = np.minimum(mixed, VOCABULARY - 1)
        return list(self._array[mixed])

    def content(self, topic: int, place: int) -> str:
        """One of the topic's words."""
        start = topic * 7919 + place * 89
        return self.all[len(FUNCTION_WORDS) + start % (VOCABULARY - len(FUNCTION_WORDS))]


class _Maker:
    """Writes one vault."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.chance = np.random.default_rng(plan.seed)
        self.words = _Words(self.chance)
        self.topics = max(8, plan.notes // 60)
        self.topic_of = self.chance.integers(self.topics, size=plan.notes)
        self.folders = self._name_folders()
        self.titles = self._name_notes()
        self.by_topic: dict[int, list[int]] = {}
        for note, topic in enumerate(self.topic_of):
            self.by_topic.setdefault(int(topic), []).append(note)

    def write(self, root: Path) -> dict[str, object]:
        size = 0
        for folder in sorted(set(self.folders)):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / ".obsidian").mkdir()
        (root / ".obsidian" / "app.json").write_text("{}")
        for note in range(self.plan.notes):
            text = self._write_note(note).encode()
            size += len(text)
            name = os.path.join(root, self.folders[self.topic_of[note]], f"{self.titles[note]}.md")  # noqa: PTH118
            with open(name, "wb") as file:  # noqa: PTH123 - a Path a note is a third of the time
                file.write(text)
        few = range(0, self.plan.notes, max(1, self.plan.notes // 40))
        return {
            "notes": self.plan.notes,
            "bytes": size,
            "rare": [self.words.all[20_000 + 97 * n] for n in range(40)],
            "frequent": COMMON + [self.words.all[len(FUNCTION_WORDS) + n] for n in range(14)],
            "questions": [self._ask(note) for note in few],
            "titles": [self.titles[note] for note in few],
        }

    def _name_folders(self) -> list[str]:
        """One folder for each topic; topics share the upper ones."""
        name = self.words.content
        return [
            f"{name(topic // 12 * 12, 3).title()}/{name(topic, 1).title()} {topic}"
            for topic in range(self.topics)
        ]

    def _name_notes(self) -> list[str]:
        taken: set[str] = set()
        titles = []
        for topic in self.topic_of:
            count = 1 + int(self.chance.integers(4))
            words = [
                self.words.content(int(topic), int(self.chance.integers(TOPIC_WORDS))) for _ in range(count)
            ]
            title = " ".join(words).capitalize() if self.chance.random() < 0.5 else " ".join(words).title()
            while title.lower() in taken:
                title += f" {self.words.all[self.chance.integers(200, 20_000)]}"
            taken.add(title.lower())
            titles.append(title)
        return titles

    def _ask(self, note: int) -> str:
        topic = int(self.topic_of[note])
        a, b, c = (self.words.content(topic, int(place)) for place in self.chance.integers(40, size=3))
        forms = (
            f"what did we find about the {a} and the {b}",
            f"how does {a} work with {b} when there is no {c}",
            f"which {a} was used for the {b} {c}",
            f"why is the {a} not {b}",
        )
        return forms[note % len(forms)]

    def _write_note(self, note: int) -> str:
        topic = int(self.topic_of[note])
        sigma = 0.75
        mean = self.plan.mean_bytes
        size = float(np.clip(self.chance.lognormal(np.log(mean) - sigma**2 / 2, sigma), mean / 10, mean * 8))
        links = self._links(note)
        room = size - 200 - 33 * len(links) - (400 if self.plan.kind == "hub" else 100)
        words = self.words.draw(int(max(0.0, room) / BYTES_A_WORD) + 12, topic)
        parts = [self._front_matter(note, topic), f"# {self.titles[note]}\n"]
        sections = max(1, min(12, round(size / 1_600 + self.chance.normal(0, 0.7))))
        if self.plan.kind == "hub" and note % 100 == 0:
            parts.append(self._index_page(note))
        share = len(words) // sections
        for section in range(sections):
            own = words[section * share : (section + 1) * share]
            if section:
                level = "###" if self.chance.random() < 0.3 else "##"
                parts.append(f"{level} {' '.join(own[:3]).capitalize()}\n")
            parts.append(self._prose(own[3:], links))
        roll = self.chance.random()
        if self.plan.kind == "hub" or roll < 0.15:
            parts.append(self._table(topic, links))
        if roll > 0.8:
            parts.append(self._code(note, topic))
        if links:
            parts.append("## See also\n\n" + "".join(f"- {link}\n" for link in links))
        return "\n".join(parts)

    def _front_matter(self, note: int, topic: int) -> str:
        if self.chance.random() < 0.2:
            return ""
        tags = f"tags: [{self.words.content(topic, 0)}, {self.words.content(topic, 1 + note % 9)}]\n"
        alias = f'aliases: ["{self.words.content(topic, note % 301)} {note}"]\n' if note % 6 == 0 else ""
        day = f"created: {2015 + note % 11}-{1 + note % 12:02}-{1 + note % 28:02}\n"
        return f"---\n{tags}{alias}{day}status: {('open', 'done', 'idea')[note % 3]}\n---\n"

    def _links(self, note: int) -> list[str]:
        count = int(self.chance.poisson(self.plan.links))
        near = self.by_topic[int(self.topic_of[note])]
        links = []
        for roll, form in self.chance.random((count, 2)):
            if roll < UNRESOLVED:
                links.append(f"[[{self.words.all[self.chance.integers(300, 30_000)].title()} to write]]")
                continue
            hubs = roll > 0.6  # a few notes get many links
            target = (
                int(self.plan.notes * self.chance.random() ** 4)
                if hubs
                else near[self.chance.integers(len(near))]
            )
            title = self.titles[target]
            if form < 0.6:
                links.append(f"[[{title}]]")
            elif form < 0.75:
                links.append(f"[[{title}|{self.words.all[self.chance.integers(300, 3_000)]}]]")
            elif form < 0.85:
                links.append(f"[[{self.folders[self.topic_of[target]]}/{title}]]")
            elif form < 0.93:
                links.append(f"[[{title}#See also]]")
            else:
                links.append(f"[{title}](<{self.folders[self.topic_of[target]]}/{title}.md>)")
        return links

    def _prose(self, words: list[str], links: list[str]) -> str:
        """Paragraphs and a list; every other link finds its place in a sentence."""
        lines: list[str] = []
        lengths = self.chance.integers(7, 22, size=len(words) // 7 + 1)
        rolls = self.chance.random(len(lengths))
        start = 0
        for length, roll in zip(lengths, rolls, strict=True):
            if start >= len(words):
                break
            sentence = " ".join(words[start : start + length])
            start += length
            if links and roll < 0.12:
                sentence += f" {links.pop()}"
            if 0.5 < roll < 0.6:
                sentence = sentence.replace(" ", ", ", 1)
            if roll > 0.85:
                begun = lines and lines[-1].lstrip().startswith("- ")
                lines.append(f"- {sentence}" if begun else f"\n- {sentence}")
            elif roll > 0.7:
                lines.append(f"\n{sentence[:1].upper()}{sentence[1:]}.")
            else:
                lines.append(f"{sentence[:1].upper()}{sentence[1:]}.")
        return "\n".join(lines) + "\n"

    def _table(self, topic: int, links: list[str]) -> str:
        rows = "".join(
            f"| {self._cell(links)} | {' '.join(self.words.draw(4, topic))} | {n * 7} |\n"
            for n in range(3 + int(self.chance.integers(6)))
        )
        return f"| What | Why | Count |\n| --- | --- | --- |\n{rows}"

    def _cell(self, links: list[str]) -> str:
        return links.pop().replace("|", r"\|") if links else "-"

    def _code(self, note: int, topic: int) -> str:
        word = self.words.content
        name = f"{word(topic, 5)}_{note}"
        body = "".join(
            f'    {word(topic, place)} = load("{word(topic, place + 9)}", {place})\n'
            for place in range(6, 11)
        )
        return f"```python\ndef run_{name}(path):\n{body}    return {name.upper()}\n```\n"

    def _index_page(self, note: int) -> str:
        count = int(self.chance.integers(200, 800))
        targets = self.chance.integers(self.plan.notes, size=min(count, self.plan.notes))
        return "".join(f"- [[{self.titles[int(target)]}]]\n" for target in targets)


def hash_vault(root: Path) -> str:
    """One hash over the names and bytes of all notes."""
    total = hashlib.sha256()
    for file in sorted(root.rglob("*.md")):
        total.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return total.hexdigest()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Make a vault.")
    parser.add_argument("folder", type=Path)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--notes", type=int)
    what.add_argument("--hub", action="store_true")
    options = parser.parse_args(arguments)
    vault = provide(options.folder, plan_hub() if options.hub else plan_notes(options.notes))
    print(f"{vault.root}: {vault.notes} notes, {vault.bytes / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
