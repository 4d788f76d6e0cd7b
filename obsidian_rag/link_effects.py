"""What links did for a query, for a diagnosis: what it names, what it asks of that, who is linked."""

from __future__ import annotations

from collections.abc import Sequence

from obsidian_rag.diagnosis import NamedUse, StepUse
from obsidian_rag.search.links import LinkResult
from obsidian_rag.search.plans import Plan


def list_named(links: LinkResult) -> tuple[NamedUse, ...]:
    """What the query names, with the hops that it asks for from there."""
    return tuple(_describe(plan) for plan in links.plans)


def _describe(plan: Plan) -> NamedUse:
    return NamedUse(
        text=plan.start.text,
        notes={node: round(weight, 3) for node, weight in plan.start.nodes.items()},
        steps=tuple(
            StepUse({name: round(weight, 3) for name, weight in step.relations.items()}, step.kind)
            for step in plan.steps
        ),
        kind=plan.kind,
        share=round(plan.share, 3),
        is_clear=plan.is_clear,
    )


def explain_links(target: str, links: LinkResult) -> list[str]:
    """What links say of the target, where the query names anything."""
    if not links.plans:
        return []
    names = _join([plan.start.text for plan in links.plans])
    place = next((place for place, path in enumerate(links.order, 1) if path == target), None)
    if target in links.named:
        return ["The query names it" + (", and asks for what is linked with it." if links.is_clear else ".")]
    if place is None:
        return [f"The query names {names}, and no link that it asks for leads from there to this note."]
    if links.is_clear:
        return [f"Links put it in place {place}: the query asks for what is linked with {names}."]
    return [f"It is linked with {names}; the query does not say clearly enough what it asks of that."]


def _join(names: Sequence[str]) -> str:
    return " and ".join(repr(name) for name in names)
