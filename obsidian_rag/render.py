"""Results as the Markdown an agent reads, within a budget; what is left out is said."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import accumulate, takewhile
from typing import Any

from obsidian_rag.answers import fit_answer, render_answer, render_step, show_line
from obsidian_rag.catalog import StoredText, Topic, Topics
from obsidian_rag.counts import choose, count
from obsidian_rag.errors import FIRST_RUN
from obsidian_rag.graph import Graph, GraphEdge
from obsidian_rag.languages import AUTO
from obsidian_rag.ledger import GO_ON
from obsidian_rag.models import RunReport
from obsidian_rag.schemas import BUDGET, MOST_TOKENS
from obsidian_rag.tokens import estimate_json, estimate_tokens

__all__ = [
    "BUDGET",
    "MOST_WARNINGS",
    "bound_edges",
    "describe_disk",
    "fit_answer",
    "fit_graph",
    "fit_topics",
    "render_answer",
    "render_graph",
    "render_note",
    "render_report",
    "render_status",
    "render_step",
    "render_text",
    "render_topics",
    "show_age",
    "show_line",
    "show_time",
    "show_when",
]

_WORDS = re.compile(r"\w+")
GRAPH_FRAME = 120  # tokens that stand around the links
LEAST_EDGE = 17  # that a link takes at least, its paths of one letter
TOPICS_FRAME = 60  # and around the topics


def fit_graph(graph: Graph, budget: int = BUDGET) -> Graph:
    """A neighbourhood of at most about `budget` tokens as Markdown, and twice that as JSON, the nearest notes
    first. Sentences that give no relation give way before notes do.
    """
    budget -= GRAPH_FRAME + estimate_json([graph.file_path, *graph.notices, *graph.relations])
    if _count_fitting(graph.edges, budget) == len(graph.edges):
        return graph
    edges = [edge if edge.relation else replace(edge, sentence=None) for edge in graph.edges]
    if any(edge.sentence for edge in graph.edges if not edge.relation):
        notice = "Left out to keep this short: the sentences of links without a relation."
        graph = replace(graph, edges=tuple(edges), notices=(*graph.notices, notice))
    kept = _count_fitting(graph.edges, budget)
    if kept == len(graph.edges):
        return graph
    shorter = [
        *(["a smaller depth"] if graph.edges[-1].hop > 1 else []),
        *(["include_content=false"] if graph.edges[0].preview is not None else []),
        *([f"max_tokens={MOST_TOKENS}"] if budget < MOST_TOKENS - 2 * GRAPH_FRAME else []),
    ]
    advice = f"Ask with {' or '.join(shorter)}" if shorter else "Ask from one of the notes shown"
    left_out = f"{len(graph.edges) - kept} of {count(graph.total, 'link')}"
    notice = f"Left out to keep this short: {left_out}. {advice}."
    return replace(graph, edges=graph.edges[:kept], notices=(*graph.notices, notice))


def bound_edges(budget: int) -> int:
    """How many links an answer of about `budget` tokens names at most: what more of them say need not be
    looked up.
    """
    return budget // LEAST_EDGE


def _count_fitting(edges: Sequence[GraphEdge], budget: int) -> int:
    ends = accumulate(map(_measure_edge, edges))
    return sum(1 for _ in takewhile(lambda end: end <= budget, ends))


def _measure_edge(edge: GraphEdge) -> int:
    return max(estimate_tokens(_render_edge(edge)) + 1, estimate_json(asdict(edge)) // 2)


def render_graph(graph: Graph) -> str:
    """The neighbourhood of a note, hop by hop."""
    lines = [f"# Wikilink Graph: {show_line(graph.file_path)}"]
    for hop, links in enumerate(graph.hops, 1):
        lines.append(f"## Hop {hop} ({links} links)")
        lines += [_render_edge(edge) for edge in graph.edges if edge.hop == hop]
    lines += [f"> {notice}" for notice in graph.notices]
    lines.append(f"Total: {graph.total} links across {len(graph.hops)} hops")
    return "\n".join(lines)


def _render_edge(edge: GraphEdge) -> str:
    arrow = "→" if edge.direction == "out" else "←"
    relation = f", {edge.relation}" if edge.relation else ""
    line = f"- {arrow} {show_line(edge.file_path)} (via {show_line(edge.via + relation)})"
    if edge.sentence and _says_more(edge):
        line += f'\n  "{show_line(" ".join(edge.sentence.split()))}"'
    preview = " ".join((edge.preview or "").split())
    return f"{line}\n  {show_line(preview)}" if preview else line


def _says_more(edge: GraphEdge) -> bool:
    """Whether the sentence holds more than the names: an item of a list is often nothing but the link."""
    names = f"{edge.file_path} {edge.from_path} {edge.via}".casefold()
    return any(word not in names for word in _WORDS.findall((edge.sentence or "").casefold()))


def fit_topics(topics: Topics, budget: int = BUDGET) -> Topics:
    """The folders that at most about `budget` tokens can name, those of most notes; the rest is counted in a
    notice.
    """
    costs = {topic: max(estimate_tokens(_render_topic(topic)) + 1, estimate_json(asdict(topic)) // 2)
             for topic in topics.topics}  # fmt: skip
    if sum(costs.values()) <= budget - TOPICS_FRAME:
        return topics
    largest = sorted(topics.topics, key=lambda topic: -topic.notes)
    ends = accumulate(costs[topic] for topic in largest)
    kept = {topic for topic, end in zip(largest, ends, strict=True) if end <= budget - TOPICS_FRAME}
    rest = [topic for topic in topics.topics if topic not in kept]
    notice = (
        f"Left out to keep this short: {count(len(rest), 'smaller folder')} with"
        f" {count(sum(t.notes for t in rest), 'note')}."
        " Look into one with search_notes(query, folder=…)."
    )
    shown = tuple(topic for topic in topics.topics if topic in kept)
    return replace(topics, topics=shown, notices=(*topics.notices, notice))


def render_topics(topics: Topics) -> str:
    """The top-level folders."""
    notes, chunks = sum(t.notes for t in topics.topics), sum(t.chunks for t in topics.topics)
    held = f"{count(notes, 'note')}, {count(chunks, 'chunk')}"
    lines = [f"# Topics: {count(len(topics.topics), 'folder')}, {held}"]
    lines += [f"> {notice}" for notice in topics.notices]
    return "\n".join([*lines, *map(_render_topic, topics.topics)])


def _render_topic(topic: Topic) -> str:
    name = f"{show_line(topic.name)}/" if topic.name else "(root)"
    return f"- {name}: {count(topic.notes, 'note')}, {count(topic.chunks, 'chunk')}"


def render_note(note: StoredText) -> str:
    """A note's text, whole."""
    return render_text(note.content)


