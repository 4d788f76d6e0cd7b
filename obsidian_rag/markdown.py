"""CommonMark blocks with Obsidian's additions: tables, footnotes, `%%` comments and `$$` mathematics.

The parser is markdown-it-py's block parser. Three things are different: its rules are chosen by a line's
first character, which is most of its time; nesting beyond its bound becomes plain paragraphs instead of
skipping what follows; and its work is counted, so that no input costs more than a fixed amount per line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.common.utils import mdTrim
from markdown_it.parser_block import ParserBlock
from markdown_it.rules_block import (
    StateBlock,
    blockquote,
    code,
    fence,
    heading,
    hr,
    html_block,
    list_block,
    table,
)
from markdown_it.rules_block import reference as reference_definition
from markdown_it.token import Token
from mdit_py_plugins.footnote.index import footnote_def

_PLAIN_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_PLAIN_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")

Rule = Callable[[StateBlock, int, int, bool], bool]

MAX_NESTING = 100
WORK_PER_LINE = 10
"""How often, on average, a line may be asked whether it ends what stands around it. Every level of quotes
and lists asks again; in notes that people wrote it is three times at most."""


class TooMuchWork(Exception):
    """The text is nested so that parsing it would take more than a fixed amount of work per line."""


def parse_blocks(text: str) -> list[Token]:
    """The block tokens of a Markdown text, with the raw text in `inline` and `paragraph`. Raises TooMuchWork.

    Line numbers in `Token.map` count from 0 and lines end at "\\n" only. Token types beyond markdown-it's:
    `comment_open`/`comment_close` around the blocks of a `%%` comment, `math_block`, `definition`, and one
    `paragraph` instead of three tokens.
    """
    parser = _make_parser()
    tokens: list[Token] = []
    if text:
        state = StateBlock(text, parser, {"work": 0, "bound": 0}, tokens)
        state.env["bound"] = 20_000 + WORK_PER_LINE * state.lineMax
        parser.block.tokenize(state, 0, state.lineMax)
    return tokens


def parse_plainly(text: str) -> list[Token]:
    """Headings, fences and paragraphs line by line: what is left where `parse_blocks` gives up."""
    tokens: list[Token] = []
    lines = text.split("\n")
    paragraph: int | None = None
    line = 0
    while line < len(lines):
        fence_mark = _PLAIN_FENCE.match(lines[line])
        is_heading = _PLAIN_HEADING.match(lines[line])
        if paragraph is not None and (fence_mark or is_heading or not lines[line].strip()):
            _push_paragraph(tokens, paragraph, line, "\n".join(lines[paragraph:line]))
            paragraph = None
        if fence_mark:
            mark = fence_mark.group(1)
            end = line + 1
            while end < len(lines) and not _closes_fence(lines[end], mark):
                end += 1
            end = min(end + 1, len(lines))
            token = Token("fence", "code", 0)
            token.map = [line, end]
            tokens.append(token)
            line = end
            continue
        if is_heading:
            _push_heading(tokens, len(is_heading.group(1)), line, lines[line][is_heading.end() :].strip())
        elif paragraph is None and lines[line].strip():
            paragraph = line
        line += 1
    if paragraph is not None:
        _push_paragraph(tokens, paragraph, line, "\n".join(lines[paragraph:line]))
    return tokens


def _closes_fence(line: str, mark: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(mark) and not stripped.strip(mark[0])


def _push_paragraph(tokens: list[Token], start: int, end: int, content: str) -> None:
    token = Token("paragraph", "", 0)
    token.map = [start, end]
    token.content = content
    tokens.append(token)


def _push_heading(tokens: list[Token], level: int, line: int, content: str) -> None:
    opening, inline = Token("heading_open", f"h{level}", 1), Token("inline", "", 0, level=1)
    opening.map, inline.map = [line, line + 1], [line, line + 1]
    without_closer = content.rstrip("#")
    is_closed = not without_closer or without_closer.endswith((" ", "\t"))
    inline.content = without_closer.rstrip() if is_closed else content
    tokens += [opening, inline, Token("heading_close", f"h{level}", -1)]


@cache
def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING, "inline_definitions": True})
    parser.block = _BlockParser()
    return parser


class _BlockParser(ParserBlock):
    """Chooses the rule by the line's first character."""

    def __init__(self) -> None:
        super().__init__()
        # The container rules ask the ruler what may end a paragraph, a quote or a definition: one rule each.
        for name, rule in (("table", table), ("code", code), ("fence", fence), ("blockquote", blockquote)):
            self.ruler.at(name, rule, {"alt": []})
        for name, rule in (("hr", hr), ("reference", reference_definition), ("html_block", html_block)):
            self.ruler.at(name, rule, {"alt": []})
        self.ruler.at("list", list_block, {"alt": []})
        self.ruler.at("heading", heading, {"alt": []})
        self.ruler.push("interruption", _interrupts, {"alt": ["paragraph", "reference"]})
        self.ruler.push("quote_end", _ends_quote, {"alt": ["blockquote"]})
        self.ruler.push("list_end", _ends_list, {"alt": ["list"]})

    def tokenize(self, state: StateBlock, startLine: int, endLine: int) -> None:
        line = startLine
        had_empty = False
        nested_too_deep = state.level >= MAX_NESTING
        while line < endLine:
            state.line = line = state.skipEmptyLines(line)
            if line >= endLine or state.sCount[line] < state.blkIndent:
                break
            _count(state, 1)
            if nested_too_deep or not _parse_block(state, line, endLine):
                _paragraph(state, line, endLine)
            state.tight = not had_empty
            line = state.line
            if (line - 1) < endLine and state.isEmpty(line - 1):
                had_empty = True
            if line < endLine and state.isEmpty(line):
                had_empty = True
                line += 1
                state.line = line


