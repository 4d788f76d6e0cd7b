"""benchmarks/kills.py finds what a kill could leave: an inspector that sees nothing would prove nothing."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

from conftest import Workbench
from psycopg.conninfo import conninfo_to_dict

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from kills import Findings, Gardener, Inspector

HARMS = {
    "DELETE FROM notes WHERE file_path = 'A.md'": "gone from the index",
    "DELETE FROM documents WHERE file_path = 'A.md' AND chunk_index = 1": "not those of its text",
    "UPDATE documents SET content = content || 'x' WHERE file_path = 'A.md'": "not those of its text",
    "UPDATE documents SET file_hash = 'x' WHERE file_path = 'A.md'": "another state than its row",
    "UPDATE notes SET file_hash = repeat('0', 64)": "a state that the file never had",
    "DELETE FROM note_links": "the links of",
    "UPDATE documents d SET embedding = o.embedding FROM documents o WHERE d.id = o.id + 1": "the vector of",
    "UPDATE documents SET file_path = 'Ghost.md' WHERE file_path = 'A.md'": "rows of Ghost.md",
    "DELETE FROM postings": "no word finds",
}


def test_the_inspector_of_killed_runs_sees_what_it_looks_for(
    bench: Workbench, new_database: Callable[..., str]
) -> None:
    gardener = Gardener(bench.vault, random.Random(3))
    gardener.grow(8)
    bench.index()
    inspector = Inspector(bench, gardener, Findings())
    inspector.look("a run", set())
    gardener.change()
    gardener.write("A.md", "## One\n\nText of [[B]].\n\n## Two\n\nMore text.\n")
    assert bench.index().status == "ok"
    held = inspector.look("another", set())
    assert inspector.findings.faults == []

    for harm, said in HARMS.items():
        copy = Workbench(
            bench.vault, new_database(str(conninfo_to_dict(bench.database_url)["dbname"])), bench.ollama
        )
        copy.execute(harm)
        inspector = Inspector(copy, gardener, Findings())
        inspector.look("harm", held)
        assert any(said in fault for fault in inspector.findings.faults), (harm, inspector.findings.faults)