def render_text(text: str) -> str:
    """A note's text, or a part of it, as it is."""
    return text if text.strip() else "(this note is empty)"


MOST_WARNINGS = 20  # lines of a report; all of them are in --json


def render_report(report: RunReport, dry_run: bool = False) -> str:
    """What a run did, for a terminal or a log."""
    verb = "would be" if dry_run else choose(report.notes_indexed, "was", "were")
    lines = [
        f"{count(report.notes_seen, 'note')} seen in {report.seconds:.1f} s:"
        f" {report.notes_indexed} {verb} indexed, {report.notes_unchanged} unchanged,"
        f" {report.notes_renamed} renamed, {report.notes_deleted} deleted, {report.notes_failed} failed."
    ]
    if not dry_run:
        texts = count(report.chunks_embedded, "text") if report.chunks_embedded else "nothing"
        lines.append(
            f"{count(report.chunks_written, 'chunk')} written"
            f" ({texts} embedded, {count(report.chunks_reused, 'vector')} reused);"
            f" {report.links_resolved} of {count(report.links, 'link')} resolved."
        )
    lines += [f"warning: {warning}" for warning in report.warnings[:MOST_WARNINGS]]
    if len(report.warnings) > MOST_WARNINGS:
        lines.append(f"… {count(len(report.warnings) - MOST_WARNINGS, 'more warning')}, all in --json.")
    lines += [f"FAILED {f.file_path} ({f.stage}): {f.error}" for f in report.failures]
    return "\n".join(lines)


def _render_weights(status: Mapping[str, Any]) -> list[str]:
    """What search weighs words and vectors by."""
    settings, words = status["settings"] or {}, status["keywords"] or {}
    lines = []
    if words.get("chunks"):
        languages = ", ".join(f"{name} {n}" for name, n in sorted(status["languages"].items()))
        lines.append(
            f"Words:    {count(words['notes'], 'note')} of {words['note_length'] / words['notes']:.0f} words,"
            f" {count(words['chunks'], 'chunk')} of {words['chunk_length'] / words['chunks']:.0f}"
            f" ({languages})"
        )
    g = settings.get("fusion_g")
    measured_at = f"measured at {count(settings.get('fusion_chunks') or 0, 'chunk')}"
    if g is None:
        return [*lines, "Vectors:  how well they find the notes beside words is not measured yet"]
    return [*lines, f"Vectors:  weigh {g:g} of 1 beside words, as they find the notes ({measured_at})"]


def _render_reader(status: Mapping[str, Any]) -> list[str]:
    """Who reads, where that one could write as well."""
    reader = status.get("reader")
    if reader is None or not reader["may_write"]:
        return []
    return [f"Reads as: {reader['role']}, which may also write; obsidian-rag doctor says how to mend that"]


def _render_embedder(settings: Mapping[str, Any]) -> str:
    if not settings.get("embedder"):
        return "not recorded yet"
    auto = settings["fts_config"] == AUTO
    return (
        f"{settings['embedder']}: {settings['embed_model']}, {settings['dimensions']} dimensions;"
        f" words stemmed as {'in the language of each note' if auto else settings['fts_config']}"
    )


