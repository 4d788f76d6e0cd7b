"""How good the answers are: metrics over questions whose right notes are known, with their uncertainty.

A run is a ranked list of notes for each question. Runs are saved as lines of `{"id", "ranked": [paths]}`, so
that they can be scored by another program and compared with one another later.
"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from obsidian_rag.counts import choose, count
from obsidian_rag.errors import EmbedderUnavailable, QueryError
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.postgres import Connection
from obsidian_rag.search.expansion import NOT_EXPANDED
from obsidian_rag.search.pipeline import WITHOUT_EMBEDDER, search
from obsidian_rag.search.query import Request, make_request
from obsidian_rag.search.rerank import NOT_RERANKED

METRICS = ("P@5", "R@5", "R@10", "MRR@10", "nDCG@5", "nDCG@10", "hit@1")
ALL = "ALL"
NO_FAMILY = "-"
RESAMPLES = 2000  # enough for two digits of a 95 % interval
INTERVAL = (2.5, 97.5)  # percentiles
SEED = 20210  # the same figures give the same intervals

Run = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Question:
    """A query with the paths of its right notes."""

    id: str
    query: str
    relevant: tuple[str, ...]
    family: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over questions with its bootstrap 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Group:
    """The metrics of a family of questions."""

    family: str
    questions: int
    metrics: dict[str, Estimate]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A run scored. `comparison` is this run less another, question by question; latency in milliseconds."""

    mode: str
    without: tuple[str, ...]
    limit: int
    groups: tuple[Group, ...]
    comparison: tuple[Group, ...] = ()
    latency_ms: dict[str, float] | None = None

    def to_json(self) -> dict[str, Any]:
        """The object that `eval --json` prints."""
        return asdict(self)


def read_questions(file: Path) -> list[Question]:
    """The questions of a JSON lines file; those without a right note are left out, as nothing can find them.

    Raises QueryError for a file that cannot be read, or a line that is no question.
    """
    questions: dict[str, Question] = {}
    for place, row in _read_rows(file):
        question = _read_question(place, row)
        if question.id in questions:
            raise QueryError(f"{place}: the id {question.id!r} is there twice", "Give each question its own.")
        questions[question.id] = question
    kept = [question for question in questions.values() if question.relevant]
    if not kept:
        raise QueryError(f"{file} holds no question with a right note", QUESTION_FORMAT)
    return kept


QUESTION_FORMAT = 'Write lines like {"id": "1", "query": "…", "relevant": ["folder/note.md"], "family": "…"}.'
RUN_FORMAT = 'Write lines like {"id": "1", "ranked": ["folder/note.md"]}, or make it with --save.'


def read_run(file: Path) -> dict[str, list[str]]:
    """A saved run: ranked paths by the question's id. Raises QueryError."""
    run: dict[str, list[str]] = {}
    for place, row in _read_rows(file):
        if not (isinstance(row, dict) and _is_id(row.get("id")) and _is_texts(row.get("ranked"))):
            raise QueryError(f"{place} is no row of a run", RUN_FORMAT)
        run[str(row["id"])] = row["ranked"]
    return run


def save_run(file: Path, run: Run) -> None:
    """Write a run, a line for each question. Raises QueryError where the file cannot be written."""
    lines = [
        json.dumps({"id": id_, "ranked": list(ranked)}, ensure_ascii=False) for id_, ranked in run.items()
    ]
    try:
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as exc:
        raise QueryError(f"{file} cannot be written: {exc.strerror}", "Name another file.") from exc


