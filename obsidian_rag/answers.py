"""A search answer as the Markdown an agent reads, within a budget of tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING

from obsidian_rag.analysis import strip_extension
from obsidian_rag.counts import count
from obsidian_rag.models import Hit, LinkStep
from obsidian_rag.passages import MOST_MARKS, Wanted, clip, mark, read_wanted
from obsidian_rag.schemas import BUDGET, MOST_TOKENS
from obsidian_rag.tokens import estimate_json, estimate_tokens

if TYPE_CHECKING:
    from obsidian_rag.search.pipeline import Answer

LEFT_OUT = "(text left out)"
FIRST_HITS = 3  # get twice the room of the others where there is not enough for all
MARKS = -(-MOST_MARKS * len("****") * 2 // 7)  # tokens of the marks in a passage, at 3.5 characters each
LEAST_TEXT = 40  # tokens; less of a passage tells nothing
HEADING = 40  # tokens that the answer's first line takes, beside the query
NOTICE = 90  # tokens kept free for what is said of what was left out
MOST_NOTICES, LONGEST_NOTICE = 12, 600
LONGEST_QUERY = 200  # characters of the query that are shown again
LONGEST_SENTENCE = 300  # of a link's sentence
# Line ends, what a terminal obeys, and what turns the direction of the text after it.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

_FIELDS = [field.name for field in fields(Hit)]
_HEADING = re.compile(r"\s*#{1,6}[ \t]+(\S[^\n]*?)[ \t]*#*[ \t]*(?:\n|\Z)")

# Why a note is there, in words.
REASONS = {
    "exact_title": "its name is what was asked for",
    "alias": "an alias of it is what was asked for",
    "title_phrase": "the query names it",
    "alias_phrase": "the query names it by an alias",
    "heading": "a heading of it says what was asked for",
    "fuzzy_title": "its name is spelled much like the query",
    "keyword_exact": "holds all the words",
    "keyword": "holds some of the words",
    "high_vector": "close in meaning",
    "weak_semantic": "only among the nearest in meaning",
    "date": "of the time asked for",
    "linked": "linked with what the query names",
    "expansion": "found by another wording of the query",
}


def fit_answer(answer: Answer, budget: int = BUDGET) -> Answer:
    """A search answer of at most about `budget` tokens as Markdown, and twice that as JSON; what was left out
    is among its notices.

    Neighbours give way first. Then texts are cut to the passage around what is looked for, the later hits'
    sooner than the first three's, and left out where only a few words would remain. Last, hits are left out.
    """
    answer = _clip_notices(replace(answer, results=tuple(map(_clip_steps, answer.results))))
    wanted = read_wanted(answer.query)
    room = budget - _measure_frame(answer)
    costs = [_measure(hit) for hit in answer.results]
    if sum(costs) <= room:
        return answer
    room -= NOTICE
    places = [place for place, hit in enumerate(answer.results) if not hit.neighbor]
    shown = _clip_hits(
        [answer.results[place] for place in places], [costs[place] for place in places], wanted, room
    )
    kept = dict(zip(places, shown, strict=False))
    used = sum(map(_measure, shown))
    neighbors = 0
    for place, hit in enumerate(answer.results):
        if hit.neighbor and used + costs[place] <= room:
            kept[place] = hit
            used += costs[place]
        elif hit.neighbor:
            neighbors += 1
    left_out = {
        ("the ends of ", "passage"): sum(
            hit.content not in (LEFT_OUT, answer.results[place].content) for place, hit in kept.items()
        ),
        ("the text of ", "result"): sum(hit.content == LEFT_OUT for hit in shown),
        ("", "result"): len(places) - len(shown),
        ("", "neighbor"): neighbors,
    }
    notice = _explain({what: number for what, number in left_out.items() if number}, budget)
    results = tuple(kept[place] for place in sorted(kept))
    return replace(answer, results=results, notices=(*answer.notices, notice))


def _explain(left_out: dict[tuple[str, str], int], budget: int) -> str:
    parts = [f"{of}{count(number, noun)}" for (of, noun), number in left_out.items()]
    more = f" ask with max_tokens={MOST_TOKENS}," if budget < MOST_TOKENS else ""
    return (
        f"Left out to keep this short: {', '.join(parts)}. Read a note with get_note,{more} or ask with a"
        " smaller limit."
    )


def _clip_notices(answer: Answer) -> Answer:
    notices = [
        text if len(text) <= LONGEST_NOTICE else f"{text[:LONGEST_NOTICE]}…" for text in answer.notices
    ]
    if len(notices) > MOST_NOTICES:
        notices[MOST_NOTICES - 1 :] = [f"{count(len(notices) - MOST_NOTICES + 1, 'more notice')}."]
    return answer if notices == list(answer.notices) else replace(answer, notices=tuple(notices))


def _clip_steps(hit: Hit) -> Hit:
    """The hit with sentences of its way that can be shown: that of a table's row may be far too long."""
    steps = tuple(replace(step, sentence=_clip_sentence(step.sentence)) for step in hit.linked_by)
    return hit if steps == hit.linked_by else replace(hit, linked_by=steps)


