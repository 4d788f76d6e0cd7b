"""What each stage of the link retriever is worth: `link_stages.py VAULT QUESTIONS.jsonl …`

Searches the vault's index, which must be there, with stages of the plan taken out, and prints figures by
file and family. Questions are those of `obsidian-rag eval`.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from obsidian_rag.config import load_settings
from obsidian_rag.evaluate import METRICS, read_questions, score_ranking
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.search import links, plans
from obsidian_rag.search.pipeline import search
from obsidian_rag.search.query import make_request

FIGURES = ("R@5", "P@5", "nDCG@5", "nDCG@10", "R@10")
Plan = plans.Plan


def one_untyped_hop(plan: Plan) -> Plan:
    """Only what is named: its neighbours, whatever their links say."""
    return replace(plan, steps=(), kind=None)


def one_typed_hop(plan: Plan) -> Plan:
    """All that is asked for in one hop."""
    return replace(plan, steps=links.shorten(plan).steps if plan.steps else ())


STAGES: dict[str, tuple[frozenset[str], Callable[[Plan], Plan] | None]] = {
    "words, vectors, names": (frozenset({"links"}), None),
    "+ one untyped hop": (frozenset({"phrases"}), one_untyped_hop),
    "+ types, one hop": (frozenset({"phrases"}), one_typed_hop),
    "+ planned hops": (frozenset({"phrases"}), None),
    "+ phrases": (frozenset(), None),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vault")
    parser.add_argument("questions", nargs="+", type=Path)
    given = parser.parse_args()
    settings = load_settings(os.environ, {"VAULT_PATH": given.vault}, Path.cwd())
    reader = IndexReader(settings, lambda text: None)
    make_plan = links.make_plan
    print("| questions | stage |", " | ".join(FIGURES), "|")
    print("|---|---|" + "---|" * len(FIGURES))
    for stage, (without, change) in STAGES.items():
        if change is not None:
            links.make_plan = lambda *args, change=change: change(make_plan(*args))  # type: ignore[misc]
        found: defaultdict[str, list[dict[str, float]]] = defaultdict(list)
        for file in given.questions:
            for question in read_questions(file):
                answer = search(reader, make_request(question.query, without=without | {"neighbors"}))
                ranked = list(dict.fromkeys(hit.file_path for hit in answer.results))
                scores = dict(zip(METRICS, score_ranking(ranked, question.relevant), strict=True))
                found[f"{file.stem} {question.family}"].append(scores)
        links.make_plan = make_plan
        for name, rows in sorted(found.items()):
            values = (sum(row[figure] for row in rows) / len(rows) for figure in FIGURES)
            print(f"| {name} ({len(rows)}) | {stage} |", " | ".join(f"{value:.3f}" for value in values), "|")
    reader.close()


if __name__ == "__main__":
    main()
