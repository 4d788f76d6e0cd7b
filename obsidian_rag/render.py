"""Results as the Markdown an agent reads, within a budget; what is left out is said."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Any

from obsidian_rag.catalog import StoredText, Topics
from obsidian_rag.graph import Graph, GraphEdge
from obsidian_rag.ledger import GO_ON
from obsidian_rag.models import Hit, LinkStep, RunReport

if TYPE_CHECKING:
    from obsidian_rag.search.pipeline import Answer

_WORDS = re.compile(r"\w+")
# Line ends, what a terminal obeys, and what turns the direction of the text after it.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
BUDGET = 16_000  # characters, about 4,000 tokens: what an agent reads without crowding its context


def fit_answer(answer: Answer, budget: int = BUDGET) -> Answer:
    """A search answer of at most about `budget` characters; what was left out is among its notices.

    Neighbours give way first, then the text of the last hits, whose places stay named.
    """
    if sum(map(_measure_hit, answer.results)) <= budget:
        return answer
    kept: dict[int, Hit] = {}
    used = texts = neighbors = 0
    for place, hit in enumerate(answer.results):
        if hit.neighbor:
            continue
        if used + _measure_hit(hit) > budget:
            hit = replace(hit, content="(text left out)")
            texts += 1
        kept[place] = hit
        used += _measure_hit(hit)
    for place, hit in enumerate(answer.results):
        if not hit.neighbor:
            continue
        if used + _measure_hit(hit) <= budget:
            kept[place] = hit
            used += _measure_hit(hit)
        else:
            neighbors += 1
    left_out = [f"the text of {texts} results"] * (texts > 0) + [f"{neighbors} neighbors"] * (neighbors > 0)
    notice = (
        f"Left out to keep this short: {' and '.join(left_out)}. Read a note with get_note, or ask with a"
        " smaller limit."
    )
    results = tuple(kept[place] for place in sorted(kept))
    return replace(answer, results=results, notices=(*answer.notices, notice))


def render_answer(answer: Answer, budget: int = BUDGET) -> str:
    """A search answer within its budget."""
    answer = fit_answer(answer, budget)
    found = len({hit.file_path for hit in answer.results})
    head = [f"# {found} results for: {answer.query}" if found else f"# Nothing found for: {answer.query}"]
    head += [f"> {notice}" for notice in answer.notices]
    return "\n\n".join(["\n".join(head), *(_render_hit(n, hit) for n, hit in _number(answer.results))])


def _measure_hit(hit: Hit) -> int:
    return len(_render_hit(0, hit))


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
    ranks = ", ".join(f"{name} #{rank}" for name, rank in hit.ranks.items())
    return f"## {number}. {place}{lines}\n{hit.evidence} · score {hit.score:.4f} ({ranks})"


def _render_hit(number: int, hit: Hit) -> str:
    way = "".join(f"\n{render_step(step)}" for step in hit.linked_by)
    return f"{_hit_title(number, hit)}{way}\n\n{hit.content.strip() or '(no text)'}"


def render_step(step: LinkStep) -> str:
    """`Acme.md ← invested_in – Ann.md: "Ann led the seed round of Acme."`"""
    left, right = {"out": ("–", "→"), "in": ("←", "–")}.get(step.direction, ("–", "–"))
    said = f' "{" ".join(step.sentence.split())}"' if step.sentence else ""
    ends = (step.from_path.lstrip("?"), step.to_path.lstrip("?"))
    return show_line(f"{ends[0]} {left} {step.relation or 'linked'} {right} {ends[1]}{said}")


def fit_graph(graph: Graph, budget: int = BUDGET) -> Graph:
    """A neighbourhood of at most about `budget` characters, the nearest notes first. Sentences that give no
    relation give way before notes do.
    """
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
    ]
    advice = f"Ask with {' or '.join(shorter)}" if shorter else "Ask from one of the notes shown"
    notice = f"Left out to keep this short: {len(graph.edges) - kept} of {graph.total} links. {advice}."
    return replace(graph, edges=graph.edges[:kept], notices=(*graph.notices, notice))


def _count_fitting(edges: Sequence[GraphEdge], budget: int) -> int:
    ends = accumulate(len(_render_edge(edge)) + 1 for edge in edges)
    return sum(1 for _ in takewhile(lambda end: end <= budget, ends))


def render_graph(graph: Graph) -> str:
    """The neighbourhood of a note, hop by hop."""
    lines = [f"# Wikilink Graph: {show_line(graph.file_path)}"]
    for hop, count in enumerate(graph.hops, 1):
        lines.append(f"## Hop {hop} ({count} links)")
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


def render_topics(topics: Topics) -> str:
    """The top-level folders."""
    notes, chunks = sum(t.notes for t in topics.topics), sum(t.chunks for t in topics.topics)
    lines = [f"# Topics: {len(topics.topics)} folders, {notes} notes, {chunks} chunks"]
    lines += [f"> {notice}" for notice in topics.notices]
    lines += [
        f"- {topic.name + '/' if topic.name else '(root)'}: {topic.notes} notes, {topic.chunks} chunks"
        for topic in topics.topics
    ]
    return "\n".join(lines)


def render_note(note: StoredText) -> str:
    """A note's text, whole."""
    return note.content if note.content.strip() else "(this note is empty)"


