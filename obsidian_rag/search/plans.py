"""From the words of a question to steps over links: what is named, which relations are asked for, in order.

"Who invested in the company that Ann founded?" names Ann; the cue nearest to the name is walked first
(founded, to a company), then the one before it (invested, to a person). The words and the relations come
from the one table of relations; nothing here knows a sentence by its form beyond the order of its cues.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from obsidian_rag.relations import Cue, Table
from obsidian_rag.search.named import Named, Token

MOST_STEPS = 3
# Share of a question's content words that a plan must explain to be sure of it: with a cue from the table,
# and with cues that only the embedder finds.
CLEAR, CLEAR_BY_LIKENESS = 0.4, 0.75
NEAR = 3  # words between a name and a cue that belongs to it
ASKING = frozenset(("who", "whom", "whose", "who's"))
CHOOSING = frozenset(("which", "what", "any"))
REFERRING = frozenset(
    ("those", "one", "ones", "anyone", "anybody", "everyone", "everybody", "someone", "all")
)
REQUESTING = frozenset(("want", "need", "tell", "list", "show", "give", "find", "names", "name", "know"))
JOINING = frozenset(("in", "of", "at", "for", "with", "from", "on", "by"))
BEING = frozenset(("is", "are", "was", "were", "being", "as"))
DETERMINERS = frozenset(("a", "an", "the", "their", "his", "her", "its", "our"))
MOST_CUES = 4
MOST_DRAFTS = 40
# How likely an order of cues is, by what it does with them.
OUT_OF_ORDER = 0.8  # for each cue that is passed over
UNUSED = 0.65  # a cue that has no place in it
REPEATED = 0.9  # a cue that says again what another says
SHARED = 0.95  # a cue taken twice where something is shared
IMPLIED, IMPLIED_LAST, UNSAID = 0.9, 0.8, 0.7  # a hop that only a kind tells, and one that nothing tells
OTHER_AGENT = 0.7  # `investors` that are not persons, but what they invest in
RARER_PAIR = 0.8  # another pair of kinds than the first that a relation connects
Relations = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Step:
    """One hop: the relations asked for, relation -> weight, and the kind of note it leads to, None where
    nothing tells. [first, last) are the tokens that ask for it.
    """

    relations: Relations
    kind: str | None
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The hops from one named note. `kind` is the kind of note that is asked for; `share` how much of the
    question's content the plan explains, from 0 to 1.
    """

    start: Named
    steps: tuple[Step, ...]
    kind: str | None
    share: float

    @property
    def is_clear(self) -> bool:
        """Whether the question asks for what the links of the named note say."""
        by_word = any(weight == 1.0 for step in self.steps for weight in step.relations.values())
        least = CLEAR if by_word else CLEAR_BY_LIKENESS
        return bool(self.steps) and self.kind is not None and self.share >= least


@dataclass(frozen=True, slots=True)
class Reading:
    """What the words of a question are: cues for relations, kinds of note, what several notes share.
    `explained` are the tokens that these explain, with how surely, up to 1; `content` those that say
    something.
    """

    cues: tuple[Step, ...]
    kinds: tuple[Cue, ...]
    shared: tuple[Cue, ...]
    explained: Mapping[int, float]
    content: frozenset[int]


def read_question(
    tokens: Sequence[Token],
    named: Sequence[Named],
    table: Table,
    similar: Mapping[tuple[int, int], Relations] | None = None,
) -> Reading:
    """Cues, kinds and content words. `similar` adds relations that the embedder found for spans of words."""
    words = [token.text for token in tokens]
    taken = {at for name in named for at in range(name.first, name.last)}

    def find(phrases: Iterable[Cue]) -> tuple[Cue, ...]:
        return tuple(cue for cue in phrases if taken.isdisjoint(range(cue.first, cue.last)))

    cues, kinds, shared = (find(p.find(words)) for p in (table.asked, table.called, table.shared))
    spans = {(cue.first, cue.last, cue.name): 1.0 for cue in cues}
    for (first, last), relations in (similar or {}).items():
        spans |= {(first, last, name): weight for name, weight in relations.items()}
    explained = {
        at: max(relations.values())
        for (first, last), relations in (similar or {}).items()
        for at in range(first, last)
    }
    explained |= {at: 1.0 for cue in (*cues, *kinds, *shared) for at in range(cue.first, cue.last)}
    content = {at for at, word in enumerate(words) if at not in taken and word not in table.plain}
    return Reading(tuple(_group_cues(spans)), kinds, shared, explained, frozenset(content))


