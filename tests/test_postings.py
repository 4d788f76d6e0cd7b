"""The keyword data after any history equals what is computed anew, in plain Python, from the chunks."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from conftest import CONTENTS, VaultFolder, Workbench

from obsidian_rag.analysis import analyze, list_keys, list_trigrams, strip_extension
from obsidian_rag.keywords import refresh_keywords
from obsidian_rag.naming import list_parts
from obsidian_rag.postgres import connect
from obsidian_rag.postings import HEADING_WEIGHT, K1, NAME_WEIGHT, B
from obsidian_rag.search.facts import load_facts
from obsidian_rag.search.keyword import NOTE_SHARE, search_keywords

SIMPLE = {"fts_config": "simple"}  # a configuration whose lexemes Python can compute: words in lower case
WORDS = [
    "alpha", "beta", "gamma", "delta", "snake_case", "CamelCase", "café", "日本語", "v2.3.1", "omega",
]  # fmt: skip
QUERIES = [
    "alpha",
    "alpha beta gamma",
    "CamelCase delta",
    "日本 omega",
    "v2.3.1",
    "note omega",
    "snake_case x",
]

Posting = tuple[str, int, str, int, int, int, int]  # the columns of CONTENTS["postings"]


def count_words(text: str) -> Counter[str]:
    return Counter(analyze(text).words.lower().split())


def compute_postings(bench: Workbench) -> list[Posting]:
    postings: list[Posting] = []
    for path, aliases in bench.rows("SELECT file_path, aliases FROM notes"):
        names = " ".join((strip_extension(path), *aliases))
        counted = []
        for index, heading_path, text in bench.rows(
            "SELECT chunk_index, coalesce(nullif(heading_path, ''), heading, ''),"
            " substr(content, overlap + 1) FROM documents WHERE file_path = %s",
            path,
        ):
            own = count_words(text) + Counter(analyze(text).wholes)
            field: Counter[str] = Counter()
            for word, n in count_words(heading_path).items():
                field[word] += HEADING_WEIGHT * n
            for word, n in (count_words(names) + Counter(analyze(names).wholes)).items():
                field[word] += NAME_WEIGHT * n
            counted.append((index, own, field))
        note_length = sum(own.total() for _, own, _ in counted)
        note_length += max((field.total() for _, _, field in counted), default=0)
        for index, own, field in counted:
            length = own.total() + field.total()
            postings += [
                (path, index, word, own[word], field[word], length, note_length) for word in {*own, *field}
            ]
    return sorted(postings)


def compute_stats(postings: list[Posting]) -> tuple[int, int, int, int]:
    chunks = {(p[0], p[1]): p[5] for p in postings}
    notes = {p[0]: p[6] for p in postings}
    return len(notes), len(chunks), sum(notes.values()), sum(chunks.values())


def compute_names(bench: Workbench) -> set[tuple[Any, ...]]:
    names = set()
    for path, title, aliases in bench.rows("SELECT file_path, title, aliases FROM notes"):
        headings = bench.rows("SELECT heading FROM documents WHERE file_path = %s AND heading <> ''", path)
        kinds = [("title", title), *(("alias", a) for a in aliases), *(("heading", h) for (h,) in headings)]
        for kind, name in kinds:
            for key in list_keys(name):
                trigrams = () if kind == "heading" else tuple(list_trigrams(key))
                names.add((path, kind, key, tuple(sorted(set(key.split()))), trigrams))
        whole = {key for name in (title, *aliases) for key in list_keys(name)}
        parts = ((kind, key) for kind, _, key in list_parts((title, *aliases)))
        names |= {(path, kind, key, (), ()) for kind, key in parts if key not in whole}
    return names


def compute_scores(postings: list[Posting], query: str) -> dict[str, float]:
    """BM25 as its definition has it: half the best chunk, half the whole note, each over its greatest."""
    notes, chunks, note_sum, chunk_sum = compute_stats(postings)
    if not postings:
        return {}
    terms = analyze(query)
    required = dict.fromkeys(terms.words.lower().split())
    wanted = [(word, False) for word in required] + [(whole, True) for whole in terms.wholes]
    chunk_scores: defaultdict[str, defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
    note_scores: defaultdict[str, float] = defaultdict(float)
    most_chunk = most_note = 0.0
    for word, optional in wanted:
        found = [p for p in postings if p[2] == word]
        by_note: defaultdict[str, list[Posting]] = defaultdict(list)
        for posting in found:
            by_note[posting[0]].append(posting)
        if optional and not found:
            continue
        chunk_idf = math.log(1 + (chunks - len(found) + 0.5) / (len(found) + 0.5))
        note_idf = math.log(1 + (notes - len(by_note) + 0.5) / (len(by_note) + 0.5))
        most_chunk, most_note = most_chunk + chunk_idf, most_note + note_idf
        for path, index, _, tf, field_tf, length, _ in found:
            norm = K1 * (1 - B + B * length / (chunk_sum / chunks))
            chunk_scores[path][index] += chunk_idf * (tf + field_tf) / (tf + field_tf + norm)
        for path, held in by_note.items():
            tf = sum(p[3] for p in held) + max(p[4] for p in held)
            norm = K1 * (1 - B + B * held[0][6] / (note_sum / notes))
            note_scores[path] += note_idf * tf / (tf + norm)
    return {
        path: (1 - NOTE_SHARE) * max(scores.values()) / most_chunk
        + NOTE_SHARE * note_scores[path] / most_note
        for path, scores in chunk_scores.items()
    }


MISCOUNTED = """
SELECT file_path, n.chunks, count(d.id) FROM notes n LEFT JOIN documents d USING (file_path)
GROUP BY file_path HAVING n.chunks <> count(d.id)
"""


def check_everything(bench: Workbench) -> None:
    postings = compute_postings(bench)
    assert sorted(bench.rows(CONTENTS["postings"])) == postings
    stats = bench.rows("SELECT notes, chunks, note_length, chunk_length FROM keyword_stats")
    assert stats == [compute_stats(postings)]
    assert bench.rows(MISCOUNTED) == []
    stored = bench.rows(
        "SELECT file_path, kind, key, words, trigrams FROM note_names LEFT JOIN notes ON notes.id = note_id"
    )
    named = [(path, kind, key, tuple(words), tuple(trigrams)) for path, kind, key, words, trigrams in stored]
    assert len(named) == len(set(named))
    assert set(named) == compute_names(bench)
    with connect(bench.database_url, read_only=True) as conn:
        for query in QUERIES:
            scores = {
                hit.file_path: hit.score for hit in search_keywords(conn, load_facts(conn), query, 1000).hits
            }
            assert scores == pytest.approx(compute_scores(postings, query), abs=1e-9), query


def write_any_note(vault: VaultFolder, path: str, chance: random.Random) -> None:
    def say() -> str:
        return " ".join(chance.choices(WORDS, k=chance.randint(0, 25))) + "\n\n"

    aliases = ", ".join(chance.sample(["omega note", "GammaRay", "日本"], chance.randint(0, 2)))
    parts = [f"---\naliases: [{aliases}]\n---\n"] if aliases else []
    parts += [say(), *(f"## {chance.choice(WORDS)}\n\n{say()}" for _ in range(chance.randint(0, 4)))]
    vault.write(path, "".join(parts))


def change_anything(vault: VaultFolder, chance: random.Random) -> None:
    paths = sorted(str(file.relative_to(vault.root)) for file in vault.root.rglob("*.md"))
    deed = chance.choice(["write", "write", "edit", "edit", "delete", "move"])
    if deed == "write" or len(paths) < 3:
        write_any_note(vault, f"{chance.choice(['', 'Beta/'])}Note {chance.randint(1, 9)}.md", chance)
    elif deed == "edit":
        write_any_note(vault, chance.choice(paths), chance)
    elif deed == "delete":
        vault.delete(chance.choice(paths))
    else:
        vault.move(chance.choice(paths), f"Gamma/moved {chance.randint(1, 99)}.md")


@pytest.mark.parametrize("seed", range(3))
def test_after_any_history_the_keyword_data_is_as_if_made_anew(
    bench: Workbench, new_bench: Callable[[VaultFolder], Workbench], seed: int
) -> None:
    chance = random.Random(seed)
    for number in range(4):
        write_any_note(bench.vault, f"Note {number}.md", chance)
    for _ in range(8):
        for _ in range(chance.randint(1, 3)):
            change_anything(bench.vault, chance)
        bench.index(SIMPLE, allow_mass_delete=True)
        check_everything(bench)

    incremental = bench.tables()
    with connect(bench.database_url) as conn:
        refresh_keywords(conn, "simple", everything=True)
    assert bench.tables() == incremental
    fresh = new_bench(bench.vault)
    fresh.index(SIMPLE)
    kept = ("postings", "note_names", "keyword_stats")
    assert {name: fresh.tables()[name] for name in kept} == {name: incremental[name] for name in kept}


def test_an_index_without_notes_has_no_keyword_data(bench: Workbench) -> None:
    bench.vault.write("A.md", "alpha\n")
    bench.vault.write("B.md", "beta\n")
    bench.index(SIMPLE)
    bench.vault.delete("A.md")
    bench.vault.delete("B.md")
    bench.index(SIMPLE, allow_mass_delete=True)

    check_everything(bench)
    assert bench.rows("SELECT notes, chunks, note_length, chunk_length FROM keyword_stats") == [(0, 0, 0, 0)]


def test_a_renamed_note_is_found_by_its_new_path_and_not_by_the_old(bench: Workbench) -> None:
    bench.vault.write("Old name.md", "alpha\n")
    bench.index(SIMPLE)
    bench.vault.move("Old name.md", "deep/Fresh title.md")
    bench.index(SIMPLE)

    assert bench.found("fresh", "keyword") == ["deep/Fresh title.md"]
    assert bench.found("old name", "keyword") == []
    check_everything(bench)


def test_an_alias_alone_that_changes_is_found(bench: Workbench) -> None:
    bench.vault.write("A.md", "---\naliases: [first]\n---\nalpha\n")
    bench.index(SIMPLE)
    bench.vault.write("A.md", "---\naliases: [second]\n---\nalpha\n")
    report = bench.index(SIMPLE)

    assert report.chunks_embedded == 0
    assert (bench.found("second", "keyword"), bench.found("first", "keyword")) == (["A.md"], [])
    check_everything(bench)


def test_very_long_words_and_very_many_of_one_do_no_harm(bench: Workbench) -> None:
    bench.vault.write("A.md", f"{'x' * 5000} " + "alpha " * 2000 + "\n\n" + "a_" * 400 + "\n")
    report = bench.index()
    assert report.failures == ()
    assert bench.found("alpha", "keyword") == ["A.md"]
    assert bench.rows("SELECT max(octet_length(lexeme)) <= 1000, min(tf) >= 0 FROM postings") == [
        (True, True)
    ]
