"""No note costs more than its length: texts on which a search that goes back never ends, read in bounds.

They are read in a process of its own, which the system ends where it takes too much of the processor.
"""

from __future__ import annotations

import json
import random
import resource
import string
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Workbench
from peaks import own_peak

from obsidian_rag.analysis import LONGEST_NAME, LONGEST_TERM
from obsidian_rag.chunks import split_note
from obsidian_rag.encodings import MAX_LINES, decode
from obsidian_rag.errors import NoteError
from obsidian_rag.front_matter import MAX_DEPTH, read_front_matter
from obsidian_rag.link_rows import type_mentions
from obsidian_rag.links import LinkResolver
from obsidian_rag.notes import parse_note
from obsidian_rag.relations import Table, load_table
from obsidian_rag.store import join_text
from obsidian_rag.terms import ChunkText, NoteText, make_terms

LENGTH = 20_000
SECONDS = 90  # of the processor for all of them; they take ten, and one of those that are meant here minutes
MEGABYTES = 500

UNITS: dict[str, str] = {
    "letters": "a", "capitals": "aB", "digits": "1", "joined": "a-", "dotted": "a.", "underscores": "_",
    "blanks": " ", "no-break": "\xa0", "invisible": "\u200b", "marks": "\u0301\u0316",
    "right to left": "\u202e", "ideographs": "漢", "syllables": "한", "emoji": "👩‍👩‍👧", "brackets": "[",
    "links": "[[a]] ", "images": "![[a]]", "labels": "a: [[b]] ", "cues": "founded [[A]], ",
    "parts": "(a ", "colons": "a:", "tags": "#a", "code": "`a", "emphasis": "*a", "mathematics": "$a",
    "tags of HTML": "<a ", "ends": ".”", "initials": "z. B. ", "web": "[a](b) ", "escapes": "%41",
    "backslashes": "\\", "quotes": '"', "parents": "../", "numbers": " 1", "footnotes": "[^a]",
}  # fmt: skip
FRAMES: dict[str, str] = {
    "text": "§\n",
    "heading": "# §\n\nbody [[L]]\n",
    "title": "---\ntitle: |\n  §\naliases:\n- §\n---\n[[L]]\n",
    "item": "- §\n  - [[L]]\n",
    "cell": "| § | b |\n|---|---|\n| [[L]] | c |\n",
    "quote": "> **§** [[L]]\n",
    "link": "[[L|§]] founded [[§]]\n",
    "target": "[[§]]\n",
}


def read(text: str, table: Table) -> None:
    """All that the indexer does with a text before it embeds and stores it."""
    note = parse_note("Note.md", text)
    type_mentions(note, table)
    resolver = LinkResolver(["Note.md", "L.md"], {"Note.md": note.aliases})
    for link in note.links:
        resolver.resolve(link.target, "Note.md", link.kind)
    chunks = split_note(note)
    texts = tuple(
        ChunkText(c.chunk_index, c.heading, " > ".join(c.heading_path), c.content, c.overlap) for c in chunks
    )
    called = note.front_matter.get("title")
    make_terms(NoteText("Note.md", note.title, note.aliases, called, texts), "english")