def _group_cues(spans: Mapping[tuple[int, int, str], float]) -> list[Step]:
    """Cues that overlap, or stand side by side and share a relation, as one step each, in order."""
    groups: list[tuple[int, int, dict[str, float]]] = []
    for (first, last, name), weight in sorted(spans.items()):
        if groups:
            start, end, relations = groups[-1]
            if first < end or (first == end and name in relations):
                relations[name] = max(relations.get(name, 0.0), weight)
                groups[-1] = (start, max(end, last), relations)
                continue
        groups.append((first, last, {name: weight}))
    return [Step(relations, None, first, last) for first, last, relations in groups]


def _join_repeated(steps: Sequence[Step], kinds: Sequence[Cue]) -> list[Step]:
    """One step of two that say the same with nothing between that either could lead to: `came up when they
    discussed`.
    """
    joined: list[Step] = []
    for step in steps:
        last = joined[-1] if joined else None
        if (
            last
            and last.relations.keys() & step.relations.keys()
            and step.first - last.last <= NEAR
            and not any(last.first <= cue.first < step.last for cue in kinds)
        ):
            joined[-1] = replace(last, relations={**step.relations, **last.relations}, last=step.last)
        else:
            joined.append(step)
    return joined


def make_plan(
    reading: Reading, named: Named, tokens: Sequence[Token], of_kinds: frozenset[str], table: Table
) -> Plan:
    """The hops from a named note whose own kinds are `of_kinds`."""
    kinds = [cue for cue in reading.kinds if not _is_apposed(cue, named, tokens, of_kinds, reading, table)]
    wanted = _find_wanted(kinds, named, tokens)
    owned = _find_owned(kinds, reading.cues, named, tokens, of_kinds)
    cues = _order_cues(reading, named, tokens, kinds, owned is not None)
    mentioned = _list_mentioned(kinds, cues, wanted, tokens)
    steps: tuple[Step, ...] = ()
    for goal in dict.fromkeys((wanted, None)):
        planner = _Planner(cues, mentioned, goal, owned, bool(reading.shared), table)
        steps = steps or planner.find(of_kinds)
    sure = sum(reading.explained.get(at, 0.0) for at in reading.content)
    share = sure / len(reading.content) if reading.content else 1.0
    if steps and steps[-1].kind is None:
        steps = (*steps[:-1], replace(steps[-1], kind=wanted))
    return Plan(named, steps, steps[-1].kind if steps else wanted, share)


def _find_owned(
    kinds: Sequence[Cue],
    cues: Sequence[Step],
    named: Named,
    tokens: Sequence[Token],
    of_kinds: frozenset[str],
) -> str | None:
    """The kind of what is said to be the named note's: `Ann's company`."""
    own = tokens[named.last - 1].text.endswith(("'s", "s'"))
    at = named.last + (named.last < len(tokens) and tokens[named.last].text == "s")
    cued = {at for cue in cues for at in range(cue.first, cue.last)}
    if not own and at == named.last:
        return None
    found = [cue.name for cue in kinds if cue.first in (at, at + 1) and cue.first not in cued]
    return found[0] if found and found[0] not in of_kinds else None


def _list_mentioned(
    kinds: Sequence[Cue], cues: Sequence[Step], wanted: str | None, tokens: Sequence[Token]
) -> frozenset[str]:
    """The kinds that a hop without a cue may lead to: said by a word of its own, besides what is asked."""
    own = [
        cue.name
        for cue in kinds
        if tokens[cue.first].text not in ASKING
        and not any(step.first <= cue.first < step.last for step in cues)
    ]
    return frozenset(name for name in own if name != wanted or own.count(name) > 1)


