"""What docs/operations.md says of faults and of security: each row names the tests that show it."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "operations.md"
PROOF = re.compile(r"<!-- (?P<tests>[^>]+) -->")
# Faults that the table must have a row of, by words of its first column.
WANTED = [
    "while the indexer runs", "while somebody searches", "It is down", "disk is full",
    "embedded server is killed", "deletes rows by hand",
    "dies on the way", "overloaded", "slow", "a web page", "NaN", "cannot pass",
    "another embedder than made", "under its own name", "is interrupted", "that it is changed to fails",
    "empty mount", "vanishes while it is read", "several vaults", "drive inside the vault", "More than half",
    "cannot be read", "change while they are read", "app.json", "clock jumps", "write into the vault",
    "killed at any moment", "killed while its indexes are away", "Two indexers", "several servers at once",
    "clean-up", "runs for days", "client",
    "does nothing", "No run is started", "check of `doctor`",
    "prints on stdout", "case, blanks or `_`", "fits several notes", "emoji", "megabyte", "40,000 brackets",
    "the same text", "filter", "no search finds", "Four of eleven",
    "one index and not the other",
]  # fmt: skip


# What is said of security that tests must show, by the beginnings of lines.
GUARDED = [
    "| `index`, `demo`", "| MCP server", "| `psql` |", "| `psql --write`", "In the embedded server",
    "Statements hold no values", "The server has four tools",
    "| the embedded server's data", "| its superuser's password", "| its log", "| its port",
    "| passwords of your own", "| models: one", "| note text in a PostgreSQL", "Passwords in URLs",
    "Text from the web", "Nothing in a vault is run",
    "| a note", "| properties", "| nesting", "| links", "| headings", "| an expression", "| symbolic links",
    "| a query", "| an answer", "`python benchmarks/fuzz.py`", "`make audit`",
]  # fmt: skip


def read_section(title: str) -> list[str]:
    """The lines below a heading of the second level."""
    return DOCUMENT.read_text("utf-8").split(f"## {title}\n", 1)[1].split("\n## ", 1)[0].splitlines()


def read_rows() -> list[list[str]]:
    """The cells of each row of the table of faults that is no heading."""
    lines = [line for line in read_section("When something fails") if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]
    return [row for row in rows if not row[0].startswith("**")]


def find_tests(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", read_rows(), ids=lambda row: row[0][:60])
def test_each_fault_of_the_table_is_shown_by_tests_that_exist(row: list[str]) -> None:
    assert len(row) == 4 and all(row), "fault, what you see, what is kept, what mends it"
    assert_proven(row[-1])


def assert_proven(text: str) -> None:
    """A comment names tests, and each of them is there."""
    proof = PROOF.search(text)
    assert proof is not None, f"a comment at its end names the tests: {text}"
    for test in proof["tests"].split():
        file, _, name = test.partition("::")
        assert name in find_tests(file), test


def test_the_table_has_a_row_for_every_kind_of_fault() -> None:
    faults = [row[0] for row in read_rows()]
    assert [words for words in WANTED if not any(words in fault for fault in faults)] == []
    assert len(faults) == len(WANTED)


@pytest.mark.parametrize("beginning", GUARDED)
def test_what_is_said_of_security_is_shown_by_tests_that_exist(beginning: str) -> None:
    (line,) = [line for line in read_section("Security") if line.startswith(beginning)]
    assert_proven(line)


def test_every_row_of_the_tables_of_security_is_among_those() -> None:
    lines = read_section("Security")
    rows = [line for above, line in pairwise(lines) if line.startswith("| ") and above.startswith("|")]
    assert len(rows) > 15
    assert [row for row in rows if not row.startswith(tuple(GUARDED))] == []


def test_the_audit_that_is_documented_is_that_of_the_makefile() -> None:
    """The same packages, looked up as strictly."""
    documented = next(line for line in read_section("Security") if "run pip-audit" in line)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    recipe = makefile.split("\naudit:", 1)[1].split("\n\n", 1)[0]
    audited = next(line for line in recipe.splitlines() if "bin/pip-audit --" in line)
    options = re.findall(r"--[a-z-]+", documented)
    assert options == re.findall(r"--[a-z-]+", audited)
    assert "--strict" in options
    assert "pip freeze --exclude-editable" in recipe
