"""A note, its graph, the topics and the standing of the index on a terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from obsidian_rag.catalog import StoredText, Topics
from obsidian_rag.counts import count
from obsidian_rag.front_matter import find_body
from obsidian_rag.graph import Graph, GraphEdge
from obsidian_rag.program import spell_commands
from obsidian_rag.render import render_status
from obsidian_rag.screen.paint import (
    BAD,
    CODE,
    FAINT,
    NOTICE,
    PATH,
    TITLE,
    fold,
    paint,
    paint_line,
    paint_path,
    paint_title,
    print_notices,
)
from obsidian_rag.screen.places import Places

LABEL_WIDTH = 14  # of the longest label of the status
# Only looks: every sign of the note stays. What is inside a fence is painted last, over all else.
LOOKS = (
    (re.compile(r"^ {0,3}#{1,6}[ \t].*$", re.MULTILINE), TITLE),
    (re.compile(r"!?\[\[[^\[\]\n]+\]\]|\]\([^()\s]+\)|\bhttps?://[^\s<>()]+"), PATH),
    (re.compile(r"(?<![\w*])\*\*(?=\S)[^*\n]+\*\*(?![\w*])"), TITLE),
    (re.compile(r"(?<!\w)#[^\W\d_][\w/-]*"), PATH),
    (re.compile(r"`[^`\n]+`"), CODE),
    (
        re.compile(r"^[ \t]*(```+|~~~+)[^\n]*\n(?:.*?\n)??[ \t]*\1[^\n]*$", re.MULTILINE | re.DOTALL),
        f"not bold {CODE}",
    ),
)


def print_note(console: Console, note: StoredText, places: Places) -> None:
    """What a note is called and where it lies, then its text, whole."""
    console.print(paint_title(note.file_path, note.title, places))
    about = [f"changed {note.modified_at:%Y-%m-%d}", *(f"#{tag}" for tag in note.tags)]
    about += [f"also called {', '.join(note.aliases)}"] if note.aliases else []
    path = paint_path(note.file_path, places)
    console.print(Text.assemble(path, "  ", paint_line(" · ".join(about), FAINT)))
    console.print()
    if not note.content.strip():
        console.print(Text("(this note is empty)", FAINT))
        return
    start = find_body(note.content)
    properties, body = note.content[:start].rstrip(), paint(note.content[start:].strip("\n"))
    if properties:
        console.print(paint(properties, FAINT))
        console.print()
    for pattern, style in LOOKS:
        body.highlight_regex(pattern, style)
    for line in fold(body, console, console.width):
        console.print(line)


def print_graph(console: Console, graph: Graph, places: Places) -> None:
    """A note's neighbourhood as a tree: below each note those that were reached from it."""
    tree = Tree(paint_path(graph.file_path, places), guide_style=FAINT)
    branches = {graph.file_path: tree}
    for edge in graph.edges:
        branch = branches.get(edge.from_path, tree)
        branches.setdefault(edge.file_path, branch.add(_paint_edge(edge, places)))
    console.print(tree)
    print_notices(console, graph.notices)
    total = f"{count(graph.total, 'link')} across {count(len(graph.hops), 'hop')}"
    console.print(Text(total, TITLE))


def _paint_edge(edge: GraphEdge, places: Places) -> Text:
    arrow = "→ " if edge.direction == "out" else "← "
    said = Text.assemble("  ", paint_line(edge.relation, NOTICE)) if edge.relation else Text()
    line = Text.assemble(
        (arrow, FAINT), paint_path(edge.file_path, places), said, "  ", paint_line(edge.via, FAINT)
    )
    for text, style in ((edge.sentence, ""), (edge.preview, FAINT)):
        if text and text.strip():
            line.append("\n").append_text(paint_line(text, style))
    return line


def print_topics(console: Console, topics: Topics) -> None:
    """The top-level folders as a table."""
    print_notices(console, topics.notices)
    if not topics.topics:
        return
    notes, chunks = sum(t.notes for t in topics.topics), sum(t.chunks for t in topics.topics)
    table = Table(box=None, padding=(0, 2, 0, 0), show_footer=True, header_style=FAINT, footer_style=TITLE)
    table.add_column("Folder", count(len(topics.topics), "folder"), overflow="fold")
    table.add_column("Notes", str(notes), justify="right")
    table.add_column("Chunks", str(chunks), justify="right")
    for topic in topics.topics:
        name = paint_line(f"{topic.name}/", PATH) if topic.name else Text("(beside the folders)", FAINT)
        table.add_row(name, str(topic.notes), str(topic.chunks))
    console.print(table)


_LABEL = re.compile(r"(?P<label>[A-Z][a-z ]*:)\s+(?P<value>.*)|\s{4,}(?P<more>.*)")
_ALARM = re.compile(r"(?P<word>FAILED|DRIFT|warning:)(?P<rest> .*)")


def print_status(console: Console, status: Mapping[str, Any]) -> None:
    """How the index stands, labels beside what they say."""
    for line in spell_commands(render_status(status)).splitlines():
        if found := _LABEL.fullmatch(line):
            row = Table.grid(padding=(0, 1))
            row.add_column(width=LABEL_WIDTH)
            row.add_column(overflow="fold")
            row.add_row(Text(found["label"] or "", TITLE), paint(found["value"] or found["more"] or ""))
            console.print(row)
        elif found := _ALARM.fullmatch(line):
            style = NOTICE if found["word"] == "warning:" else BAD
            console.print(Text.assemble((found["word"], style), paint(found["rest"])))
        else:
            console.print(paint(line))