def _is_apposed(
    cue: Cue,
    named: Named,
    tokens: Sequence[Token],
    of_kinds: frozenset[str],
    reading: Reading,
    table: Table,
) -> bool:
    """Whether a kind only says what the named note is: `the company Acme`, `the idea of compost`."""
    between = range(cue.last, named.first)
    return (
        cue.name in of_kinds
        and tokens[cue.first].text not in ASKING
        and len(between) <= 2
        and cue.last <= named.first
        and all(tokens[at].text in table.plain for at in between)
        and not any(step.first <= cue.first < step.last for step in reading.cues)
    )


def _find_wanted(kinds: Sequence[Cue], named: Named, tokens: Sequence[Token]) -> str | None:
    """The kind of note that is asked for: after `which` or `what`, by `who`, after `I need`; else the last
    that is said of a name at the beginning (`Acme founders`), else the first.
    """
    words = [token.text for token in tokens]
    for cue in kinds:
        if CHOOSING & set(words[max(0, cue.first - 2) : cue.first]):
            return cue.name
    starts = {cue.last for cue in kinds} | {at + 1 for at, word in enumerate(words) if word in REFERRING}
    for cue in kinds:
        if words[cue.first] in ASKING and (cue.first not in starts or tokens[cue.first].opens):
            return cue.name
    said = [cue for cue in kinds if words[cue.first] not in ASKING]
    if "then" in words and said:
        return said[-1].name
    requests = [at for at, word in enumerate(words) if word in REQUESTING]
    asked = [cue for cue in said if requests and cue.first >= requests[-1]]
    if asked:
        return asked[0].name
    if said and named.first <= 1 and said[0].first >= named.last:
        heads = [cue for cue in said if not JOINING & set(words[max(0, cue.first - 3) : cue.first])]
        return (heads or said)[-1].name
    return said[0].name if said else None


def _order_cues(
    reading: Reading, named: Named, tokens: Sequence[Token], kinds: Sequence[Cue], owns: bool
) -> list[Step]:
    """The cues in the order in which they would be walked, each with the kind that its own words say.

    What follows the name belongs to it (`that Ann founded`), but for what is done by it (`backed by Ann`) and
    behind a thing of its own (`investors in Ann's company attended`); then outwards before it; then the rest.
    """
    left = _join_repeated([cue for cue in reading.cues if cue.last <= named.first], kinds)
    right = _join_repeated([cue for cue in reading.cues if cue.first >= named.last], kinds)
    left.reverse()
    by = [token.text for token in tokens[left[0].last : named.first]] if left else []
    order = [*left, *right] if owns or by == ["by"] else [*right[:1], *left, *right[1:]]
    return [replace(step, kind=_find_agent(step, kinds, tokens)) for step in order]


def _find_agent(step: Step, kinds: Sequence[Cue], tokens: Sequence[Token]) -> str | None:
    """The kind that a cue's own words say: `investors`; but not where they say what the named note is: `is an
    investor in`, `as their employer`.
    """
    before = [token.text for token in tokens[max(0, step.first - 2) : step.first]]
    if before[-1:] and (before[-1] in BEING or (before[0] in BEING and before[-1] in DETERMINERS)):
        return None
    return next((cue.name for cue in kinds if step.first <= cue.first < step.last), None)


@dataclass(frozen=True, slots=True)
class _Draft:
    steps: tuple[Step, ...]
    used: tuple[int, ...]
    kind: str | None
    worth: float


