"""What the page is told, as JSON: notes found and why, a note's text, its links, topics, the index's state.

Each function takes the index and the parameters of the page's address; all raise ObsidianRagError kinds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

from obsidian_rag import catalog, graph, picture
from obsidian_rag.answers import REASONS
from obsidian_rag.errors import QueryError
from obsidian_rag.front_matter import find_body
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.models import Hit, LinkStep
from obsidian_rag.passages import Wanted, clip, read_wanted
from obsidian_rag.postgres import Connection
from obsidian_rag.search.filters import find_allowed
from obsidian_rag.search.notices import describe_index
from obsidian_rag.search.pipeline import search
from obsidian_rag.search.query import Filters, make_filters, make_request
from obsidian_rag.web.marking import split
from obsidian_rag.web.notes import Shown, read_plain, render_note

SNIPPET = 75  # tokens of a passage that a result shows, about four lines
MOST_SHOWN = 60_000  # characters of a note shown at once; a longer one is shown in parts
MOST_LISTED = 200  # notes of a folder or a tag
MOST_SUGGESTED = 500  # folders, and tags

Parameters = Mapping[str, str]


def find_notes(reader: IndexReader, parameters: Parameters) -> dict[str, Any]:
    """The notes that answer `q`, and why; also `mode`, `folder`, `tag`, `after`, `before`, `limit`."""
    begun = perf_counter()
    filters = _read_filters(parameters)
    query, mode = parameters.get("q", ""), parameters.get("mode") or "hybrid"
    request = make_request(query, mode, _read_number(parameters, "limit", 10), filters)
    answer = search(reader, request)
    wanted, vaults = read_wanted(request.query), reader.run(_load_vaults)
    results: list[dict[str, Any]] = []
    for hit in answer.results:
        if hit.neighbor:
            continue  # the note is a click away
        passage = _describe_passage(hit, wanted)
        if hit.evidence == "same_note" and results:
            results[-1]["passages"].append(passage)
        else:
            results.append(_describe_hit(hit, wanted, vaults) | {"passages": [passage]})
    return {
        "query": answer.query,
        "mode": answer.mode,
        "intent": answer.intent,
        "notices": list(answer.notices),
        "results": results,
        "seconds": round(perf_counter() - begun, 3),
    }


def _read_filters(parameters: Parameters) -> Filters:
    tags = [tag for tag in parameters.get("tag", "").split(",") if tag.strip()]
    return make_filters(
        parameters.get("folder"), tags, None, parameters.get("after"), parameters.get("before")
    )


NEWEST = """
SELECT file_path, title, coalesce(note_date, modified_at::date) AS day FROM notes WHERE id = ANY(%s)
ORDER BY day DESC, file_path LIMIT %s
"""


def browse_notes(reader: IndexReader, parameters: Parameters) -> dict[str, Any]:
    """The newest notes that pass the filters of `find_notes`, and how many there are."""
    filters, excludes = _read_filters(parameters), reader.settings.search_excludes

    def work(conn: Connection) -> dict[str, Any]:
        allowed = find_allowed(conn, filters, excludes) or []
        rows = conn.execute(NEWEST, (allowed, MOST_LISTED)).fetchall()
        notes = [
            {"path": path, "title": title, "folder": path.rpartition("/")[0], "date": day.isoformat()}
            for path, title, day in rows
        ]
        return {"total": len(allowed), "notes": notes}

    return reader.run(work)


def _describe_hit(hit: Hit, wanted: Wanted, vaults: Sequence[str]) -> dict[str, Any]:
    return {
        "path": hit.file_path,
        "title": split(hit.title, wanted),
        "folder": hit.file_path.rpartition("/")[0],
        "evidence": hit.evidence,
        "date": hit.date,
        "why": REASONS.get(hit.evidence, hit.evidence),
        "ranks": hit.ranks,
        "score": hit.score,
        "way": [_describe_step(step) for step in hit.linked_by],
        "url": picture.make_url(hit.file_path, vaults),
    }


def _describe_passage(hit: Hit, wanted: Wanted) -> dict[str, Any]:
    text = clip(read_plain(hit.content), wanted, SNIPPET).replace("\n", " · ")
    return {
        "heading": split(hit.heading_path, wanted),
        "first": hit.start_line,
        "last": hit.end_line,
        "text": split(text, wanted),
    }


def _describe_step(step: LinkStep) -> dict[str, Any]:
    """A step of the way by links, in the direction that the link is read."""
    ends = [_name(path) for path in (step.from_path, step.to_path)]
    if step.direction == "in":
        ends.reverse()
    return {
        "from": ends[0],
        "to": ends[1],
        "relation": step.relation,
        "directed": step.direction != "beside",
        "sentence": " ".join((step.sentence or "").split()),
    }


def _name(path: str) -> str:
    return path.lstrip("?").rsplit("/", 1)[-1].removesuffix(".md")


TARGETS = """
SELECT target_name, target_path FROM note_links WHERE source_path = %s AND target_type = 'note'
"""


def show_note(reader: IndexReader, parameters: Parameters) -> dict[str, Any]:
    """The note `path` as HTML, the lines `first` to `last` marked as the passage, words of `q` marked. Of a
    long note the part around the passage, or around the line `at`.
    """
    return reader.run(partial(_load_shown, parameters=parameters))


def _load_shown(conn: Connection, parameters: Parameters) -> dict[str, Any]:
    note = catalog.load_note(conn, parameters.get("path", ""))
    row = conn.execute("SELECT front_matter FROM notes WHERE file_path = %s", (note.file_path,)).fetchone()
    targets = {name.casefold(): path for name, path in conn.execute(TARGETS, (note.file_path,)).fetchall()}
    first, last = _read_number(parameters, "first", 0), _read_number(parameters, "last", 0)
    part = cut_part(note.content, _read_number(parameters, "at", first))
    wanted = read_wanted(parameters.get("q", ""))
    passage = range(max(first - part.first, 0), max(last - part.first + 1, 0)) if first else range(0)
    return {
        "path": note.file_path,
        "title": note.title,
        "folder": note.file_path.rpartition("/")[0],
        "aliases": list(note.aliases),
        "tags": list(note.tags),
        "properties": row[0] if row else {},
        "modified_at": note.modified_at.isoformat(),
        "url": picture.make_url(note.file_path, _load_vaults(conn)),
        "html": render_note(part.text, Shown(wanted, targets, passage)),
        "first": part.first,
        "last": part.last,
        "lines": part.lines,
        "earlier": part.earlier,
        "later": part.last < part.lines,
    }


@dataclass(frozen=True, slots=True)
class Part:
    """Some of a note's lines: `first` to `last` of `lines`, counted from 1 and with the properties' own.
    `earlier` tells whether text stands before them.
    """

    text: str
    first: int
    last: int
    lines: int
    earlier: bool


def cut_part(content: str, line: int) -> Part:
    """What is shown of a note's text at once, without its properties: all of it where it is not too long,
    else about MOST_SHOWN characters around a line. Only a line too long by itself is cut.
    """
    body = find_body(content)
    above = content.count("\n", 0, body)
    lines = content[body:].split("\n")
    first = last = min(max(line - above - 1, 0), len(lines) - 1)
    size = len(lines[first])
    if len(content) - body <= MOST_SHOWN:
        first, last = 0, len(lines) - 1
    while size < MOST_SHOWN and (first > 0 or last < len(lines) - 1):
        # A third of the room is for what comes before.
        if first > 0 and (last == len(lines) - 1 or (last - first) % 3 == 0):
            first -= 1
            size += len(lines[first]) + 1
        else:
            last += 1
            size += len(lines[last]) + 1
    text = "\n".join(lines[first : last + 1])
    if len(lines[first]) > MOST_SHOWN:
        text = f"{text[:MOST_SHOWN]}…"
    return Part(text, above + first + 1, above + last + 1, above + len(lines), first > 0)


def list_links(reader: IndexReader, parameters: Parameters) -> dict[str, Any]:
    """The notes around the note `path` up to `depth` links away, as words."""
    walked = reader.run(partial(_walk, parameters=parameters))
    return {
        "path": walked.file_path,
        "total": walked.total,
        "notices": list(walked.notices),
        "links": [
            {
                "path": edge.file_path,
                "title": _name(edge.file_path),
                "hop": edge.hop,
                "direction": edge.direction,
                "from": _name(edge.from_path),
                "relation": edge.relation,
                "sentence": " ".join((edge.sentence or "").split()),
            }
            for edge in walked.edges[: picture.MOST_NOTES]
        ],
    }


@dataclass(frozen=True, slots=True)
class DrawnPage:
    """A picture's page, and the policy that lets its own style and script run and nothing else."""

    page: str
    policy: str


