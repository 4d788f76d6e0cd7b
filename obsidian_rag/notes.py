"""One file's text as a note: properties, sections, blocks, links, tags."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from markdown_it.token import Token

from obsidian_rag.analysis import LONGEST_NAME
from obsidian_rag.front_matter import FrontMatter, read_front_matter
from obsidian_rag.inline import Written, find_links, is_tag
from obsidian_rag.links import read_markdown_link, read_wikilink
from obsidian_rag.markdown import TooMuchWork, parse_blocks, parse_plainly
from obsidian_rag.mentions import Place, find_places
from obsidian_rag.models import Block, BlockKind, Link, Mention, Note, Section
from obsidian_rag.plugins import find_plugin_data
from obsidian_rag.texts import read_texts

_KINDS: dict[str, BlockKind] = {
    "heading_open": "heading",
    "paragraph": "paragraph",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "table_open": "table",
    "fence": "fence",
    "code_block": "fence",
    "blockquote_open": "quote",
    "html_block": "html",
    "comment_open": "comment",
    "math_block": "math",
    "hr": "rule",
    "footnote_reference_open": "paragraph",
    "definition": "paragraph",
}
# Before which blocks inside a block of this kind it may be cut.
_SEAMS: dict[BlockKind, frozenset[str]] = {
    "list": frozenset(("list_item_open",)),
    "table": frozenset(("tr_open",)),
}
_LINE_SEAMS = frozenset(("fence", "html", "math"))
# Places that are kept of one link of a note, and of all of them: a note with more is a list or a machine's.
MOST_MENTIONS, MOST_PLACES = 16, 5000
MOST_LINKS = 100_000  # places of links in a note; each takes half a KB while it is read
_LIST_INDEX = re.compile(r"\.\d+(?=\.|$)")  # `rel.0` is an item of the list `rel`


def parse_note(file_path: str, text: str) -> Note:
    """The note that a file's text is. `text` has "\\n" line ends and no BOM. Never raises."""
    front = read_front_matter(text)
    warnings = list(front.warnings)
    body = text[front.body_start :]
    try:
        tokens = parse_blocks(body)
    except (TooMuchWork, RecursionError):
        tokens = parse_plainly(body)
        warnings.append("Quotes and lists are nested too deep: only headings and fences were told apart.")
    lines = _find_line_starts(body)
    starts = [front.body_start + start for start in lines]
    blocks = _make_blocks(tokens, starts, front.body_start, len(text)) if body.strip() else ()
    found, tags = _find_in_body(tokens, text.count("\n", 0, front.body_start) + 1)
    if len(found) >= MOST_LINKS:
        warnings.append(f"There are more than {MOST_LINKS} links: what follows them is read as text.")
    links, mentions = _count_links([*_read_property_links(front), *found])
    return Note(
        file_path=file_path,
        title=_title_of(file_path),
        text=text,
        body_start=front.body_start,
        front_matter=front.values,
        aliases=_keep_names(_read_aliases(front), "alias", warnings),
        tags=_keep_names(_unify_tags([*_read_tags(front.values), *tags]), "tag", warnings),
        sections=_make_sections(tokens, blocks, starts, len(text)),
        blocks=blocks,
        links=links,
        hidden=find_plugin_data(text, front.body_start, front.values),
        warnings=tuple(warnings),
        mentions=mentions,
    )


def _title_of(file_path: str) -> str:
    name = file_path.rpartition("/")[2]
    return name[:-3] if name.lower().endswith(".md") else name


def _find_line_starts(text: str) -> list[int]:
    starts = [0]
    position = text.find("\n")
    while position >= 0:
        starts.append(position + 1)
        position = text.find("\n", position + 1)
    return starts


def _make_blocks(tokens: Sequence[Token], starts: Sequence[int], first: int, end: int) -> tuple[Block, ...]:
    """The top-level blocks; each reaches to the next, so blank lines belong to the block before."""
    opened = [i for i, token in enumerate(tokens) if token.level == 0 and token.type in _KINDS]
    blocks = []
    for number, index in enumerate(opened):
        token = tokens[index]
        start = _map(token)[0]
        following = opened[number + 1] if number + 1 < len(opened) else None
        block_start = starts[start] if number else first
        block_end = end if following is None else starts[_map(tokens[following])[0]]
        kind = _KINDS[token.type]
        if kind == "html" and token.content.lstrip().startswith("<!--"):
            kind = "comment"
        head_end = starts[min(start + 2, len(starts) - 1)] if kind == "table" else block_start
        seams = _find_seams(kind, tokens[index:following], starts, max(block_start, head_end), block_end)
        blocks.append(Block(kind, block_start, block_end, seams, head_end))
    return tuple(blocks)


def _find_seams(
    kind: BlockKind, tokens: Sequence[Token], starts: Sequence[int], after: int, before: int
) -> tuple[int, ...]:
    if kind in _LINE_SEAMS or (kind == "comment" and tokens[0].type == "html_block"):
        first, last = bisect_right(starts, after), bisect_right(starts, before - 1)
        return tuple(starts[first:last])
    if kind in _SEAMS:
        lines = {token.map[0] for token in tokens if token.map and token.type in _SEAMS[kind]}
    elif kind in ("quote", "comment", "paragraph"):
        lines = {token.map[0] for token in tokens if token.map and token.type in _KINDS}
    else:
        lines = set()
    return tuple(sorted(starts[line] for line in lines if after < starts[line] < before))