class _Planner:
    """Finds the most likely order of cues in which each can follow the one before, by kinds."""

    def __init__(
        self,
        cues: Sequence[Step],
        mentioned: frozenset[str],
        wanted: str | None,
        owned: str | None,
        shares: bool,
        table: Table,
    ) -> None:
        self._cues = cues[:MOST_CUES]
        self._mentioned = mentioned
        self._wanted = wanted
        self._owned = owned
        self._shares = shares
        self._table = table

    def find(self, start: frozenset[str]) -> tuple[Step, ...]:
        """The steps of the best order; none where no cue can begin at these kinds."""
        kinds: list[str | None] = [*sorted(start)] or [None]
        drafts = [_Draft((), (), kind, 1.0) for kind in kinds]
        if self._owned is not None:
            owned = [longer for draft in drafts for longer in self._imply(draft)]
            drafts = [draft for draft in owned if draft.kind == self._owned] or drafts
        best: tuple[float, tuple[Step, ...]] = (0.0, ())
        while drafts:
            for draft in drafts:
                worth = self._judge(draft) if draft.steps else 0.0
                if worth > best[0]:
                    best = (worth, draft.steps)
            short = [draft for draft in drafts if len(draft.steps) < MOST_STEPS]
            drafts = [longer for draft in short for longer in self._extend(draft)]
            drafts = sorted(drafts, key=lambda draft: -draft.worth)[:MOST_DRAFTS]
        return best[1]

    def _extend(self, draft: _Draft) -> Iterator[_Draft]:
        for index, cue in enumerate(self._cues):
            again = index in draft.used
            if again and not (self._shares and draft.used[-1] == index):
                continue
            skipped = sum(1 for before in range(index) if before not in draft.used)
            worth = draft.worth * OUT_OF_ORDER**skipped * (SHARED if again else 1.0)
            for relations, kind, share in self._follow(cue, draft.kind):
                step = Step(relations, kind, cue.first, cue.last)
                yield _Draft((*draft.steps, step), (*draft.used, index), kind, worth * share)
        yield from self._imply(draft)

    def _follow(self, cue: Step, start: str | None) -> Iterator[tuple[Relations, str | None, float]]:
        """What of a cue can follow, the kind it leads to, and how likely that is."""
        by_end: dict[str | None, dict[str, float]] = {}
        shares: dict[str | None, float] = {}
        for name, weight in cue.relations.items():
            for end, share in _list_ends(name, start, self._table):
                by_end.setdefault(end, {})[name] = weight
                shares[end] = max(shares.get(end, 0.0), share)
        for end, relations in by_end.items():
            if end is None:
                yield relations, cue.kind, shares[end]
            else:
                agrees = cue.kind is None or cue.kind == end
                other = SHARED if self._shares else OTHER_AGENT
                yield relations, end, shares[end] * (1.0 if agrees else other)

    def _imply(self, draft: _Draft) -> Iterator[_Draft]:
        """Hops without a cue, to kinds that the question says, and to those that need no saying."""
        for pair, names in self._table.pairs.items():
            relations = {name: share for name in names if (share := self._table.relations[name].implied)}
            if draft.kind not in pair or not relations:
                continue
            for kind in sorted(pair - {draft.kind}):
                if kind in self._mentioned or kind == self._owned:
                    share = IMPLIED * (SHARED if self._shares else 1.0)
                elif kind == self._wanted:
                    share = IMPLIED_LAST
                elif any(
                    relation.implied == 1.0 and relation.between[0] == (draft.kind, kind)
                    for relation in map(self._table.relations.__getitem__, relations)
                ):
                    share = UNSAID
                else:
                    continue
                steps = (*draft.steps, Step(relations, kind, 0, 0))
                yield _Draft(steps, draft.used, kind, draft.worth * share)

    def _judge(self, draft: _Draft) -> float:
        if self._wanted is not None and draft.kind is not None and draft.kind != self._wanted:
            return 0.0
        if not draft.used and (self._wanted is None or self._cues):
            return 0.0
        worth = draft.worth
        said = {name for step in draft.steps for name in step.relations}
        kinds = {step.kind for step in draft.steps}
        for index, cue in enumerate(self._cues):
            if index not in draft.used:
                repeats = bool(said & cue.relations.keys()) and (cue.kind is None or cue.kind in kinds)
                worth *= REPEATED if repeats else UNUSED
        return worth


def _list_ends(name: str, start: str | None, table: Table) -> list[tuple[str | None, float]]:
    """The kinds that a relation leads to from one, with how likely; None where nothing is known, nothing
    where it does not connect that kind.
    """
    relation = table.relations.get(name)
    if relation is None or not relation.between or start is None:
        return [(None, 1.0)]
    ends: dict[str | None, float] = {}
    for number, pair in enumerate(relation.between):
        for kind, other in (pair, pair[::-1]):
            if kind == start:
                ends.setdefault(other, RARER_PAIR if number else 1.0)
    return list(ends.items())