def _parse_block(state: StateBlock, line: int, end: int) -> bool:
    if state.is_code_block(line):
        return code(state, line, end, False)
    if _may_start_table(state, line, end) and table(state, line, end, False):
        return True
    first = state.src[state.bMarks[line] + state.tShift[line]]
    return any(rule(state, line, end, False) for rule in _RULES.get(first, ()))


def _may_start_table(state: StateBlock, line: int, end: int) -> bool:
    """A table's first row can start with anything, its second only with one of three characters."""
    following = line + 1
    return (
        following < end
        and not state.isEmpty(following)
        and state.src[state.bMarks[following] + state.tShift[following]] in "|-:"
    )


def _count(state: StateBlock, work: int) -> None:
    state.env["work"] += work
    if state.env["work"] > state.env["bound"]:
        raise TooMuchWork


def _interrupts(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    return _starts_block(state, line, end, _INTERRUPTING) or (
        _may_start_table(state, line, end) and table(state, line, end, True)
    )


def _ends_quote(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    return _starts_block(state, line, end, _INTERRUPTING)


def _ends_list(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    return _starts_block(state, line, end, _LIST_ENDING)


def _starts_block(state: StateBlock, line: int, end: int, rules: dict[str, tuple[Rule, ...]]) -> bool:
    _count(state, 1)
    position = state.bMarks[line] + state.tShift[line]
    if position >= state.eMarks[line]:
        return False
    return any(rule(state, line, end, True) for rule in rules.get(state.src[position], ()))


def _paragraph(state: StateBlock, start: int, end: int) -> None:
    """A paragraph or a setext heading, in one pass over its lines.

    Several lines above `---` are a paragraph and a rule: that is nearly always a second block of
    properties, and Obsidian itself does not show such lines as a heading everywhere.
    """
    line = start + 1
    stop = state.lineMax
    parent = state.parentType
    state.parentType = "paragraph"
    level = 0
    is_code = state.is_code_block(start)
    while line < stop and not state.isEmpty(line):
        indent = state.sCount[line]
        if indent - state.blkIndent > 3 or indent < 0:
            line += 1  # a lazy continuation, whatever stands there
            continue
        if line < end and indent >= state.blkIndent and not is_code:
            level = _underline_level(state, line)
            if level == 2 and line > start + 1:
                level = 0
                if state.src.startswith("---", state.bMarks[line] + state.tShift[line]):
                    break
            elif level:
                break
        if _interrupts(state, line, stop, True):
            break
        line += 1
    content = mdTrim(state.getLines(start, line, state.blkIndent, False))
    state.parentType = parent
    state.line = line + 1 if level else line
    if level:
        token = state.push("heading_open", f"h{level}", 1)
        token.map = [start, state.line]
    # Paragraphs are most tokens of a note, and nobody asks for their ends: one token instead of three.
    token = state.push("inline" if level else "paragraph", "", 0)
    token.map = [start, line]
    token.content = content
    if level:
        state.push("heading_close", f"h{level}", -1)


def _underline_level(state: StateBlock, line: int) -> int:
    position = state.bMarks[line] + state.tShift[line]
    marker = state.src[position]
    if marker not in "-=":
        return 0
    underline = state.src[position : state.eMarks[line]].rstrip(" \t")
    return (1 if marker == "=" else 2) if underline.strip(marker) == "" else 0


def _comment(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """`%%` at the start of a line, closed on a later one: its links count, its headings are none."""
    if state.is_code_block(start) or state.env.get("in_comment"):
        return False
    close = _find_close(state, start, end, "%%", over_blank_lines=True)
    if close is None:
        return False
    if silent:
        return True
    opening = state.bMarks[start], state.tShift[start], state.lineMax, state.parentType
    token = state.push("comment_open", "", 1)
    token.map = [start, close + 1]
    state.bMarks[start] += state.tShift[start] + 2
    state.tShift[start] = state.skipSpaces(state.bMarks[start]) - state.bMarks[start]
    if state.bMarks[start] + state.tShift[start] > state.eMarks[start]:
        state.tShift[start] = state.eMarks[start] - state.bMarks[start]
    state.lineMax = close + 1
    state.parentType = "comment"
    state.env["in_comment"] = True
    state.md.block.tokenize(state, start, close + 1)
    state.env["in_comment"] = False
    state.bMarks[start], state.tShift[start], state.lineMax, state.parentType = opening
    state.push("comment_close", "", -1)
    state.line = close + 1
    return True


def _math(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """`$$` at the start of a line, closed on a later one; over blank lines only where `$$` stands alone."""
    if state.is_code_block(start):
        return False
    position = state.bMarks[start] + state.tShift[start]
    alone = state.src[position : state.eMarks[start]].strip() == "$$"
    close = _find_close(state, start, end, "$$", over_blank_lines=alone)
    if close is None:
        return False
    if not silent:
        token = state.push("math_block", "math", 0)
        token.map = [start, close + 1]
        state.line = close + 1
    return True


def _find_close(state: StateBlock, start: int, end: int, mark: str, *, over_blank_lines: bool) -> int | None:
    """The line, after `start`, that holds `mark` again; None if `start` does not open a block with it."""
    position = state.bMarks[start] + state.tShift[start]
    if (
        not state.src.startswith(mark, position)
        or state.src.find(mark, position + 2, state.eMarks[start]) >= 0
    ):
        return None
    for line in range(start + 1, end):
        if state.isEmpty(line):
            if not over_blank_lines:
                return None
        elif state.sCount[line] < state.blkIndent:
            return None
        elif state.src.find(mark, state.bMarks[line], state.eMarks[line]) >= 0:
            _count(state, (line - start) // 8)
            return line
    _count(state, (end - start) // 8)
    return None


def _footnote(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A footnote's text. What looks like one is never a link definition, as its text holds links."""
    return bool(footnote_def(state, start, end, silent))


def _definition(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    position = state.bMarks[start] + state.tShift[start]
    if state.src.startswith(("[[", "[^"), position):
        return False
    return reference_definition(state, start, end, silent)


_INTERRUPTING: dict[str, tuple[Rule, ...]] = {
    "`": (fence,),
    "~": (fence,),
    ">": (blockquote,),
    "-": (hr, list_block),
    "*": (hr, list_block),
    "_": (hr,),
    "+": (list_block,),
    "<": (html_block,),
    "#": (heading,),
    "%": (_comment,),
    "$": (_math,),
    "[": (_footnote,),
} | {digit: (list_block,) for digit in "0123456789"}
_LIST_ENDING: dict[str, tuple[Rule, ...]] = {"-": (hr,), "*": (hr,)}
_RULES = _INTERRUPTING | {"[": (_footnote, _definition)}
