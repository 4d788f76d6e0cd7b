"""The sentences in which links stand, as they read, and what is written before a link as its type."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from obsidian_rag.inline import Written

LONGEST_SENTENCE = 400  # characters; of a longer one, what is around the link
LONGEST_LINK = 200  # characters of a link's text
SHORT_LINE = 60  # characters; a longer line may go on in the next

# Obsidian shows a line's end as one, and short lines are entries of a kind; long ones are wrapped text.
_END = re.compile(r"[.!?…‽؟۔।॥։።。！？｡][\"'”’»)\]*_」』）]*(?=\s)|[。！？｡]|\n")
# Not an end: an initial, a title, a number with its dot.
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"“]|(?<!\w)')"
    r"(?:\w|[A-Z][a-z]|St|Dr|Mr|Mrs|Ms|Prof|Jr|Sr|No|vs|Inc|Ltd|Co|Corp|Gen|Col|Capt|Rev|Hon|Vol|Nr"
    r"|etc|e\.g|i\.e|z\.B|bzw|ca|approx|pp?|Jan|Feb|Mar|Apr|Aug|Sept?|Oct|Nov|Dec|(?:\w\.)+\w)\.$"
)
_LONG_WORD = re.compile(r"[^\W\d_]{6,}\.$")
# Between links under one label: `Authors: [[A]], [[B]] and [[C]]`.
_IN_LIST = re.compile(r"[\s,;、，；&+/*_]*+(?:and|und|et|y|or|和)?[\s*_]*+")
_EMPHASIS = re.compile(r"\*+|__+|==|~~|`")
# `Author: [[A]]`, `**Author:** see [[A]]`, `author:: [[A]]`, also in brackets within a line.
_LABEL = re.compile(
    r"(?:^|[\[(])\s*(?:\[.\]\s+)?(?P<bold>\*\*|__)?(?P<name>[^\W\d_][\w /&-]{0,39}?)(?:\*\*|__)?\s*"
    r"(?P<colon>::?|：)(?:\*\*|__)?(?=\s|$|\[)"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a link stands: in the sentence that reads `sentence`, the link at sentence[first:last]. `number`
    tells the sentences of a text apart, and the pieces of a long one. `label` is what is written before the
    link as its type; it ends with `::` where it is marked as one and can mean nothing else.
    """

    number: tuple[int, int]
    sentence: str
    first: int
    last: int
    label: str | None


def find_places(content: str, written: Sequence[Written], quoted: bool = False) -> list[Place]:
    """The places of the links of one paragraph, heading, list item or row. Linear in its length."""
    plain, spans, labels = _read_plain(content, written, quoted)
    ends = _find_ends(plain, spans)
    places = []
    for (first, last), label in zip(spans, labels, strict=True):
        number = bisect_right(ends, first)
        start = ends[number - 1] if number else 0
        stop = ends[number] if number < len(ends) else len(plain)
        piece = (first - start) // LONGEST_SENTENCE
        start, stop = _narrow(plain, start, stop, first, last)
        sentence = plain[start:stop]
        start += len(sentence) - len(sentence.lstrip())
        at, to = max(0, first - start), max(0, last - start)
        places.append(Place((number, piece), sentence.strip(), at, to, label))
    return places


def _read_plain(
    content: str, written: Sequence[Written], quoted: bool
) -> tuple[str, list[tuple[int, int]], list[str | None]]:
    """The text as it reads, where the links' texts stand in it, and the links' labels."""
    parts: list[str] = []
    length = position = 0
    spans: list[tuple[int, int]] = []
    labels: list[str | None] = []
    label: str | None = None
    for link in written:
        if link.position < position:  # an image inside of a link's text
            spans.append(spans[-1])
            labels.append(label)
            continue
        before = content[position : link.position].removesuffix("!")
        label = _read_label(before, quoted, label if position else None)
        between = _EMPHASIS.sub("", before)
        shown = show_link(link)
        parts += [between, shown]
        length += len(between)
        spans.append((length, length + len(shown)))
        labels.append(label)
        length += len(shown)
        position = link.end
    parts.append(_EMPHASIS.sub("", content[position:]))
    return "".join(parts), spans, labels


def show_link(link: Written) -> str:
    """A link as it reads, as far as that is not too long: its display text, else the name it leads to."""
    if link.label is not None:
        shown = _EMPHASIS.sub("", link.label[: 2 * LONGEST_LINK]) or link.target
    else:
        path, _, shown = link.target.partition("|")
        if not shown.strip():
            name, _, subpath = path.rstrip("\\").partition("#")
            shown = name.rpartition("/")[2].removesuffix(".md").strip() or subpath
    return " ".join(shown.split())[:LONGEST_LINK]


def _read_label(before: str, quoted: bool, current: str | None) -> str | None:
    """The label that holds after `before`: a new one, that of the link before it in a list, or none."""
    line = before.rpartition("\n")[2]
    found = next(reversed(list(_LABEL.finditer(line))), None)
    if found is None:
        return current if "\n" not in before and _IN_LIST.fullmatch(before) else None
    after = line[found.end() :]
    if len(after.split()) > 3:
        return None
    marked = found["colon"] == "::" or (quoted and found["bold"] is not None)
    return found["name"].strip() + ("::" if marked else "")


def _find_ends(plain: str, spans: Sequence[tuple[int, int]]) -> list[int]:
    """Where sentences end, never inside of a link's text."""
    starts = [first for first, _ in spans]
    ends = []
    line = 0
    for match in _END.finditer(plain):
        end = match.end()
        index = bisect_right(starts, match.start()) - 1
        link_end = spans[index][1] if index >= 0 else -1
        if match.start() < link_end:
            continue
        if match.group() == "\n":
            if end - line <= SHORT_LINE or plain[end : end + 1] in "-*+>|":
                ends.append(end)
            line = end
        elif plain[end - 1] != "." or _is_full_stop(plain, end, match.start() == link_end):
            ends.append(end)
    return ends


def _is_full_stop(plain: str, end: int, after_link: bool) -> bool:
    """Whether a dot before `end` ends a sentence; after a link's text it belongs to no abbreviation. Before a
    small letter it does after a word too long for one: names begin small too, and some write all small.
    """
    if after_link:
        return True
    if _ABBREVIATION.search(plain, max(0, end - 12), end):
        return False
    return not plain[end : end + 2].strip().islower() or bool(_LONG_WORD.search(plain, max(0, end - 12), end))


def _narrow(plain: str, start: int, stop: int, first: int, last: int) -> tuple[int, int]:
    """The part of a long sentence around a link, cut at blanks where there are any."""
    room = LONGEST_SENTENCE // 2
    if first - start > room:
        cut = plain.find(" ", first - room, first)
        start = cut + 1 if cut >= 0 else first - room
    if stop - last > room:
        cut = plain.rfind(" ", last, last + room)
        stop = cut if cut >= 0 else last + room
    return start, stop