MOST_WARNINGS = 20  # lines of a report; all of them are in --json


def render_report(report: RunReport, dry_run: bool = False) -> str:
    """What a run did, for a terminal or a log."""
    verb = "would be" if dry_run else "were"
    lines = [
        f"{report.notes_seen} notes seen in {report.seconds:.1f} s: {report.notes_indexed} {verb} indexed,"
        f" {report.notes_unchanged} unchanged, {report.notes_renamed} renamed,"
        f" {report.notes_deleted} deleted, {report.notes_failed} failed."
    ]
    if not dry_run:
        embedded = (
            f"{report.chunks_embedded} texts embedded" if report.chunks_embedded else "nothing embedded"
        )
        lines.append(
            f"{report.chunks_written} chunks written ({embedded}, {report.chunks_reused} vectors reused);"
            f" {report.links_resolved} of {report.links} links resolved."
        )
    lines += [f"warning: {warning}" for warning in report.warnings[:MOST_WARNINGS]]
    if len(report.warnings) > MOST_WARNINGS:
        lines.append(f"… {len(report.warnings) - MOST_WARNINGS} more warnings, all in --json.")
    lines += [f"FAILED {f.file_path} ({f.stage}): {f.error}" for f in report.failures]
    return "\n".join(lines)


def _render_weights(status: Mapping[str, Any]) -> list[str]:
    """What search weighs words and vectors by."""
    settings, words = status["settings"] or {}, status["keywords"] or {}
    lines = []
    if words.get("chunks"):
        languages = ", ".join(f"{name} {n}" for name, n in sorted(status["languages"].items()))
        lines.append(
            f"Words:    {words['notes']} notes of {words['note_length'] / words['notes']:.0f} words,"
            f" {words['chunks']} chunks of {words['chunk_length'] / words['chunks']:.0f} ({languages})"
        )
    g = settings.get("fusion_g")
    trust = "not measured" if g is None else f"g = {g:g}, measured at {settings['fusion_chunks']} chunks"
    return [*lines, f"Vectors:  trust beside words {trust}"]


def _render_reader(status: Mapping[str, Any]) -> list[str]:
    """Who reads, where that one could write as well."""
    reader = status.get("reader")
    if reader is None or not reader["may_write"]:
        return []
    return [f"Reads as: {reader['role']}, which may also write; obsidian-rag doctor says how to mend that"]


