"""A note's Markdown as HTML for the page: passage and words of the query marked, nothing from outside.

HTML in a note is text here, pictures are named and not loaded, and a link leads to a note of the index, to a
web or mail address, or nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from typing import Any
from urllib.parse import unquote, urlencode

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.tasklists import tasklists_plugin

from obsidian_rag.passages import Wanted
from obsidian_rag.web.marking import split

MAX_NESTING = 40
MOST_BRACKETS = 8_000  # the parser's time grows with their square; a text with more is no person's
_OUTSIDE = re.compile(r"(?:https?|mailto|obsidian):", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_WIKILINK = re.compile(r"(!?)\[\[([^\[\]\n|]+)(?:\|([^\[\]\n]*))?\]\]")
_EMPTY_CELLS = re.compile(r"(?: ·){2,}")
_CALLOUT = re.compile(r"\[!([\w-]+)\][+-]?[ \t]*")


@dataclass(frozen=True, slots=True)
class Shown:
    """What a text is shown with: `wanted` are the words to mark, `targets` the paths that the note's links
    lead to, by their names in lower case, `passage` the lines to mark, from 0, the last one not among them.
    """

    wanted: Wanted = field(default_factory=Wanted)
    targets: Mapping[str, str] = field(default_factory=dict)
    passage: range = range(0)


def render_note(text: str, shown: Shown) -> str:
    """HTML of a note's text without its properties. The first block of the passage has the id `passage`."""
    env = {"shown": shown}
    tokens = _parse(text, env)
    if tokens is None:
        return _render_plain(text, shown)
    if shown.passage:
        lines, end = text.split("\n"), shown.passage.stop
        while end < len(lines) and not lines[end].strip():
            end += 1  # a block may end with the blank lines after it
        _mark_passage(tokens, range(shown.passage.start, end))
    parser = _make_parser()
    return str(parser.renderer.render(tokens, parser.options, env))


def _parse(text: str, env: dict[str, Any]) -> list[Token] | None:
    """The blocks of a text; None of one that is made to be slow, or so nested that the parser loses some."""
    if text.count("[") > MOST_BRACKETS:
        return None
    tokens = _make_parser().parse(text, env)
    return None if any(token.level >= MAX_NESTING - 1 for token in tokens) else tokens


def _render_plain(text: str, shown: Shown) -> str:
    """A text as it is written."""
    lines = text.split("\n")
    first, last = shown.passage.start, max(shown.passage.stop, shown.passage.start)
    before, passage, after = ("\n".join(part) for part in (lines[:first], lines[first:last], lines[last:]))
    env = {"shown": shown}
    middle = f'<span class="passage" id="passage">{_mark(passage, env)}</span>' if passage else ""
    return f'<pre class="plain">{_mark(before, env)}\n{middle}\n{_mark(after, env)}</pre>'


def read_plain(text: str) -> str:
    """A passage's words without its markup, in lines: each block, list item and row of a table is one. A
    heading that begins it is left out.
    """
    tokens = _parse(text, {"shown": Shown()})
    if tokens is None:
        return text.strip()
    has_heading = bool(tokens) and tokens[0].type == "heading_open"
    parts: list[str] = []
    for token in tokens[3 * has_heading :]:
        if token.type == "inline":
            shown = [child for child in token.children or () if child.type != "html_inline"]  # of plugins
            parts += [" " if child.type in BREAKS else child.content for child in shown]
        elif token.type in ("fence", "code_block", "math_block"):
            parts.append(token.content)
        elif token.type in ("td_close", "th_close"):
            parts.append(" · ")
        if token.type in ENDS:
            parts.append("\n")
    lines = (" ".join(line.split()).strip("· ") for line in "".join(parts).split("\n"))
    return "\n".join(_EMPTY_CELLS.sub(" ·", line) for line in lines if line)


BREAKS = ("softbreak", "hardbreak")
# Where a line of plain text ends.
ENDS = {"heading_close", "paragraph_close", "list_item_close", "tr_close"} | {"fence", "code_block"}


def _mark_passage(tokens: Sequence[Token], passage: range) -> None:
    """Give the blocks of the passage its class: whole ones, and of those that go beyond it what is inside."""
    marked_until = -1  # the level of the marked block that we are in
    is_first = True
    for place, token in enumerate(tokens):
        if marked_until >= 0:
            if token.level == marked_until and token.nesting == -1:
                marked_until = -1
            continue
        if token.map is None or token.nesting == -1 or token.type == "inline":
            continue
        first, last = token.map
        inner = tokens[place + 1] if token.nesting else token
        is_leaf = inner is token or inner.type == "inline" or token.type == "tr_open"
        if inner.hidden and inner.map:  # the text of a list's item, which is no element of its own
            is_leaf = inner.map[0] < passage.stop and inner.map[1] > passage.start
        whole = passage.start <= first and last <= passage.stop
        if token.hidden or not (whole or (is_leaf and first < passage.stop and last > passage.start)):
            continue
        token.attrJoin("class", "passage")
        if is_first:
            token.attrSet("id", "passage")
            is_first = False
        if token.nesting == 1:
            marked_until = token.level


