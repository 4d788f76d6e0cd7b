"""What a diagnosis says of one note and one query, and how it reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from obsidian_rag.counts import count
from obsidian_rag.models import LinkStep
from obsidian_rag.render import render_step


@dataclass(frozen=True, slots=True)
class Place:
    """Where a retriever ranks the note among all it finds, from 1; None where it does not find it. `score` is
    its own: cosine, BM25 over the query's greatest, or the calibrated sum. `fused` tells whether a search of
    this limit looks so far down.
    """

    rank: int | None
    score: float | None
    found: int
    fused: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class WordUse:
    """A word of the query: whether the note and its best chunk hold it, and how many notes do."""

    word: str
    in_note: bool
    in_chunk: bool
    notes: int


@dataclass(frozen=True, slots=True)
class Rival:
    """A note that stands above, and why. `linked_by` is the way by links from what the query names."""

    file_path: str
    rank: int
    score: float
    ranks: dict[str, int]
    because: str
    linked_by: tuple[LinkStep, ...] = ()


@dataclass(frozen=True, slots=True)
class StepUse:
    """A hop that the query asks for: the relations, with how surely, and the kind of note it leads to."""

    relations: dict[str, float]
    kind: str | None


@dataclass(frozen=True, slots=True)
class NamedUse:
    """Words of the query that name notes, with how surely; `?name` is a note that is not written yet. `steps`
    are the hops that it asks for from there, `kind` what kind of note it wants, `share` how much of its words
    that explains. `is_clear` tells that this is enough to go by links alone.
    """

    text: str
    notes: dict[str, float]
    steps: tuple[StepUse, ...]
    kind: str | None
    share: float
    is_clear: bool


@dataclass(frozen=True, slots=True)
class PriorUse:
    """What counts for or against a note beside its match: the factor of its folder, and how many notes link
    to it. `before` and `after` are its places without and with all priors, before any reranking.
    """

    file_path: str
    factor: float
    folder: str
    is_archive: bool
    links: int
    before: int | None
    after: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything about one note and one query. `findings` say it in plain words, the weightiest first."""

    query: str
    target: str
    mode: str
    intent: str
    limit: int
    indexed: bool
    rank: int | None = None
    score: float | None = None
    g: float | None = None
    retrievers: dict[str, Place] = field(default_factory=dict)
    words: tuple[WordUse, ...] = ()
    best_chunk: dict[str, Any] | None = None
    above: tuple[Rival, ...] = ()
    priors: tuple[PriorUse, ...] = ()
    named: tuple[NamedUse, ...] = ()
    linked_by: tuple[LinkStep, ...] = ()
    findings: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The object that `diagnose --json` prints."""
        return asdict(self)


def render_diagnosis(found: Diagnosis) -> str:
    """A diagnosis for a terminal."""
    lines = [f"# {found.target} for: {found.query}"]
    lines += [f"> {notice}" for notice in found.notices]
    if not found.indexed:
        return "\n".join([*lines, "It is not in the index.", *(f"- {text}" for text in found.findings)])
    place = f"{found.rank} (score {found.score:.4f})" if found.rank else "not among the candidates"
    trust = f", g = {found.g:g}" if found.g is not None else ""
    lines.append(f"Place: {place}; mode {found.mode}, intent {found.intent}{trust}")
    for name, where in found.retrievers.items():
        rank = f"{where.rank} of {where.found}" if where.rank else f"not among {where.found}"
        score = f", score {where.score:.4f}" if where.score is not None else ""
        beyond = "" if where.fused or not where.rank else ", deeper than a search looks"
        lines.append(f"  {name:<8} {rank}{score}{beyond}{f' ({where.detail})' if where.detail else ''}")
    lines += [_render_named(use) for use in found.named]
    lines += [f"  {render_step(step)}" for step in found.linked_by]
    if found.best_chunk:
        chunk = found.best_chunk
        where_ = f"lines {chunk['start_line']}-{chunk['end_line']}"
        lines.append(
            f"Best passage: chunk {chunk['chunk_index']}, {where_}, {chunk['heading_path'] or 'no heading'}"
        )
    for use in found.words:
        held = "in the passage" if use.in_chunk else "in the note" if use.in_note else "MISSING"
        lines.append(f"  {use.word:<16} {held}, in {count(use.notes, 'note')}")
    if found.above:
        lines.append("Above it:")
        for rival in found.above:
            lines.append(f"  {rival.rank}. {rival.file_path} ({rival.score:.4f}): {rival.because}")
            lines += [f"     {render_step(step)}" for step in rival.linked_by]
    if found.priors:
        lines.append("Priors, with the place without and with them:")
        lines += [f"  {use.before} -> {use.after} {use.file_path}: {use.text}" for use in found.priors]
    return "\n".join([*lines, "Why:", *(f"- {text}" for text in found.findings)])


def _render_named(use: NamedUse) -> str:
    """`Names "Ann" (Ann.md 1.00): founded > company, invested_in > person; clear, 100% of the words`"""
    notes = ", ".join(f"{node} {weight:.2f}" for node, weight in use.notes.items())
    steps = ", ".join(f"{' or '.join(step.relations)} > {step.kind or 'any note'}" for step in use.steps)
    clear = "clear" if use.is_clear else "not clear"
    return f'Names "{use.text}" ({notes}): {steps or "nothing asked"}; {clear}, {use.share:.0%} of the words'
