"""What docs/operations.md says of faults: each row of its table names the tests that show it."""

from __future__ import annotations

import ast
import re
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
    "empty mount", "vanishes while it is read", "several vaults", "drive inside the vault", "More than half",
    "cannot be read", "change while they are read", "app.json", "clock jumps", "write into the vault",
    "killed at any moment", "Two indexers", "several servers at once", "clean-up", "runs for days", "client",
    "prints on stdout", "case, blanks or `_`", "fits several notes", "emoji", "megabyte", "40,000 brackets",
    "the same text", "filter", "no search finds", "one index and not the other",
]  # fmt: skip


def read_rows() -> list[list[str]]:
    """The cells of each row of the table that is no heading."""
    text = DOCUMENT.read_text("utf-8").split("## When something fails\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]
    return [row for row in rows if not row[0].startswith("**")]


def find_tests(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", read_rows(), ids=lambda row: row[0][:60])
def test_each_fault_of_the_table_is_shown_by_tests_that_exist(row: list[str]) -> None:
    assert len(row) == 4 and all(row), "fault, what you see, what is kept, what mends it"
    proof = PROOF.search(row[-1])
    assert proof is not None, "a comment at its end names the tests"
    for test in proof["tests"].split():
        file, _, name = test.partition("::")
        assert name in find_tests(file), test


def test_the_table_has_a_row_for_every_kind_of_fault() -> None:
    faults = [row[0] for row in read_rows()]
    assert [words for words in WANTED if not any(words in fault for fault in faults)] == []
    assert len(faults) == len(WANTED)
