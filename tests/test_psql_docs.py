"""docs/psql.md: every statement is run on the example vault and gives what the page shows."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from checkout import ROOT
from conftest import DIMENSIONS, VaultFolder, Workbench, create_database, drop_database
from ollama_double import OllamaDouble

from obsidian_rag import embedded
from obsidian_rag.config import Settings
from obsidian_rag.psql import run_psql

PAGE = (ROOT / "docs" / "psql.md").read_text("utf-8")
BLOCK = re.compile(
    r"^```sql\n(?P<statement>.*?)^```\n\n```text\n(?P<output>.*?)^```$", re.MULTILINE | re.DOTALL
)
QUESTION = re.compile(r"^## (?P<number>\d+)\. .+\?$", re.MULTILINE)
# The model's own, or times and sizes of the day: the columns are compared and that there is something.
VARYING = ("cosine", "changed", "seconds", "size")
NAMED = re.compile(r"`(\w+)`")


@dataclass(frozen=True)
class Example:
    """A statement of the page and the lines that it is said to print."""

    statement: str
    output: list[str]

    @property
    def varies(self) -> bool:
        return any(column.strip() in VARYING for column in self.output[0].split("|"))


EXAMPLES = [Example(m["statement"], m["output"].splitlines()) for m in BLOCK.finditer(PAGE)]


@pytest.fixture(scope="module")
def example_index(
    server: str, migrated: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workbench]:
    """The example vault, indexed; its files are new."""
    root = tmp_path_factory.mktemp("examples") / "vault"
    shutil.copytree(ROOT / "examples" / "vault", root, copy_function=shutil.copyfile)
    url = create_database(server, migrated)
    with OllamaDouble(dimensions=DIMENSIONS) as ollama:
        bench = Workbench(VaultFolder(root), url, ollama)
        bench.index()
        yield bench
    drop_database(server, url)


@pytest.mark.skipif(not (embedded.is_installed() or shutil.which("psql")), reason="needs psql")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.statement.splitlines()[0])
def test_a_statement_gives_a_reader_what_the_page_shows(
    example: Example, example_index: Workbench, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(database_url=example_index.database_url)
    code = run_psql(settings, ["-X", "-v", "ON_ERROR_STOP=1", "-c", example.statement])
    printed, complaints = capfd.readouterr()
    assert (code, complaints) == (0, "")
    lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
    if example.varies:
        columns, shown = ([part.strip() for part in rows[0].split("|")] for rows in (lines, example.output))
        assert columns == shown
        assert len(lines) == len(example.output) > 3  # heading, rule, rows, count
    else:
        assert lines == example.output


def test_there_are_ten_questions_each_with_a_statement() -> None:
    sections = PAGE.split("\n## ")
    numbers = [int(m["number"]) for m in QUESTION.finditer(PAGE)]
    assert numbers == list(range(1, 11))
    asked = [section for section in sections if section[0].isdigit()]
    assert [section.partition("\n")[0] for section in asked if not BLOCK.search(section)] == []
    assert PAGE.count("```sql") == len(EXAMPLES)


def test_every_table_and_view_is_on_the_page_and_no_other(bench: Workbench) -> None:
    lists = PAGE.split("## What is there\n", 1)[1].split("\nThese names", 1)[0]
    rows = [line.split("|")[1] for line in lists.splitlines() if line.startswith("| `")]
    told = [name for row in rows for name in NAMED.findall(row)]
    present = bench.rows(
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'v') AND relnamespace = 'public'::regnamespace"
    )
    assert sorted(told) == sorted(row[0] for row in present)


INLINE = re.compile(r"`((?:SELECT|TABLE) [^`]+)`")


def test_statements_between_the_lines_can_be_run_too(example_index: Workbench) -> None:
    statements = INLINE.findall(PAGE)
    assert len(statements) > 3
    for statement in statements:
        assert isinstance(example_index.rows(statement), list)


def test_a_statement_of_the_page_cannot_write(
    example_index: Workbench, capfd: pytest.CaptureFixture[str]
) -> None:
    code = run_psql(Settings(database_url=example_index.database_url), ["-X", "-c", "DELETE FROM notes"])
    assert code == 1
    assert "read-only transaction" in capfd.readouterr().err


def test_links_are_counted_between_different_notes(bench: Workbench) -> None:
    bench.vault.write("A.md", "[[B]] and [[B#Part]], [[A]], [[Nowhere]]\n")
    bench.vault.write("B.md", "# Part\n\n![[A]]\n")
    bench.vault.write("C.md", "To [[B]].\n")
    bench.vault.write("Alone.md", "[[Alone]]\n")
    bench.index()
    assert bench.rows("TABLE link_counts") == [
        ("B.md", "B", 2, 1, 0),
        ("A.md", "A", 1, 1, 1),
        ("Alone.md", "Alone", 0, 0, 0),
        ("C.md", "C", 0, 1, 0),
    ]
    assert bench.rows("SELECT file_path, source_path, kind FROM backlinks") == [
        ("A.md", "B.md", "embed"),
        ("B.md", "A.md", "wikilink"),
        ("B.md", "A.md", "wikilink"),
        ("B.md", "C.md", "wikilink"),
    ]
    assert bench.rows("SELECT file_path FROM orphans") == [("Alone.md",)]


def test_a_tag_counts_for_those_it_is_nested_in(bench: Workbench) -> None:
    bench.vault.write("A.md", "#project/shed and #project/shed/roof\n")
    bench.vault.write("B.md", "#Project\n")
    bench.index()
    assert sorted(bench.rows("SELECT lower(tag), notes, written FROM tag_counts")) == [
        ("project", 2, 1),
        ("project/shed", 1, 1),
        ("project/shed/roof", 1, 1),
    ]


def test_links_to_headings_that_are_not_there_are_found(bench: Workbench) -> None:
    """By the statement of the page."""
    (statement,) = [example.statement for example in EXAMPLES if "split_part" in example.statement]
    bench.vault.write("A.md", "# Why *this*?\n\n## Größe: [[B|b]]\n\nText ^id\n\n# Empty\n")
    bench.vault.write(
        "B.md",
        "[[A#why this]] [[A#Why this#Größe B b]] [[A#EMPTY]] [[A#^id]] [[A]] [[A#]] [[Nowhere#Missing]]\n"
        "[[A#Gone]]\n"
        "[[A#Why this#Gone too|shown]] [[#Not here]]\n",
    )
    bench.index()
    assert bench.rows(statement) == [
        ("B.md", 2, "A.md", "Gone"),
        ("B.md", 3, "A.md", "Why this#Gone too"),
        ("B.md", 3, "B.md", "Not here"),
    ]
    assert bench.rows("SELECT target_name FROM broken_links") == [("Nowhere",)]