def draw_picture(reader: IndexReader, parameters: Parameters) -> DrawnPage:
    """The links around the note `path`, up to `depth` away, drawn."""
    from obsidian_rag.picture.page import make_policy, render_page

    drawn = reader.run(lambda conn: picture.load_picture(conn, _walk(conn, parameters)))
    return DrawnPage(render_page(drawn), make_policy())


def _walk(conn: Connection, parameters: Parameters) -> graph.Graph:
    return graph.walk_graph(conn, parameters.get("path", ""), _read_number(parameters, "depth", 1))


FOLDERS = """
SELECT DISTINCT array_to_string(names[:level], '/') AS folder
FROM notes, string_to_array(file_path, '/') AS names, generate_series(1, cardinality(names) - 1) AS level
ORDER BY folder LIMIT %s
"""
TAGS = """
SELECT min(tag) FROM notes, unnest(tags) AS tag
GROUP BY lower(tag) ORDER BY count(*) DESC, lower(tag) LIMIT %s
"""


def list_topics(reader: IndexReader, parameters: Parameters) -> dict[str, Any]:
    """The topics, and the folders and tags that the filters suggest."""

    def work(conn: Connection) -> dict[str, Any]:
        folders, tags = (conn.execute(sql, (MOST_SUGGESTED,)).fetchall() for sql in (FOLDERS, TAGS))
        return catalog.list_topics(conn).to_json() | {
            "folders": [row[0] for row in folders],
            "tags": [row[0] for row in tags],
        }

    return reader.run(work)


def tell_status(reader: IndexReader, parameters: Parameters) -> dict[str, Any]:
    """How the index stands, with notices of what is wrong with it."""

    def work(conn: Connection) -> dict[str, Any]:
        status = catalog.load_status(conn)
        settings, good = status["settings"] or {}, status["last_good_run"]
        return {name: status[name] for name in ("notes", "chunks", "links", "broken_links", "failures")} | {
            "vaults": settings.get("vaults", []),
            "embedder": settings.get("embedder"),
            "embed_model": settings.get("embed_model"),
            "age_seconds": good["age_seconds"] if good else None,
            "notices": list(describe_index(conn, reader.find_edit)) if status["notes"] else [EMPTY],
        }

    return reader.run(work)


EMPTY = ". ".join(catalog.EMPTY)


def _load_vaults(conn: Connection) -> list[str]:
    row = conn.execute("SELECT vaults FROM index_settings").fetchone()
    return list(row[0]) if row else []


def _read_number(parameters: Parameters, name: str, default: int) -> int:
    written = parameters.get(name) or str(default)
    if not (written.isascii() and written.isdigit() and len(written) <= 9):
        raise QueryError(f"{name} is {written[:40]!r}", "Use a whole number.")
    return int(written)