def _render_embedder(settings: Mapping[str, Any]) -> str:
    if not settings.get("embedder"):
        return "not recorded yet"
    return (
        f"{settings['embedder']}: {settings['embed_model']}, {settings['dimensions']} dimensions;"
        f" words: {settings['fts_config']}"
    )


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
        if "error" not in disk and (disk["missing"] or disk["changed"] or disk["renamed"] or disk["gone"]):
            lines.append("          Run: obsidian-rag index")
    drift = status.get("drift", [])
    if drift is None:
        lines.append(f"Tables:   could not be compared: {status['drift_error']}")
    elif drift:
        lines += [f"DRIFT {found['rows']} {found['what']}. {found['mend']}" for found in drift]
    elif "drift" in status:
        lines.append("Tables:   agree with one another")
    return lines


def describe_disk(disk: Mapping[str, Any]) -> str:
    """How the notes on disk differ from the index (a DiskState as JSON), in a line."""
    told = (
        ("missing", "are not in the index"),
        ("changed", "changed since"),
        ("renamed", "were renamed"),
        ("gone", "of the index are no longer there"),
        ("unreadable", "cannot be read now"),
    )
    parts = [
        f"{disk[kind]} {text} ({', '.join(disk['examples'][kind])}"
        f"{', …' if disk[kind] > len(disk['examples'][kind]) else ''})"
        for kind, text in told
        if disk[kind]
    ]
    if disk["failed"]:
        parts.append(f"{disk['failed']} failed in the last run")
    return f"{disk['notes']} notes: {'; '.join(parts) if parts else 'all are in the index as they are'}"


def _render_reembedding(status: Mapping[str, Any]) -> list[str]:
    """A change of the embedder that is under way, or was begun."""
    begun = status["reembedding"]
    if begun is None:
        return []
    last = status["last_run"]
    running = last is not None and last["status"] == "running" and not status["cut_short"]
    return [
        f"Next:     {begun['embedder']}: {begun['embed_model']}, {begun['dimensions']} dimensions;"
        f" {begun['done']} of {begun['texts']} texts are embedded.{'' if running else f' {GO_ON}'}"
    ]


def render_status(status: Mapping[str, Any]) -> str:
    """How the index stands, for a terminal."""
    settings = status["settings"] or {}
    last = status["last_run"]
    good = status["last_good_run"]
    if status["notes"] or status["chunks"] or good:
        lines = [
            f"Vault:    {', '.join(settings.get('vaults', [])) or 'not recorded yet'}",
            f"Index:    {status['notes']} notes, {status['chunks']} chunks, {status['links']} links"
            f" ({status['broken_links']} unresolved), {status['database_bytes'] / 1e6:.0f} MB",
            f"Embedder: {_render_embedder(settings)}",
            *_render_reembedding(status),
            *_render_weights(status),
            *_render_reader(status),
        ]
    else:
        lines = ["Nothing is indexed yet. Run: obsidian-rag index /path/to/vault"]
    if last:
        how = "cut short" if status["cut_short"] else last["status"]
        lines.append(f"Last run: {how}, started {last['started_at']}")
        if status["cut_short"]:
            lines.append("          Some notes may be missing. Run: obsidian-rag index")
        if last["error"]:
            lines.append(f"          {last['error']}")
    if good:
        lines.append(f"Last good run: {good['finished_at']}, {show_when(good['age_seconds'])}")
    elif last:
        lines.append("Last good run: none yet")
    lines += _render_drift(status)
    if status["notes_with_warnings"]:
        shown = status["warnings"]
        first = f"; the first {len(shown)}:" if len(shown) < status["notes_with_warnings"] else ":"
        lines.append(f"{status['notes_with_warnings']} notes have warnings{first}")
        lines += [f"warning: {note['file_path']}: {text}" for note in shown for text in note["warnings"]]
    lines += [f"FAILED {f['file_path']} ({f['stage']}): {f['error']}" for f in status["failures"]]
    return "\n".join(lines)