def read_all() -> None:
    """What the test's own process does."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    table = load_table()
    for frame in FRAMES.values():
        for unit in UNITS.values():
            read(frame.replace("§", unit * (LENGTH // len(unit))), table)
    print(json.dumps(own_peak()))


def test_texts_that_repeat_one_thing_cost_no_more_than_their_length() -> None:
    program = "import test_bounds; test_bounds.read_all()"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:] or f"ended by signal {-done.returncode}"
    assert json.loads(done.stdout) < MEGABYTES


BOMBS: dict[str, Callable[[], str]] = {
    "aliases": lambda: "a0: &a0 [x, x]\n"
    + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60)),
    "one long value many times": lambda: f"a: &a {'v' * 400_000}\nb: [{'*a,' * 40_000}]\n",
    "one long name of many values": lambda: f"? {'k' * 400_000}\n: [{'1,' * 40_000}]\n",
    "long names below one another": lambda: "".join(f"{' ' * i}{'k' * 900}:\n" for i in range(45))
    + " " * 45 + "- 1\n" + (" " * 45 + "- 1\n") * 9_000,
    "a list that holds itself": lambda: "a: &a [*a, *a, *a]\n",
    "a mapping that holds itself": lambda: "a: &a\n  b: *a\n",
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_properties_that_unfold_beyond_all_measure_are_refused(name: str) -> None:
    front = read_front_matter(f"---\n{BOMBS[name]()}---\nbody\n")
    assert front.refused
    assert front.values == {}
    assert any(words in front.warnings[0] for words in ("more than", "nested deeper", "longer than"))


def test_an_alias_within_measure_is_read_wherever_it_stands() -> None:
    front = read_front_matter("---\na: &a [x, {y: 1}]\nb: *a\nc: [*a, *a]\n---\n")
    assert front.values["c"] == [["x", {"y": 1}], ["x", {"y": 1}]]
    deep = "".join(f"{' ' * i}k:\n" for i in range(MAX_DEPTH + 5))
    assert "nested deeper" in read_front_matter(f"---\n{deep}---\n").warnings[0]


def test_a_note_of_too_many_lines_is_an_error_that_says_so() -> None:
    assert decode(b"\n" * (MAX_LINES - 1))[1] == ()
    with pytest.raises(NoteError, match=r"has 200,001 lines; a note has at most 200,000\. Split it"):
        decode(b"a\r" * MAX_LINES)


def test_a_note_of_too_many_chunks_fails_alone_and_says_so(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.vault.write("Many.md", "# One\n\ntext\n")
    bench.vault.write("Few.md", "text\n")
    bench.index()
    monkeypatch.setattr("obsidian_rag.intake.MOST_CHUNKS", 3)
    bench.vault.write("Many.md", "".join(f"# Part {n}\n\ntext\n\n" for n in range(4)))
    bench.vault.write("Few.md", "other text\n")
    report = bench.index()
    assert (report.status, report.notes_indexed) == ("partial", 1)
    (failure,) = report.failures
    assert (failure.file_path, failure.stage) == ("Many.md", "read")
    assert "would be 4 chunks; a note has at most 3. Split it" in failure.error
    stored = bench.rows("SELECT file_path, content FROM documents ORDER BY 1")
    assert stored == [("Few.md", "other text\n"), ("Many.md", "# One\n\ntext\n")]


def test_links_beyond_all_measure_are_text_and_said() -> None:
    note = parse_note("N.md", "[[a]] " * 150_000 + "#late")
    assert [link.count for link in note.links] == [100_000]
    assert note.warnings == ("There are more than 100000 links: what follows them is read as text.",)


def test_a_heading_that_is_a_text_stays_whole_in_the_text_only() -> None:
    heading = "word " * 2000
    chunks = split_note(parse_note("N.md", f"# {heading}\n\nbody\n"))
    assert len(chunks) > 5
    assert "".join(c.content[c.overlap :] for c in chunks).count("word") == 2000
    assert all(c.heading and len(c.heading) == LONGEST_NAME and c.heading.endswith("…") for c in chunks)


def test_blanks_that_weigh_nothing_are_not_all_embedded() -> None:
    assert join_text("A", f"a{' ' * 999}b") == f"A\na{' ' * 999}b"
    assert len(join_text("A", f"a{' ' * 3_000_000}b{chr(10) * 5000}c")) < 2100


def test_words_longer_than_any_key_of_an_index_lose_no_note(bench: Workbench) -> None:
    """What the database cannot look up is left out of what is looked up; the note itself is in."""
    chance = random.Random(1)

    def word(length: int) -> str:
        return "".join(chance.choices(string.ascii_letters + string.digits, k=length))

    notes = {
        "unresolved link": f"[[{word(6000)}]]\n",
        "display text": f"[[Short|{word(6000)}]] and [[Short#{word(6000)}]]\n",
        "tag": f"text #{word(6000)} end\n",
        "tag property": f"---\ntags: [{word(6000)}]\n---\ntext\n",
        "alias": f"---\naliases: [{word(6000)}]\ntitle: {word(6000)}\n---\ntext\n",
        "heading": f"# {word(6000)}\n\ntext\n",
        "label": f"{word(39)}:: [[Short]]\n",
        "property": f"---\n{word(3000)}: {word(6000)}\n---\ntext\n",
        "text": f"{word(6000)} http://x.y/{word(6000)}\n",
        "Short": f"text {word(LONGEST_TERM - 1)}\n",
    }
    for name, text in notes.items():
        bench.vault.write(f"{name}.md", text)
    deep = "/".join(word(240) for _ in range(8))
    bench.vault.write(f"{deep}/Deep.md", "[[Short]]\n")
    bench.vault.write("To deep.md", f"[[Deep|{'ü' * 200}]]\n")
    report = bench.index()
    assert (report.status, report.failures) == ("ok", ())
    warned = {
        name for name in ("tag", "tag property", "alias") if any(f"{name}.md" in w for w in report.warnings)
    }
    assert warned == {"tag", "tag property", "alias"}
    assert bench.found("text")[:1]