def _clip_sentence(sentence: str | None) -> str | None:
    return (
        f"{sentence[:LONGEST_SENTENCE]}…" if sentence and len(sentence) > LONGEST_SENTENCE + 1 else sentence
    )


def _measure_frame(answer: Answer) -> int:
    """What stands around the hits."""
    frame = [answer.query, *answer.notices]
    shown = estimate_tokens(f"{answer.query[:LONGEST_QUERY]}\n{'> '.join(answer.notices)}")
    return HEADING + max(shown, estimate_json(frame) // 2)


def _measure(hit: Hit) -> int:
    """What a hit takes: as Markdown, however much of it is marked, or half of it as JSON, which may take
    twice as much.
    """
    shown = estimate_tokens(_render_hit(0, hit, Wanted())) + 1
    marks = 0 if hit.content == LEFT_OUT else min(MARKS, 1 + len(hit.content) // MARKS)
    # As asdict makes it, without its copies.
    written = {name: getattr(hit, name) for name in _FIELDS}
    written["linked_by"] = [asdict(step) for step in hit.linked_by]
    return max(shown + marks, estimate_json(written) // 2)


def _clip_hits(hits: Sequence[Hit], costs: Sequence[int], wanted: Wanted, room: int) -> list[Hit]:
    """As many of the hits, from the first, as there is room for, with as much of their texts as fits; `costs`
    is what each takes whole.
    """
    bare = [replace(hit, content=LEFT_OUT) for hit in hits]
    heads = list(map(_measure, bare))
    count = len(hits)
    while count > 1 and sum(heads[:count]) > room:
        count -= 1
    left = max(0, room - sum(heads[:count]))
    needs = [cost - head for cost, head in zip(costs[:count], heads, strict=False)]
    texts = count
    while texts and sum(min(need, LEAST_TEXT) for need in needs[:texts]) > left:
        texts -= 1
    share = _share(needs[:texts], left)
    shown = bare[:count]
    for place in range(texts):
        allowed = share * (2 if place < FIRST_HITS else 1)
        if needs[place] <= allowed:
            shown[place] = hits[place]
        else:
            shown[place] = replace(
                hits[place], content=clip(hits[place].content, wanted, max(1, allowed - MARKS))
            )
    # Signs that JSON escapes may take what clipping does not count.
    place = texts
    while place and sum(map(_measure, shown)) > room:
        place -= 1
        shown[place] = bare[place]
    return shown


def _share(needs: Sequence[int], room: int) -> int:
    """The largest share of the room that all texts can have, the first of them twice, none more than it
    needs.
    """
    low, high = 0, max(needs, default=0)
    while low < high:
        share = (low + high + 1) // 2
        taken = sum(min(need, share * (2 if place < FIRST_HITS else 1)) for place, need in enumerate(needs))
        low, high = (share, high) if taken <= room else (low, share - 1)
    return low


def render_answer(answer: Answer) -> str:
    """A search answer, as long as it is."""
    wanted = read_wanted(answer.query)
    found = len({hit.file_path for hit in answer.results})
    query = show_line(answer.query)
    query = query if len(query) <= LONGEST_QUERY else f"{query[:LONGEST_QUERY]}…"
    results = "result" if found == 1 else "results"
    head = [f"# {found} {results} for: {query}" if found else f"# Nothing found for: {query}"]
    head += [f"> {show_line(notice)}" for notice in answer.notices]
    hits = [_render_hit(number, hit, wanted) for number, hit in _number(answer.results)]
    return "\n\n".join(["\n".join(head), *hits])


def _number(hits: Sequence[Hit]) -> list[tuple[int, Hit]]:
    numbered, number = [], 0
    for hit in hits:
        number += 0 if hit.neighbor or hit.evidence == "same_note" else 1
        numbered.append((number, hit))
    return numbered


def show_line(text: str) -> str:
    """Text on one line, in the order it is written: a file name with a line end in it must not look like a
    line of the answer, nor one that is turned round like another name.
    """
    return _CONTROLS.sub(lambda match: f"\\x{ord(match.group()):02x}", text)


def _hit_title(number: int, hit: Hit) -> str:
    where = f" > {hit.heading_path}" if hit.heading_path else ""
    place = show_line(f"{hit.file_path}{where}")
    lines = f", lines {hit.start_line}-{hit.end_line}" if hit.start_line is not None else ""
    if hit.neighbor:
        return f"*(neighbor)* {place}{lines}"
    if hit.evidence == "same_note":
        return f"### also {place}{lines}"
    return f"## {number}. {place}{lines}\n{_explain_hit(hit)}"


def _explain_hit(hit: Hit) -> str:
    """`Title · 2025-09-30 · holds all the words (keyword_exact; vector #1, keyword #2)`; a title only where
    it is not the file's name.
    """
    named = strip_extension(hit.file_path).rsplit("/", 1)[-1] == hit.title
    ranks = ", ".join(f"{name} #{rank}" for name, rank in hit.ranks.items())
    marks = "; ".join(part for part in (hit.evidence, ranks) if part)
    why = f"{REASONS.get(hit.evidence, '')} ({marks})".strip()
    return " · ".join(part for part in ("" if named else show_line(hit.title), hit.date, why) if part)


def _render_hit(number: int, hit: Hit, wanted: Wanted) -> str:
    way = "".join(f"\n{render_step(step)}" for step in hit.linked_by)
    text = _drop_heading(hit).strip() or ("(only this heading)" if hit.content.strip() else "(no text)")
    return f"{_hit_title(number, hit)}{way}\n\n{text if text == LEFT_OUT else mark(text, wanted)}"


def _drop_heading(hit: Hit) -> str:
    """The passage without the heading it begins with: the line above it has that already, and a passage that
    begins like one of the answer's own headings reads as one.
    """
    found = _HEADING.match(hit.content)
    return hit.content[found.end() :] if found and hit.heading_path.endswith(found[1]) else hit.content


def render_step(step: LinkStep) -> str:
    """`Acme.md ← invested_in – Ann.md: "Ann led the seed round of Acme."`"""
    left, right = {"out": ("–", "→"), "in": ("←", "–")}.get(step.direction, ("–", "–"))
    said = f' "{" ".join(step.sentence.split())}"' if step.sentence else ""
    ends = (step.from_path.lstrip("?"), step.to_path.lstrip("?"))
    return show_line(f"{ends[0]} {left} {step.relation or 'linked'} {right} {ends[1]}{said}")