def search_all(
    reader: IndexReader,
    questions: Sequence[Question],
    template: Request,
    say: Callable[[int], None] = lambda done: None,
) -> tuple[dict[str, list[str]], list[float]]:
    """Ask every question as `template` says; the run, and the seconds that each answer took.

    Raises QueryError for a query that cannot be asked or a right note that is not in the index, and
    EmbedderError where a model is wanted and cannot be had: such a run would measure something else.
    """
    requests = [_make_request(question, template) for question in questions]
    reader.run(lambda conn: _check_paths(conn, questions))
    uses_vectors = template.mode != "keyword" and "vector" not in template.without
    if uses_vectors:
        reader.embed_query("warm up")  # opens and loads what would be counted as the first answer's time
    run: dict[str, list[str]] = {}
    seconds = []
    for question, request in zip(questions, requests, strict=True):
        started = time.perf_counter()
        answer = search(reader, request)
        seconds.append(time.perf_counter() - started)
        _check_stages(question, answer.notices)
        paths = [hit.file_path for hit in answer.results if not hit.neighbor]
        run[question.id] = list(dict.fromkeys(paths))  # further chunks of a note stand under its first
        say(len(run))
    return run, seconds


# What is left out of an answer, by how the notice of it begins, with what measures it without.
LEFT_OUT = {
    WITHOUT_EMBEDDER: ("vectors", "--mode keyword"),
    NOT_EXPANDED: ("its variants", "--without expansion"),
    NOT_RERANKED: ("reranking", "--without rerank"),
}


def _check_stages(question: Question, notices: Sequence[str]) -> None:
    for notice in notices:
        for beginning, (stage, option) in LEFT_OUT.items():
            if notice.startswith(beginning):
                raise EmbedderUnavailable(
                    f"Question {question.id!r} was answered without {stage}: {notice}",
                    f"Run it again, or measure without: {option}",
                )


def score_run(questions: Sequence[Question], run: Run) -> np.ndarray:
    """Metrics of each question, shape (questions, METRICS). One that the run does not hold scores zero."""
    return np.array([score_ranking(run.get(q.id, ()), q.relevant) for q in questions], dtype=np.float64)


def score_ranking(ranked: Sequence[str], relevant: Sequence[str]) -> list[float]:
    """One ranking's METRICS in their order: precision over 5 always, nDCG binary with log2 (Järvelin and
    Kekäläinen 2002), each note counted where it first stands.
    """
    right = set(relevant)
    hits = [path in right for path in dict.fromkeys(ranked)][:10]
    first = next((place for place, hit in enumerate(hits, 1) if hit), None)
    return [
        sum(hits[:5]) / 5,
        sum(hits[:5]) / len(right),
        sum(hits) / len(right),
        1 / first if first else 0.0,
        _gain(hits[:5]) / _gain([True] * min(5, len(right))),
        _gain(hits) / _gain([True] * min(10, len(right))),
        float(first == 1),
    ]


def _gain(hits: Sequence[bool]) -> float:
    return sum(1 / math.log2(place + 1) for place, hit in enumerate(hits, 1) if hit)


def summarize(questions: Sequence[Question], scores: np.ndarray) -> tuple[Group, ...]:
    """Means by family and over all, each with its interval."""
    members: defaultdict[str, list[int]] = defaultdict(list)
    for place, question in enumerate(questions):
        members[question.family].append(place)
    groups = [(family, members[family]) for family in sorted(members)]
    groups.append((ALL, list(range(len(questions)))))
    return tuple(Group(family, len(places), estimate(scores[places])) for family, places in groups)


def estimate(scores: np.ndarray) -> dict[str, Estimate]:
    """Mean and percentile bootstrap interval (Efron 1979) of each metric over the questions given."""
    count = len(scores)
    drawn = np.random.default_rng(SEED).multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
    low, high = np.percentile(drawn @ scores / count, INTERVAL, axis=0)
    return {
        name: Estimate(*(round(float(value), 4) for value in (scores[:, i].mean(), low[i], high[i])))
        for i, name in enumerate(METRICS)
    }


def evaluate_run(
    questions: Sequence[Question],
    run: Run,
    template: Request,
    seconds: Sequence[float] = (),
    other: Run | None = None,
) -> Evaluation:
    """Score a run, and compare it with another where one is given."""
    scores = score_run(questions, run)
    compared = summarize(questions, scores - score_run(questions, other)) if other is not None else ()
    return Evaluation(
        template.mode,
        tuple(sorted(template.without)),
        template.limit,
        summarize(questions, scores),
        compared,
        measure_latency(seconds) if len(seconds) else None,
    )