@cache
def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTING})
    parser.enable(["table", "strikethrough"])
    parser.use(footnote_plugin).use(tasklists_plugin)
    parser.use(dollarmath_plugin, renderer=_render_math, allow_labels=False, allow_digits=False)
    parser.validateLink = _is_followed  # type: ignore[method-assign]
    parser.inline.ruler.before("link", "wikilink", _read_wikilink)
    parser.core.ruler.after("inline", "callout", _read_callouts)
    parser.core.ruler.push("alignment", _name_alignments)
    for kind, rule in RULES.items():
        parser.add_render_rule(kind, rule)
    return parser


def _is_followed(url: str) -> bool:
    """Whether a link is one at all: to the web, a mail address, Obsidian, or a file of the vault."""
    plain = "".join(unquote(url).split())
    return bool(_OUTSIDE.match(plain)) or not _SCHEME.match(plain)


def _read_wikilink(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "[!":
        return False
    match = _WIKILINK.match(state.src, state.pos)
    if match is None:
        return False
    if not silent:
        token = state.push("wikilink", "", 0)
        token.meta = {"target": match[2].strip(), "embed": bool(match[1])}
        token.content = (match[3] or match[2].strip(" #").replace("#", " > ")).strip()
    state.pos = match.end()
    return True


def _read_callouts(state: StateCore) -> None:
    """`> [!warning] Title` begins a quote of a kind of its own, which is said in words."""
    for quote, paragraph, inline in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        if quote.type != "blockquote_open" or paragraph.type != "paragraph_open" or not inline.children:
            continue
        first = inline.children[0]
        match = _CALLOUT.match(first.content) if first.type == "text" else None
        if match:
            quote.attrJoin("class", "callout")
            first.content = first.content[match.end() :]
            kind = Token("text", "", 0, content=match[1].capitalize() + (": " if first.content else ""))
            inline.children[:0] = [
                Token("strong_open", "strong", 1),
                kind,
                Token("strong_close", "strong", -1),
            ]


def _name_alignments(state: StateCore) -> None:
    """The policy of the page lets no element bring its own style."""
    for token in state.tokens:
        if style := token.attrs.pop("style", ""):
            token.attrSet("class", str(style).removeprefix("text-align:"))


def _render_math(content: str, options: Mapping[str, Any]) -> str:
    return f'<code class="math">{escape(content)}</code>'


Tokens = Sequence[Token]


def _mark(text: str, env: Any) -> str:
    """Text as HTML, with the query's words in it marked."""
    parts = split(text, env["shown"].wanted)
    return "".join(f"<mark>{escape(part)}</mark>" if marked else escape(part) for part, marked in parts)


def _render_text(self: RendererHTML, tokens: Tokens, place: int, options: Any, env: Any) -> str:
    return _mark(tokens[place].content, env)


def _render_code(self: RendererHTML, tokens: Tokens, place: int, options: Any, env: Any) -> str:
    return f"<code>{_mark(tokens[place].content, env)}</code>"


def _render_fence(self: RendererHTML, tokens: Tokens, place: int, options: Any, env: Any) -> str:
    token = tokens[place]
    # A long line is scrolled to, by keys as well.
    return f'<pre tabindex="0"{self.renderAttrs(token)}><code>{_mark(token.content, env)}</code></pre>\n'


def _render_wikilink(self: RendererHTML, tokens: Tokens, place: int, options: Any, env: Any) -> str:
    token = tokens[place]
    target = re.split(r"[#^]", token.meta["target"], maxsplit=1)[0].strip()
    label = _mark(token.content, env)
    mark = '<span class="embed" aria-hidden="true">↳ </span>' if token.meta["embed"] else ""
    return f"{mark}{_open_link(target, env)}{label}{'</a>' if _find(target, env) else '</span>'}"


def _find(target: str, env: Any) -> str | None:
    found: str | None = env["shown"].targets.get(target.casefold())
    return found


def _open_link(target: str, env: Any) -> str:
    path = _find(target, env)
    if path is None:
        return '<span class="nowhere" title="Not a note of the index">'
    return f'<a class="note-link" href="/?{escape(urlencode({"note": path}))}" data-note="{escape(path)}">'


def _render_link_open(self: RendererHTML, tokens: Tokens, place: int, options: Any, env: Any) -> str:
    href = str(tokens[place].attrGet("href") or "")
    if _OUTSIDE.match(href):
        return f'<a class="outside" href="{escape(href)}" target="_blank" rel="noopener noreferrer">'
    target = unquote(href).partition("#")[0]
    if path := _find(target, env):
        return _open_link(path, {"shown": Shown(targets={path.casefold(): path})})
    return _open_link("", env).replace("<span", "<a", 1)


def _render_image(self: RendererHTML, tokens: Tokens, place: int, options: Any, env: Any) -> str:
    token = tokens[place]
    source = unquote(str(token.attrGet("src") or ""))
    label = token.content or source.rsplit("/", 1)[-1]
    return f'<span class="picture-name" title="{escape(source)}">Picture: {_mark(label, env)}</span>'


RULES = {
    "text": _render_text,
    "code_inline": _render_code,
    "fence": _render_fence,
    "code_block": _render_fence,
    "wikilink": _render_wikilink,
    "link_open": _render_link_open,
    "image": _render_image,
    "softbreak": lambda *_: "<br>\n",
}