def show_time(moment: str) -> str:
    """A moment in ISO format as a person reads it: by the clock of this machine, and how long ago."""
    at = datetime.fromisoformat(moment).astimezone()
    return f"{at:%Y-%m-%d %H:%M}, {show_when((datetime.now(UTC) - at).total_seconds())}"


def show_age(seconds: float) -> str:
    """A length of time in its largest unit: 40 seconds, 12 minutes, 30 hours, 9 days."""
    for size, unit, least in ((86400, "days", 2), (3600, "hours", 2), (60, "minutes", 2)):
        if seconds >= size * least:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def show_when(age: float) -> str:
    """When something was that is so many seconds old."""
    return f"{show_age(age)} ago" if age >= 0 else f"{show_age(-age)} in the future: a clock was wrong"


def _render_drift(status: Mapping[str, Any]) -> list[str]:
    """How the vault and the tables differ from the index, as far as the status tells."""
    lines = []
    disk = status.get("disk")
    if disk is not None:
        text = f"cannot be compared: {disk['error']}" if "error" in disk else describe_disk(disk)
        lines.append(f"On disk:  {show_line(text)}")
        if any(disk.get(kind) for kind in ("missing", "changed", "reread", "renamed", "gone")):
            lines.append("          Run: obsidian-rag index")
    drift = status.get("drift", [])
    if drift is None:
        lines.append(f"Tables:   could not be compared: {status['drift_error']}")
    elif drift:
        lines += [f"DRIFT {found['what']}: {found['rows']}. {found['mend']}" for found in drift]
    elif "drift" in status:
        lines.append("Tables:   agree with one another")
    return lines


def describe_disk(disk: Mapping[str, Any]) -> str:
    """How the notes on disk differ from the index (a DiskState as JSON), in a line."""
    told = (
        ("missing", "is not in the index", "are not in the index"),
        ("changed", "changed since", "changed since"),
        ("reread", "is to be read anew", "are to be read anew"),
        ("renamed", "was renamed", "were renamed"),
        ("gone", "of the index is no longer there", "of the index are no longer there"),
        ("unreadable", "cannot be read now", "cannot be read now"),
    )
    parts = [
        f"{count(disk[kind], one, several)} ({', '.join(disk['examples'][kind])}"
        f"{', …' if disk[kind] > len(disk['examples'][kind]) else ''})"
        for kind, one, several in told
        if disk[kind]
    ]
    if disk["failed"]:
        parts.append(f"{disk['failed']} failed in the last run")
    rest = choose(disk["notes"], "it is in the index as it is", "all are in the index as they are")
    return f"{count(disk['notes'], 'note')}: {'; '.join(parts) or rest}"


def _render_reembedding(status: Mapping[str, Any]) -> list[str]:
    """A change of the embedder that is under way, or was begun."""
    begun = status["reembedding"]
    if begun is None:
        return []
    last = status["last_run"]
    running = last is not None and last["status"] == "running" and not status["cut_short"]
    return [
        f"Next:     {begun['embedder']}: {begun['embed_model']}, {begun['dimensions']} dimensions;"
        f" {begun['done']} of {count(begun['texts'], 'text')} {choose(begun['done'], 'is', 'are')} embedded."
        f"{'' if running else f' {GO_ON}'}"
    ]


def render_status(status: Mapping[str, Any]) -> str:
    """How the index stands, for a terminal."""
    settings = status["settings"] or {}
    last = status["last_run"]
    good = status["last_good_run"]
    if status["notes"] or status["chunks"] or good:
        lines = [
            f"Vault:    {', '.join(settings.get('vaults', [])) or 'not recorded yet'}",
            f"Index:    {count(status['notes'], 'note')}, {count(status['chunks'], 'chunk')},"
            f" {count(status['links'], 'link')}"
            f" ({status['broken_links']} unresolved), {status['database_bytes'] / 1e6:.0f} MB",
            f"Embedder: {_render_embedder(settings)}",
            *_render_reembedding(status),
            *_render_weights(status),
            *_render_reader(status),
        ]
    else:
        lines = [f"Nothing is indexed yet. {FIRST_RUN}"]
    if last:
        how = "cut short" if status["cut_short"] else last["status"]
        lines.append(f"Last run: {how}, started {show_time(last['started_at'])}")
        if status["cut_short"]:
            lines.append("          Some notes may be missing. Run: obsidian-rag index")
        if last["error"]:
            lines.append(f"          {last['error']}")
    if good:
        lines.append(f"Last good run: {show_time(good['finished_at'])}")
    elif last:
        lines.append("Last good run: none yet")
    lines += _render_drift(status)
    if marked := status["notes_with_warnings"]:
        shown = status["warnings"]
        first = f"; the first {len(shown)}:" if len(shown) < marked else ":"
        lines.append(f"{count(marked, 'note')} {choose(marked, 'has', 'have')} warnings{first}")
        lines += [f"warning: {note['file_path']}: {text}" for note in shown for text in note["warnings"]]
    lines += [f"FAILED {f['file_path']} ({f['stage']}): {f['error']}" for f in status["failures"]]
    return "\n".join(lines)