def measure_latency(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds that half, and 95 in 100, of the answers took at most."""
    return {f"p{q}": round(float(np.percentile(seconds, q)) * 1000, 2) for q in (50, 95)}


def render_evaluation(evaluation: Evaluation) -> str:
    """The figures as a table for a terminal."""
    left_out = f", without {', '.join(evaluation.without)}" if evaluation.without else ""
    lines = [
        f"mode {evaluation.mode}{left_out}, {count(evaluation.limit, 'note')} an answer; 95 % intervals below"
    ]
    lines += _render_groups(evaluation.groups, "")
    if evaluation.latency_ms:
        lines.append(
            f"latency: p50 {evaluation.latency_ms['p50']:.1f} ms, p95 {evaluation.latency_ms['p95']:.1f} ms"
        )
    if evaluation.comparison:
        lines += ["", "difference, this run less the other (* where the interval leaves out zero)"]
        lines += _render_groups(evaluation.comparison, "+")
    return "\n".join(lines)


def _render_groups(groups: Sequence[Group], sign: str) -> list[str]:
    """A line of means for each family, and one of their intervals."""
    width = max(len("family"), *(len(group.family) for group in groups))
    lines = [f"{'family':<{width}} {'n':>5}" + "".join(f"{name:>15}" for name in METRICS)]
    for group in groups:
        means, intervals = "", ""
        for found in group.metrics.values():
            sure = "*" if sign and (found.low > 0 or found.high < 0) else " "
            means += f"{found.mean:{sign}14.4f}{sure}"
            intervals += f"{f'{found.low:{sign}.3f} {found.high:{sign}.3f}':>14} "
        lines += [f"{group.family:<{width}} {group.questions:>5}{means}", f"{'':<{width}}      {intervals}"]
    return [line.rstrip() for line in lines]


def _read_rows(file: Path) -> list[tuple[str, Any]]:
    """The rows of a JSON lines file, each with its place for a message."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except OSError as exc:
        raise QueryError(f"{file} cannot be read: {exc.strerror}", "Name a file of JSON lines.") from exc
    except UnicodeDecodeError as exc:
        raise QueryError(f"{file} is not UTF-8: {exc.reason}", "Save it as UTF-8.") from exc
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            rows.append((f"{file}:{number}", json.loads(line)))
        except ValueError as exc:
            raise QueryError(f"{file}:{number} is no JSON: {exc}", "Write one JSON object a line.") from exc
    return rows


def _read_question(place: str, row: Any) -> Question:
    is_question = (
        isinstance(row, dict)
        and _is_id(row.get("id"))
        and isinstance(row.get("query"), str)
        and _is_texts(row.get("relevant"))
    )
    if not is_question:
        raise QueryError(f"{place} is no question", QUESTION_FORMAT)
    family = row.get("family")
    return Question(
        str(row["id"]), row["query"], tuple(row["relevant"]), NO_FAMILY if family is None else str(family)
    )


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _make_request(question: Question, template: Request) -> Request:
    try:
        asked = make_request(question.query)
    except QueryError as exc:
        raise QueryError(f"Question {question.id!r} cannot be asked: {exc.message}", exc.mend) from exc
    return replace(template, query=asked.query)


def _check_paths(conn: Connection, questions: Sequence[Question]) -> None:
    wanted = list(dict.fromkeys(path for question in questions for path in question.relevant))
    missing = [
        row[0]
        for row in conn.execute(
            "SELECT path FROM unnest(%s::text[]) WITH ORDINALITY AS w (path, place)"
            " WHERE NOT EXISTS (SELECT FROM notes n WHERE n.file_path = w.path) ORDER BY place",
            (wanted,),
        ).fetchall()
    ]
    if missing:
        are = choose(len(missing), "is", "are")
        raise QueryError(
            f"{len(missing)} of the {count(len(wanted), 'right note')} {are} not in the index:"
            f" {', '.join(missing[:3])}" + (", …" if len(missing) > 3 else ""),
            "Index the vault that the questions are about, or mend the paths in the file.",
        )
