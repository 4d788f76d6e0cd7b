"""Results as the Markdown an agent reads, within a budget; what is left out is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from obsidian_rag.catalog import StoredText, Topic
from obsidian_rag.graph import Graph, GraphEdge
from obsidian_rag.models import Hit, RunReport
from obsidian_rag.search.pipeline import Answer

SEARCH_BUDGET = 16_000  # characters, about 4,000 tokens: what an agent reads without crowding its context


def render_answer(answer: Answer, budget: int = SEARCH_BUDGET) -> str:
    """A search answer. Neighbours give way first, then the text of the last hits; their places stay named."""
    found = sum(1 for hit in answer.results if not hit.neighbor)
    head = [f"# {found} results for: {answer.query}" if found else f"# Nothing found for: {answer.query}"]
    head += [f"> {notice}" for notice in answer.notices]
    used = sum(map(len, head))
    body: list[str] = []
    left_out = 0
    for number, hit in _number(answer.results):
        full = _render_hit(number, hit)
        if used + len(full) <= budget:
            body.append(full)
        elif hit.neighbor:
            left_out += 1
            continue
        else:
            body.append(f"{_hit_title(number, hit)}\n(text left out)")
            left_out += 1
        used += len(body[-1])
    tail = []
    if left_out:
        tail.append(
            f"{left_out} passages were left out to keep this short: ask with a smaller limit, or read a note"
            " with get_note."
        )
    return "\n\n".join(["\n".join(head), *body, *tail])


def _number(hits: Sequence[Hit]) -> list[tuple[int, Hit]]:
    numbered, number = [], 0
    for hit in hits:
        number += 0 if hit.neighbor else 1
        numbered.append((number, hit))
    return numbered


def _hit_title(number: int, hit: Hit) -> str:
    where = f" > {hit.heading_path}" if hit.heading_path else ""
    lines = f", lines {hit.start_line}-{hit.end_line}" if hit.start_line is not None else ""
    if hit.neighbor:
        return f"*(neighbor)* {hit.file_path}{where}{lines}"
    ranks = ", ".join(f"{name} #{rank}" for name, rank in hit.ranks.items())
    return f"## {number}. {hit.file_path}{where}{lines}\n{hit.evidence} · score {hit.score:.4f} ({ranks})"


def _render_hit(number: int, hit: Hit) -> str:
    return f"{_hit_title(number, hit)}\n\n{hit.content.strip()}"


def render_graph(graph: Graph) -> str:
    """The neighbourhood of a note, hop by hop."""
    parts = [f"# Wikilink Graph: {graph.file_path}"]
    hops = max((edge.hop for edge in graph.edges), default=0)
    for hop in range(1, hops + 1):
        edges = [edge for edge in graph.edges if edge.hop == hop]
        parts.append(f"## Hop {hop} ({len(edges)} links)")
        parts += map(_render_edge, edges)
    if not graph.edges:
        parts.append("No note links here, and this note links to none.")
    parts += ["", f"Total: {len(graph.edges)} links across {hops} hops"]
    return "\n".join(parts)


def _render_edge(edge: GraphEdge) -> str:
    line = f"- {'→' if edge.direction == 'out' else '←'} {edge.file_path} (via {edge.via})"
    if edge.preview is None:
        return line
    preview = " ".join(edge.preview.split())
    return f"{line}\n  {preview}" if preview else line


def render_topics(topics: Sequence[Topic]) -> str:
    """The top-level folders."""
    notes, chunks = sum(t.notes for t in topics), sum(t.chunks for t in topics)
    lines = [f"- {t.name + '/' if t.name else '(root)'}: {t.notes} notes, {t.chunks} chunks" for t in topics]
    return "\n".join([f"# Topics: {len(topics)} folders, {notes} notes, {chunks} chunks", *lines])


def render_note(note: StoredText) -> str:
    """A note's text, whole."""
    return note.content


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


def render_status(status: Mapping[str, Any]) -> str:
    """How the index stands, for a terminal."""
    settings = status["settings"] or {}
    last = status["last_run"]
    good = status["last_good_run"]
    lines = [
        f"Vault:    {', '.join(settings.get('vaults', [])) or 'none'}",
        f"Index:    {status['notes']} notes, {status['chunks']} chunks, {status['links']} links"
        f" ({status['broken_links']} unresolved), {status['database_bytes'] / 1e6:.0f} MB",
        f"Embedder: {settings.get('embedder')}: {settings.get('embed_model')},"
        f" {settings.get('dimensions')} dimensions; words: {settings.get('fts_config')}",
    ]
    if last:
        lines.append(f"Last run: {last['status']}, started {last['started_at']}")
        if last["error"]:
            lines.append(f"          {last['error']}")
    if good and last and good["run_id"] != last["run_id"]:
        lines.append(f"Last that finished: {good['finished_at']}")
    lines += [f"FAILED {f['file_path']} ({f['stage']}): {f['error']}" for f in status["failures"]]
    return "\n".join(lines)
