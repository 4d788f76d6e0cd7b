"""A note's text by pages and by sections, with an outline where it does not fit into one answer.

Offsets count the characters (code points) of the note's text as it is indexed, from 0, also where a section
is asked for: pages put together in order are the text, nothing lost, nothing twice.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

from obsidian_rag.analysis import fold
from obsidian_rag.answers import show_line
from obsidian_rag.catalog import StoredText
from obsidian_rag.counts import choose
from obsidian_rag.errors import QueryError
from obsidian_rag.models import Section
from obsidian_rag.schemas import MOST_TOKENS
from obsidian_rag.tokens import count_fitting, estimate_json, estimate_tokens

OUTLINE_TOKENS = 900  # of a page's outline; the page itself gets the rest of the budget
NAMES_TOKENS = 400  # of aliases, and of tags
FRAME_TOKENS = 200  # of what else is said around a page
MOST_CANDIDATES = 12  # headings that an error names
LONGEST_HEADING = 120  # characters of a heading in an outline or an error
LONGEST_ASKED = 1000
_MARKS = re.compile(r"[*_`=~]+|\[\[(?:[^\]|]*\|)?|\]\]|\s+#+\s*$|\^[\w-]+\s*$")
_WORD = re.compile(r"\w")
_BLOCK = re.compile(r"#?\^([A-Za-z0-9-]+)")
_BLOCK_ID = re.compile(r"(?:^|(?<=[ \t]))\^([A-Za-z0-9-]+)[ \t]*$", re.MULTILINE)
_STEPS = re.compile(r"\s*[>#]+\s*")


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A heading and where it stands."""

    heading: str
    level: int
    line: int
    offset: int


