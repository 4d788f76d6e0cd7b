"""What priors did to the places of notes, for a diagnosis."""

from __future__ import annotations

from dataclasses import asdict

from obsidian_rag.diagnosis import PriorUse
from obsidian_rag.search.pipeline import Ranked
from obsidian_rag.search.priors import find_prior
from obsidian_rag.search.query import Request


def list_priors(target: str, ranked: Ranked, limit: int) -> tuple[PriorUse, ...]:
    """The priors of the first notes and of the target."""
    before = {note.file_path: place for place, note in enumerate(ranked.unweighed, 1)}
    after = {note.file_path: place for place, note in enumerate(ranked.weighed, 1)}
    shown = {note.file_path: None for note in ranked.fused[:limit]} | {target: None}
    return tuple(
        PriorUse(path, **asdict(prior), before=before.get(path), after=after.get(path), text=str(prior))
        for path in shown
        if (prior := ranked.priors.get(path))
    )


def explain_priors(request: Request, target: str, ranked: Ranked) -> tuple[str, ...]:
    """What priors did to the target, its own and those of others."""
    before, after = (
        next((place for place, note in enumerate(notes, 1) if note.file_path == target), None)
        for notes in (ranked.unweighed, ranked.weighed)
    )
    if before != after:
        own = ranked.priors.get(target)
        return (f"Priors moved it from place {before} to {after} ({own or 'those of other notes'}).",)
    if ranked.intent == "temporal" and (usual := find_prior(target, request)).factor != 1:
        return (f"{usual} does not count here: the query asks about a time.",)
    return ()