def _make_sections(
    tokens: Sequence[Token], blocks: Sequence[Block], starts: Sequence[int], end: int
) -> tuple[Section, ...]:
    if not blocks:
        return ()
    headings = [i for i, token in enumerate(tokens) if token.level == 0 and token.type == "heading_open"]
    boundaries = [block.start for block in blocks if block.kind == "heading"]
    sections = []
    if blocks[0].kind != "heading":
        first_end = boundaries[0] if boundaries else end
        sections.append(Section(None, 0, (), blocks[0].start, blocks[0].start, first_end))
    path: list[tuple[int, str]] = []
    for number, index in enumerate(headings):
        level = int(tokens[index].tag[1:])
        heading = " ".join(tokens[index + 1].content.split("\n"))
        path = [*(entry for entry in path if entry[0] < level), (level, heading)]
        section_end = boundaries[number + 1] if number + 1 < len(boundaries) else end
        after = _map(tokens[index])[1]
        body_start = starts[after] if after < len(starts) else end
        names = tuple(name for _, name in path)
        sections.append(Section(heading, level, names, boundaries[number], body_start, section_end))
    return tuple(sections)


def _map(token: Token) -> list[int]:
    assert token.map is not None, token.type
    return token.map


@dataclass(frozen=True, slots=True)
class _Found:
    """A link at one place; `block` tells the texts of the note apart. Without `place` it is only counted."""

    link: Link
    block: int
    place: Place | None
    context: str = ""


def _find_in_body(tokens: Sequence[Token], first_line: int) -> tuple[list[_Found], list[str]]:
    found: list[_Found] = []
    tags: list[str] = []
    for block, text in enumerate(read_texts(tokens)):
        written: list[Written] = []
        for cell, start in text.cells:
            links, cell_tags = find_links(cell, MOST_LINKS - len(found))
            tags += cell_tags
            if start:
                links = [replace(w, position=w.position + start, end=w.end + start) for w in links]
            written += links
        if not written:
            continue
        content = text.content
        places = find_places(content, written[: max(0, MOST_PLACES - len(found))], text.quoted)
        line, counted = first_line + text.line, 0
        for item, place in zip_longest(written, places):
            line += content.count("\n", counted, item.position)
            counted = item.position
            if item.label is None:
                link = read_wikilink(item.target, item.kind, line=line)
            else:
                link = read_markdown_link(item.target, item.label, item.kind, line=line)
            if link is not None:
                context = text.context_at(item.position) if place else ""
                found.append(_Found(link, block, place, context))
    return found, tags


def _read_property_links(front: FrontMatter) -> list[_Found]:
    """A property is a link where its whole value is one: in `"see [[N]]"` Obsidian sees text."""
    if front.refused:
        return []
    found = []
    for number, text in enumerate(front.texts):
        value = text.value
        if not (value.startswith("[[") and value.endswith("]]")):
            continue
        written, _ = find_links(value)
        if len(written) == 1 and written[0].kind == "wikilink" and len(written[0].target) == len(value) - 4:
            link = read_wikilink(written[0].target, "property", line=text.line, property=text.key)
            if link is not None:
                key = _LIST_INDEX.sub("", text.key)
                found.append(_Found(link, -1 - number, Place((0, 0), "", 0, 0, f"{key}::")))
    return found


def _count_links(found: Iterable[_Found]) -> tuple[tuple[Link, ...], tuple[Mention, ...]]:
    """Each distinct link once, at its first line, with how often it is written; and where each stands."""
    counted: dict[tuple[object, ...], int] = {}
    links: list[Link] = []
    mentions: list[Mention] = []
    sentences: dict[tuple[int, tuple[int, int]], int] = {}
    for item in found:
        link, place = item.link, item.place
        key = (link.kind, link.target, link.heading, link.block, link.display, link.property)
        index = counted.setdefault(key, len(links))
        if index == len(links):
            links.append(link)
        else:
            links[index] = replace(links[index], count=links[index].count + 1)
        if place and links[index].count <= MOST_MENTIONS and len(mentions) < MOST_PLACES:
            number = sentences.setdefault((item.block, place.number), len(sentences))
            at = (place.sentence, place.first, place.last)
            mentions.append(Mention(index, number, link.line, *at, item.context, place.label))
    return tuple(links), tuple(mentions)


def _read_aliases(front: FrontMatter) -> tuple[str, ...]:
    """`aliases` as a list or one name. A name is never split: commas are part of names."""
    given = front.values.get("aliases")
    written = {text.key: text.value for text in front.texts if text.key.startswith("aliases")}
    keys = [f"aliases.{i}" for i in range(len(given))] if isinstance(given, list) else ["aliases"]
    names = (" ".join(written.get(key, "").split()) for key in keys)
    return tuple(dict.fromkeys(name for name in names if name))


def _keep_names(names: tuple[str, ...], what: str, warnings: list[str]) -> tuple[str, ...]:
    """The names that are short enough to be looked up; of the others there is a warning."""
    kept = tuple(name for name in names if len(name) <= LONGEST_NAME)
    if len(kept) < len(names):
        dropped = next(name for name in names if len(name) > LONGEST_NAME)
        where = f"The {what} that begins {dropped[:20]!r}"
        warnings.append(f"{where} is left out: it is longer than {LONGEST_NAME} characters.")
    return kept


def _read_tags(values: Mapping[str, Any]) -> list[str]:
    given = values.get("tags")
    items = given if isinstance(given, list) else [given]
    names = (item.strip().removeprefix("#") for item in items if isinstance(item, str))
    return [name for name in names if is_tag(name)]


def _unify_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags without regard to case, as first written."""
    first: dict[str, str] = {}
    for tag in tags:
        first.setdefault(tag.lower(), tag)
    return tuple(first.values())
