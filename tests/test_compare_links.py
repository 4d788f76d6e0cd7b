"""The script that compares a vault's links with a reference."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from small_vault import HARD_CASES

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "compare_links.py"
EDGES = [
    ("a/b/s3.md", "a/b/Note.md", 1),
    ("a/b/s3.md", "b/Note.md", 1),
    ("root.md", "b/Note.md", 1),
    ("zzzz/deep/s2.md", "b/Note.md", 1),
    ("zzzz/s.md", "zzzz/Note.md", 1),
]


def compare(folder: Path, edges: list[tuple[str, str, int]], *options: str) -> tuple[int, str]:
    file = folder / "edges.tsv"
    file.write_text("".join(f"{a}\t{b}\t{count}\n" for a, b, count in edges), encoding="utf-8")
    command = [sys.executable, str(SCRIPT), str(HARD_CASES / "L2"), str(file), *options]
    environment = {"PYTHONUTF8": "1", "PYTHONPATH": str(SCRIPT.parents[1])}
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, env=environment)
    assert ran.stderr == ""
    return ran.returncode, ran.stdout


@pytest.mark.parametrize("options", [(), ("--variant", "crlf-bom"), ("--variant", "nfd")])
def test_equal_links_are_reported_as_equal(tmp_path: Path, options: tuple[str, ...]) -> None:
    code, output = compare(tmp_path, EDGES, *options)
    assert code == 0
    assert "all edges: 5 wanted, 5 found, precision 1.000, recall 1.000" in output


def test_missing_and_surplus_links_are_named(tmp_path: Path) -> None:
    code, output = compare(tmp_path, [*EDGES[1:4], ("zzzz/s.md", "zzzz/Note.md", 2), ("root.md", "x.png", 1)])
    assert code == 1
    assert "note-to-note edges: 4 wanted, 5 found, precision 0.800, recall 1.000" in output
    assert "  + a/b/s3.md -> a/b/Note.md\n" in output
    assert "  - root.md -> x.png\n" in output
    assert "  # zzzz/s.md -> zzzz/Note.md: 1 links instead of 2\n" in output


def test_links_are_compared_one_by_one_and_uncertain_ones_left_out(tmp_path: Path) -> None:
    row = (
        '{{"source": "root.md", "target_name": "Note", "resolved_path": "{}", "kind": "wikilink", '
        '"heading": null, "block": null, "line": 1, "count": 1, "uncertain": {}}}\n'
    )
    links = tmp_path / "links.jsonl"
    links.write_text(row.format("zzzz/Note.md", '["equal-length-tie"]'), encoding="utf-8")
    edges = [edge for edge in EDGES if edge[0] != "root.md"]
    code, output = compare(tmp_path, [*edges, ("root.md", "zzzz/Note.md", 1)], str(links))
    assert code == 1  # the other links have no row
    assert "all edges: 4 wanted, 4 found, precision 1.000, recall 1.000" in output
    links.write_text(row.format("zzzz/Note.md", "[]"), encoding="utf-8")
    code, output = compare(tmp_path, EDGES, str(links))
    assert code == 1
    assert "('root.md', 'Note', 'wikilink', None, None, 'zzzz/Note.md'): (line, count) None" in output
