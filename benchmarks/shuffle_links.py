"""Is the gain of links that of these links? `shuffle_links.py VAULT QUESTIONS.jsonl …`

Answers the questions with the links as they are, with where they lead exchanged at random, and without
links, and prints R@5 and nDCG@10 by family. The exchange happens in a table of this session alone, which
hides the index's own: nothing of the index is written, and nobody waits.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from pathlib import Path

from obsidian_rag.config import load_settings
from obsidian_rag.evaluate import METRICS, Question, read_questions, score_ranking
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.postgres import Connection, connect, locate
from obsidian_rag.search.pipeline import prepare, rank_notes
from obsidian_rag.search.query import apply_settings, make_request

FIGURES = ("R@5", "nDCG@10")
# Each link gets the target of another one: how many links a note has, and how often it is linked, stays. A
# session's own table is found before another of its name.
COPY = """
CREATE TEMPORARY TABLE shuffled (LIKE note_links INCLUDING INDEXES);
INSERT INTO shuffled SELECT * FROM note_links;
"""
SHUFFLE = """
WITH slot AS (
    SELECT id, row_number() OVER (ORDER BY id) AS place FROM shuffled WHERE target_type = 'note'
), target AS (
    SELECT target_path, row_number() OVER (ORDER BY md5(id::text || %s)) AS place
    FROM shuffled WHERE target_type = 'note'
)
UPDATE shuffled l SET target_path = t.target_path
FROM slot s JOIN target t USING (place) WHERE l.id = s.id
"""
HIDE = "ALTER TABLE shuffled RENAME TO note_links; ANALYZE note_links"


def measure(
    conn: Connection, reader: IndexReader, questions: dict[str, list[Question]], without: frozenset[str]
) -> dict[str, list[float]]:
    """Mean FIGURES by file and family."""
    found: defaultdict[str, list[list[float]]] = defaultdict(list)
    for name, asked in questions.items():
        for question in asked:
            request = apply_settings(make_request(question.query, without=without), reader.settings)
            ranked = rank_notes(conn, request, prepare(reader, request)).fused[:10]
            scores = dict(
                zip(METRICS, score_ranking([n.file_path for n in ranked], question.relevant), strict=True)
            )
            found[f"{name} {question.family}"].append([scores[figure] for figure in FIGURES])
    return {
        name: [sum(column) / len(rows) for column in zip(*rows, strict=True)] for name, rows in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vault")
    parser.add_argument("questions", nargs="+", type=Path)
    parser.add_argument("--seed", default="1")
    given = parser.parse_args()
    settings = load_settings(os.environ, {"VAULT_PATH": given.vault}, Path.cwd())
    reader = IndexReader(settings, lambda text: None)
    questions = {file.stem: read_questions(file) for file in given.questions}
    with connect(locate(settings)) as conn:
        as_they_are = measure(conn, reader, questions, frozenset())
        absent = measure(conn, reader, questions, frozenset({"links"}))
        conn.execute(COPY)
        conn.execute(SHUFFLE, (given.seed,))
        conn.execute(HIDE)
        shuffled = measure(conn, reader, questions, frozenset())
    reader.close()
    print("| questions |", " | ".join(f"{f}: links, shuffled, none" for f in FIGURES), "|")
    print("|---|" + "---|" * len(FIGURES))
    for name in sorted(as_they_are):
        columns = zip(as_they_are[name], shuffled[name], absent[name], strict=True)
        print(
            f"| {name} |",
            " | ".join(", ".join(f"{value:.3f}" for value in column) for column in columns),
            "|",
        )


if __name__ == "__main__":
    main()
