"""Links and tags in the text of a paragraph, a heading or a table cell, in one pass.

What hides a link is tried where it starts, from left to right, as an inline parser does: escapes, code
spans, autolinks, HTML tags and comments, mathematics. Every search either ends at the next place where the
same search could start, or its failure is remembered, so that time is proportional to the text's length.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from dataclasses import dataclass, field

from markdown_it.common.utils import unescapeAll

from obsidian_rag.models import LinkKind

# Groups are not repeated possessively: before Python 3.11.5 that loses matches. None of these needs it, since
# what a group gives back begins with nothing that may follow it.
_SPECIAL = re.compile(r"[\\`<$\[\]#]")
# A lone bracket is part of the target, two of them are not; a link does not go over a line's end.
_WIKILINK = re.compile(r"\[\[(?!\[)((?:[^\[\]\n]++|\](?!\])|\[(?!\[))+)\]\]")
_BACKTICKS = re.compile("`+")
_AUTOLINK = re.compile(
    r"<(?:[A-Za-z][A-Za-z0-9+.\-]{1,31}:[^<>\x00-\x20]*+|[\w.!#$%&'*+/=?^`{|}~-]++@[A-Za-z0-9.-]++)>"
)
_ATTRIBUTE = r"""\s++[a-zA-Z_:][a-zA-Z0-9:._-]*+(?:\s*+=\s*+(?:[^"'=<>`\x00-\x20]++|'[^']*+'|"[^"]*+"))?"""
_TAG = re.compile(rf"<(?:[A-Za-z][A-Za-z0-9\-]*+(?:{_ATTRIBUTE})*\s*+/?|/[A-Za-z][A-Za-z0-9\-]*+\s*+)>")
_HTML_ENDS = (("<!--", "-->"), ("<?", "?>"), ("<![CDATA[", "]]>"), ("<!", ">"))
_MATH_CLOSE = re.compile(r"(?<![\s\\$])\$(?![\d$])")
_DESTINATION_STOP = re.compile(r"[\\()\x00-\x20\x7f]")
_SPACES = re.compile(r"[ \t\n]*")
_TITLE = re.compile(r""""(?:[^"\\]++|\\.)*"|'(?:[^'\\]++|\\.)*'|\((?:[^()\\]++|\\.)*\)""", re.DOTALL)
# Letters of any script with their marks, emoji, digits, "_", "-", "/". Given as what ends a tag, because
# `re` has no class for marks and emoji: blanks, ASCII punctuation, and the blocks that hold punctuation.
_TAG_NAME = re.compile(
    "[^\\s\x00-,.:-@\\[-^`{-\xa9\xab-\xb1\xb4\xb6-\xb8\xbb\xbf\xd7\xf7\u2000-\u200c\u200e-\u206f\u2e00-\u2e7f"
    "\u3000-\u3004\u3008-\u3020\u3030\u303d\u30fb\ufe10-\ufe1f\ufe30-\ufe6f\uff01-\uff0f\uff1a-\uff20"
    "\uff3b-\uff40\uff5b-\uff65\ufeff\ufffd\ud800-\udfff]+"
)


@dataclass(frozen=True, slots=True)
class Written:
    """A link as it stands in a text: `target` is what is between the brackets or in the parentheses. It
    fills text[position:end], without the `!` of an embed.
    """

    kind: LinkKind
    target: str
    label: str | None
    position: int
    end: int


@dataclass(slots=True)
class _Scan:
    text: str
    links: list[Written] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    # Open brackets: where, and whether "!" stands before. Those below `inactive` hold a link already.
    open: list[tuple[int, bool]] = field(default_factory=list)
    inactive: int = 0
    runs: dict[int, list[int]] | None = None
    closes: list[int] | None = None
    line_end: int = -1
    tag_end: int = -1
    missing: set[str] = field(default_factory=set)


def is_tag(name: str) -> bool:
    """Whether a name, without "#", can be a tag."""
    return _TAG_NAME.fullmatch(name) is not None and not name.isdigit()


def find_links(text: str, most: int = sys.maxsize) -> tuple[list[Written], list[str]]:
    """The links, in the order written, and the tags, without "#", of one paragraph's raw text; after `most`
    links no more is looked for.
    """
    if "[[" not in text and "](" not in text and "#" not in text:
        return [], []
    scan = _Scan(text)
    position = 0
    floor = 0  # what comes before is used up: an escaped "!" makes no image
    while len(scan.links) < most and (match := _SPECIAL.search(text, position)):
        position = match.start()
        character = match.group()
        if character == "[":
            position, floor = _open_bracket(scan, position, floor)
        elif character == "]":
            position = _close_bracket(scan, position)
        elif character == "#":
            position = _read_tag(scan, position)
        elif character == "\\":
            position += 2
            floor = position
        elif character == "`":
            position = _skip_code(scan, position)
        elif character == "<":
            position = _skip_html(scan, position)
        else:
            position = _skip_math(scan, position)
    scan.links.sort(key=lambda link: link.position)
    return scan.links, scan.tags


def _open_bracket(scan: _Scan, position: int, floor: int) -> tuple[int, int]:
    embed = position > floor and scan.text[position - 1] == "!"
    if match := _WIKILINK.match(scan.text, position):
        if not embed:
            scan.inactive = len(scan.open)  # a link's text holds no link
        scan.links.append(
            Written("embed" if embed else "wikilink", match.group(1), None, position, match.end())
        )
        return match.end(), match.end()
    scan.open.append((position, embed))
    return position + 1, position + 1