@dataclass(frozen=True, slots=True)
class NotePage:
    """A part of a note's text, or all of it. `content` is text[offset:next_offset] of the note's `length`
    characters; `next_offset` is None where the note, or the section asked for, ends. `heading` is that
    section's heading path. `outline` is there where a first page does not hold everything.
    """

    file_path: str
    title: str
    content: str
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    modified_at: str
    indexed_at: str
    heading: str | None
    start_line: int
    end_line: int
    last_line: int
    offset: int
    next_offset: int | None
    length: int
    outline: tuple[OutlineEntry, ...]
    notices: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The object that the tool returns."""
        return asdict(self)


def make_page(
    note: StoredText,
    heading: str | None = None,
    offset: int = 0,
    budget: int = MOST_TOKENS,
    named: str | None = None,
) -> NotePage:
    """The part of a note that begins at `offset` (0: at the beginning of the section, or of the note) and
    takes at most about `budget` tokens as text, and twice that as JSON.

    `named` is the heading that was named with the note's path; where the note does not have it, the whole
    note is meant, as in Obsidian, and a notice says so. Raises QueryError for a heading that the note does
    not have or has several times, for two that differ, and for an offset outside the section or the note.
    """
    text = note.content
    sections: Sequence[Section] = ()
    notices: list[str] = []
    if heading is not None or named is not None or not _fits(text, budget - FRAME_TOKENS):
        from obsidian_rag.notes import parse_note  # takes a parser, which most notes do not need

        sections = parse_note(note.file_path, text).sections
    found = None
    if heading is not None:
        if named is not None and _fold_heading(named) != _fold_heading(heading):
            raise QueryError(
                f"file_path names the section {_shorten(named)!r}, and heading is {_shorten(heading)!r}",
                "Leave one of the two out.",
            )
        found = find_section(note.file_path, text, sections, heading)
    elif named is not None:
        found = _match_section(note.file_path, text, sections, named)
        if found is None:
            missing = _explain_missing(note.file_path, text, sections, named)
            notices.append(f"{missing.message}: this is the note itself. {missing.mend}")
            budget -= estimate_tokens(notices[0])
    first, last, path = 0, len(text), None
    if found is not None:
        first, last = found.start, _end_of(found, sections, len(text))
        # A block before the first heading has no heading path.
        path = " > ".join(found.heading_path) or (heading or named or "").strip()
    start = first if offset == 0 else offset
    if not (first <= start < last or start == first):
        where = f"The section {_shorten(path)!r} reaches from {first} to {last}" if path else (
            f"{note.file_path} has {last} characters"
        )  # fmt: skip
        raise QueryError(
            f"offset is {offset}. {where}",
            "Use the next_offset of the page before, or 0 for the beginning.",
        )
    end = start + _count_page(text[start:last], budget - FRAME_TOKENS)
    outline: tuple[OutlineEntry, ...] = ()
    if end < last:
        end = _end_page(text, start, budget - FRAME_TOKENS - OUTLINE_TOKENS, last, sections)
        if start == first:
            outline, left_out = _make_outline(text, [s for s in sections if first <= s.start < last])
            notices += left_out
    aliases, tags = _cut_names(note.aliases), _cut_names(note.tags)
    if len(aliases) < len(note.aliases) or len(tags) < len(note.tags):
        notices.append("Not all of its aliases and tags are named.")
    return NotePage(
        note.file_path,
        note.title,
        text[start:end],
        aliases,
        tags,
        note.modified_at.isoformat(),
        note.indexed_at.isoformat(),
        path,
        _line_at(text, start),
        _line_at(text, max(start, end - 1)),
        _line_at(text, max(0, len(text) - 1)),
        start,
        end if end < last else None,
        len(text),
        outline,
        tuple(notices),
    )


def _fits(text: str, tokens: int) -> bool:
    return _count_page(text, tokens) == len(text)


def _count_page(text: str, tokens: int) -> int:
    """How many characters fit, as text and, taking twice as much, as JSON."""
    fitting = count_fitting(text, tokens)
    while fitting and estimate_json(text[:fitting]) > 2 * tokens:  # control characters take six signs each
        fitting = fitting * 2 // 3
    return fitting


def _end_page(text: str, start: int, tokens: int, last: int, sections: Sequence[Section]) -> int:
    """Where a page ends best: before a section, a paragraph, a line or a word of its last half, quarter…"""
    end = start + max(1, _count_page(text[start:last], tokens))
    if end >= last:
        return last
    headings = [section.start for section in sections if (start + end) // 2 < section.start <= end]
    if headings:
        return headings[-1]
    least = end - (end - start) // 4
    for mark in ("\n\n", "\n", " "):
        found = text.rfind(mark, least, end)
        if found >= 0:
            return found + len(mark)
    return end


def _line_at(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _end_of(section: Section, sections: Sequence[Section], end: int) -> int:
    """Where a section ends with those below it."""
    if section.heading is None:  # what stands before the first heading has nothing below it
        return section.end
    later = (s.start for s in sections if s.start > section.start and s.level <= section.level)
    return next(later, end)


def _cut_names(names: Sequence[str]) -> tuple[str, ...]:
    kept = list(names)
    while kept and estimate_json(kept) > NAMES_TOKENS:
        kept = kept[: len(kept) * 2 // 3]
    return tuple(kept)


def _make_outline(text: str, sections: Sequence[Section]) -> tuple[tuple[OutlineEntry, ...], list[str]]:
    """The headings with their places: as many levels as fit, and of the next one some, evenly."""
    entries = [
        OutlineEntry(_shorten(section.heading), section.level, _line_at(text, section.start), section.start)
        for section in sections
        if section.heading is not None
    ]
    total = len(entries)
    shown: list[OutlineEntry] = []
    for level in sorted({entry.level for entry in entries}):
        deeper = [entry for entry in entries if entry.level <= level]
        if _measure_outline(deeper) > OUTLINE_TOKENS:
            shown = _thin(deeper, level)
            break
        shown = deeper
    left_out = total - len(shown)
    return tuple(shown), [
        f"{left_out} of its {total} headings {choose(left_out, 'is', 'are')} not in the outline."
    ] if left_out else []


def _thin(entries: Sequence[OutlineEntry], level: int) -> list[OutlineEntry]:
    """Entries without all but every second, fourth, eighth … of a level, so that they fit."""
    kept = list(entries)
    step = 1
    while _measure_outline(kept) > OUTLINE_TOKENS:
        step *= 2
        places = count()
        kept = [entry for entry in entries if entry.level < level or next(places) % step == 0]
    return kept


def _measure_outline(entries: Sequence[OutlineEntry]) -> int:
    shown = estimate_tokens("\n".join(map(_render_entry, entries)))
    return max(shown, estimate_json([asdict(entry) for entry in entries]) // 2)


def _shorten(heading: str | None) -> str:
    shown = show_line(heading or "")
    return shown if len(shown) <= LONGEST_HEADING else f"{shown[:LONGEST_HEADING]}…"


def find_section(file_path: str, text: str, sections: Sequence[Section], asked: str) -> Section:
    """The section that a heading means: as it is written, in another case, without marks, a heading path
    (`Pool > Size`), or a part of it; or the one that holds a block (`^id`). Raises QueryError with the
    candidates, or with the nearest headings.
    """
    found = _match_section(file_path, text, sections, asked)
    if found is None:
        raise _explain_missing(file_path, text, sections, asked)
    return found


def _match_section(file_path: str, text: str, sections: Sequence[Section], asked: str) -> Section | None:
    """None where nothing is meant; raises QueryError where several sections are."""
    if block := _BLOCK.fullmatch(asked.strip()):
        at = _find_blocks(text, sections).get(block[1].lower())
        return None if at is None else next(s for s in reversed(sections) if s.start <= at)
    headed = [section for section in sections if section.heading is not None]
    wanted = _fold_heading(asked)
    if len(asked) > LONGEST_ASKED or not _WORD.search(wanted):
        return None
    steps = _split_path(asked)
    folded = [(_fold_heading(s.heading or ""), _split_path(" > ".join(s.heading_path))) for s in headed]
    ways: tuple[Callable[[str, list[str]], bool], ...] = (
        lambda name, path: name == wanted,
        lambda name, path: path == steps,
        lambda name, path: path[-1:] == steps[-1:] and _holds(path, steps),
        lambda name, path: name.startswith(wanted),
        lambda name, path: wanted in name,
    )
    for fits in ways:
        found = [section for section, (name, path) in zip(headed, folded, strict=True) if fits(name, path)]
        if len(found) == 1:
            return found[0]
        if found:
            raise QueryError(
                f"heading {_shorten(asked)!r} may be any of {len(found)} in {file_path}",
                f"Write a heading path, or read from its offset: {_name(text, found, whole=True)}",
            )
    return None


def _explain_missing(file_path: str, text: str, sections: Sequence[Section], asked: str) -> QueryError:
    """What the note has instead of a heading, or a block, that it does not have."""
    if block := _BLOCK.fullmatch(asked.strip()):
        blocks = _find_blocks(text, sections)
        names = [f"^{name}" for name in sorted(blocks, key=blocks.__getitem__)]
        more = f" and {len(names) - MOST_CANDIDATES} more" if len(names) > MOST_CANDIDATES else ""
        there = f"Its blocks: {', '.join(names[:MOST_CANDIDATES])}{more}."
        named = _shorten(f"^{block[1]}")
        return QueryError(f"No block {named!r} in {file_path}", there if names else "It has none.")
    headed = [section for section in sections if section.heading is not None]
    if not headed:
        return QueryError(f"{file_path} has no headings", "Leave heading out; offset reads on.")
    wanted = _fold_heading(asked)
    if len(asked) > LONGEST_ASKED or not _WORD.search(wanted):
        shown = asked if len(asked) <= LONGEST_HEADING else f"{asked[:LONGEST_HEADING]}…"
        return QueryError(f"heading is {shown!r}", f"Write one of its headings: {_name(text, headed)}")
    names = [_fold_heading(section.heading or "") for section in headed]
    close = difflib.get_close_matches(wanted, names, n=MOST_CANDIDATES, cutoff=0.5)
    near = [section for section, name in zip(headed, names, strict=True) if name in close]
    return QueryError(
        f"No heading {_shorten(asked)!r} in {file_path}",
        f"{'Nearest headings' if near else 'Its headings'}: {_name(text, near or headed)}",
    )


def _find_blocks(text: str, sections: Sequence[Section]) -> dict[str, int]:
    """Where the blocks with an id are, by the id in small letters; of two with one id the first."""
    body = sections[0].start if sections else len(text)
    found = [(match[1].lower(), match.start()) for match in _BLOCK_ID.finditer(text, body)]
    return dict(reversed(found))


def _split_path(path: str) -> list[str]:
    """The folded steps of a heading path; a heading that holds the sign of a step is several."""
    return [step for step in map(_fold_heading, _STEPS.split(path)) if step]


def _fold_heading(heading: str) -> str:
    plain = _MARKS.sub(" ", heading.strip().lstrip("#"))
    return " ".join(fold(plain).casefold().split())


def _holds(path: Sequence[str], steps: Sequence[str]) -> bool:
    """Whether the steps stand in the path, in order."""
    rest = iter(path)
    return all(step in rest for step in steps)


def _name(text: str, sections: Sequence[Section], whole: bool = False) -> str:
    names = [
        f"{_shorten(' > '.join(s.heading_path) if whole else s.heading)}"
        f" (line {_line_at(text, s.start)}, offset={s.start})"
        for s in sections[:MOST_CANDIDATES]
    ]
    more = len(sections) - len(names)
    return "; ".join(names) + (f" and {more} more" if more > 0 else "") + "."


def render_outline(page: NotePage) -> str:
    """What an agent must know beside a page's text; empty where the text is the whole note."""
    if page.heading is None and page.offset == 0 and page.next_offset is None:
        return "\n".join(page.notices)
    what = f"the section {_shorten(page.heading)!r}" if page.heading else "the note"
    end = page.offset + len(page.content)
    goes_on = "ends here" if page.next_offset is None else "goes on"
    lines = [
        f"{show_line(page.file_path)}: lines {page.start_line}-{page.end_line} of {page.last_line},"
        f" characters {page.offset}-{end} of {page.length}; {what} {goes_on}."
    ]
    if page.outline:
        lines += ["Outline:", *map(_render_entry, page.outline)]
    return "\n".join([*lines, *page.notices])


def render_next(page: NotePage) -> str:
    """How to go on; empty where there is nothing more."""
    if page.next_offset is None:
        return ""
    heading = f", heading={page.heading!r}" if page.heading and len(page.heading) <= LONGEST_HEADING else ""
    more = f"Read on: get_note(file_path={page.file_path!r}{heading}, offset={page.next_offset})."
    section = ' One section: get_note(…, heading="…").' if page.outline else ""
    return more + section


def _render_entry(entry: OutlineEntry) -> str:
    return f"{'#' * entry.level} {entry.heading} (line {entry.line}, offset={entry.offset})"