def _close_bracket(scan: _Scan, position: int) -> int:
    if not scan.open:
        return position + 1
    start, embed = scan.open.pop()
    depth = len(scan.open)
    active = embed or depth >= scan.inactive
    scan.inactive = min(scan.inactive, depth)
    if not active or not scan.text.startswith("(", position + 1):
        return position + 1
    destination = _read_destination(scan.text, position + 2)
    if destination is None:
        return position + 1
    target, end = destination
    label = scan.text[start + 1 : position]
    scan.links.append(Written("markdown_embed" if embed else "markdown", target, label, start, end))
    if not embed:
        scan.inactive = depth
    return end


def _read_destination(text: str, position: int) -> tuple[str, int] | None:
    """What stands in `(destination "title")` from after the parenthesis, unescaped, and where it ends."""
    position = _skip_spaces(text, position)
    if text.startswith("<", position):
        end = position + 1
        while end < len(text) and text[end] not in "<>\n":
            end += 2 if text[end] == "\\" else 1
        if not text.startswith(">", end):
            return None
        raw, position = text[position + 1 : end], end + 1
    else:
        stop = _end_of_destination(text, position)
        if stop is None:
            return None
        raw, position = text[position:stop], stop
    after = _skip_spaces(text, position)
    if after > position and (title := _TITLE.match(text, after)):
        after = _skip_spaces(text, title.end())
    if not text.startswith(")", after):
        return None
    return unescapeAll(raw), after + 1


def _end_of_destination(text: str, position: int) -> int | None:
    depth = 0
    while match := _DESTINATION_STOP.search(text, position):
        position = match.start()
        character = match.group()
        if character == "(":
            depth += 1
            if depth > 32:
                return None
        elif character == ")":
            if depth == 0:
                return position
            depth -= 1
        elif character == "\\" and position + 1 < len(text) and text[position + 1] != " ":
            position += 1
        else:
            return position if depth == 0 else None
        position += 1
    return None


def _skip_spaces(text: str, position: int) -> int:
    match = _SPACES.match(text, position)
    return match.end() if match else position


def _read_tag(scan: _Scan, position: int) -> int:
    text = scan.text
    before = text[position - 1] if position else " "
    match = _TAG_NAME.match(text, position + 1)
    if match is None or not (before.isspace() or before == "_" or position == scan.tag_end):
        return position + 1
    name = match.group()
    if before == "_":
        name = name.rstrip("_")  # `_#tag_` is a tag in italics
    if name and not name.isdigit():
        scan.tags.append(name)
        scan.tag_end = match.end()  # `#one#two` are two tags
    return match.end()


def _skip_code(scan: _Scan, position: int) -> int:
    """After the code span that starts here, or after the backticks if none does."""
    text = scan.text
    end = position + 1
    while text.startswith("`", end):
        end += 1
    if scan.runs is None:
        scan.runs = {}
        for run in _BACKTICKS.finditer(text):
            scan.runs.setdefault(run.end() - run.start(), []).append(run.start())
    closers = scan.runs.get(end - position, [])
    index = bisect_right(closers, end - 1)
    return closers[index] + (end - position) if index < len(closers) else end


def _skip_html(scan: _Scan, position: int) -> int:
    text = scan.text
    if match := _AUTOLINK.match(text, position) or _TAG.match(text, position):
        return match.end()
    for opening, closing in _HTML_ENDS:
        if not text.startswith(opening, position):
            continue
        if opening == "<!--" and text.startswith((">", "->"), position + 4):
            return position + 6 - text.startswith(">", position + 4)
        if opening == "<!" and not re.match("[A-Za-z]", text[position + 2 : position + 3]):
            break
        end = _find_once(scan, closing, position + len(opening))
        return end + len(closing) if end >= 0 else position + 1
    return position + 1


def _skip_math(scan: _Scan, position: int) -> int:
    """After `$$…$$` or `$…$`; a single `$` opens before a non-blank and closes on the same line."""
    text = scan.text
    if text.startswith("$$", position):
        end = _find_once(scan, "$$", position + 2)
        return end + 2 if end >= 0 else position + 2
    if not text[position + 1 : position + 2].strip():
        return position + 1
    if scan.closes is None:
        links = [match.span() for match in _WIKILINK.finditer(text)]
        starts = [start for start, _ in links]
        scan.closes = []
        for match in _MATH_CLOSE.finditer(text):
            index = bisect_right(starts, match.start()) - 1
            if index < 0 or links[index][1] <= match.start():
                scan.closes.append(match.start())
    index = bisect_right(scan.closes, position + 1)
    if index == len(scan.closes):
        return position + 1
    if scan.line_end < position:
        line_end = text.find("\n", position)
        scan.line_end = line_end if line_end >= 0 else len(text)
    end = scan.closes[index]
    return end + 1 if end < scan.line_end else position + 1


def _find_once(scan: _Scan, mark: str, start: int) -> int:
    """Like `str.find`, but a mark that was missing once is not looked for again further on."""
    if mark in scan.missing:
        return -1
    end = scan.text.find(mark, start)
    if end < 0:
        scan.missing.add(mark)
    return end
