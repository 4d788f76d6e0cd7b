"""What is in the index: notes by path, topics, and how the index stands."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, unquote

from obsidian_rag.errors import FIRST_RUN, NoteNotFound, QueryError
from obsidian_rag.ledger import load_reembedding, was_cut_short
from obsidian_rag.postgres import Connection

NEAREST = 5
SHOWN = 20  # notes that a path may mean
LONGEST_QUOTED = 200  # characters of a path that an error repeats
MOST_ENDS = 8  # signs # at which a path may end
LONGEST_PATH = 4096  # characters; no file system takes a longer one
NAME_A_NOTE = "Name a note by its path, as a search result gives it."
LOOK = "Look for it with a search: search_notes, or on a terminal obsidian-rag search."
EMPTY = ("The index is empty", FIRST_RUN)

_WIKILINK = re.compile(r"!?\[\[(.[^|]*?)\\?(?:\|.*)?\]\]", re.DOTALL)
_URL = re.compile(
    r"[a-z][a-z0-9+.-]*://(?P<rest>[^?#]*)(?:\?[^#]*)?(?:#(?P<place>.*))?", re.IGNORECASE | re.DOTALL
)
# As a search result shows it, `Home/Pool.md > Pool > Size, lines 5-7`, or without the #: `Home/Pool.md^id`.
_PLACE = re.compile(
    r"(.*?\.md)\s*(?:>\s*(?P<heading>.+)|(?P<block>\^.+)|, lines .*)", re.IGNORECASE | re.DOTALL
)
_LINES = re.compile(r",\s*lines?\s+\d+(?:-\d+)?\s*\Z")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")

# A path as people write it: exact, without .md, in another case or Unicode form, its end, or a title.
FIND = """
SELECT file_path, CASE
    WHEN folded IN (%(folded)s, %(folded)s || '.md') THEN 2
    WHEN right(folded, length(%(folded)s) + 1) = '/' || %(folded)s THEN 3
    WHEN right(folded, length(%(folded)s) + 4) = '/' || %(folded)s || '.md' THEN 3
    WHEN lower(normalize(title)) = %(folded)s THEN 4
    WHEN %(folded)s = ANY (SELECT lower(normalize(alias)) FROM unnest(aliases) AS alias) THEN 5
    END AS closeness
FROM (SELECT file_path, lower(normalize(file_path)) AS folded, title, aliases FROM notes) AS n
"""
# As a search gives it, or without .md: found by the key, without a look at every note.
FIND_EXACT = """
SELECT file_path FROM notes WHERE file_path IN (%(exact)s, %(asked)s, %(asked)s || '.md')
ORDER BY file_path <> %(exact)s, file_path <> %(asked)s LIMIT 1
"""
FIND_CLOSEST = f"""
SELECT file_path FROM (
    SELECT file_path, closeness, min(closeness) OVER () AS least FROM ({FIND}) AS f
    WHERE closeness IS NOT NULL) AS found
WHERE closeness = least ORDER BY file_path LIMIT {SHOWN}
"""  # noqa: S608 - a constant of this module, no value


@dataclass(frozen=True, slots=True)
class StoredText:
    """A note as it was indexed. `content` is the whole file's text, front matter included."""

    file_path: str
    title: str
    content: str
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    modified_at: datetime
    indexed_at: datetime

    def to_json(self) -> dict[str, Any]:
        """The object that `note --json` prints and the tool returns."""
        return asdict(self) | {
            "modified_at": self.modified_at.isoformat(),
            "indexed_at": self.indexed_at.isoformat(),
        }


FAILED = "SELECT file_path, error FROM failures WHERE file_path IN (%(asked)s, %(asked)s || '.md') LIMIT 1"
LINKED_ONLY = """
SELECT 1 FROM note_links
WHERE target_type = 'note' AND target_path IN (%(asked)s, %(asked)s || '.md') LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Topic:
    """A top-level folder; `name` is empty for notes at the vault's root."""

    name: str
    notes: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Topics:
    """The folders of an index; `notices` says why there are none."""

    topics: tuple[Topic, ...]
    notices: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The object that `topics --json` prints and the tool returns."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Place:
    """A note, and the heading, heading path or block (`^id`) in it that was named with it."""

    file_path: str
    heading: str | None = None


def find_note(conn: Connection, file_path: str) -> str:
    """The path in the index that is meant. Raises NoteNotFound with the nearest paths, also where several
    notes are meant equally, and QueryError for what cannot be a path.
    """
    return find_place(conn, file_path).file_path


def find_place(conn: Connection, file_path: str) -> Place:
    """The note that is meant, and the place in it: `Pool.md#Size`, `[[Pool#^id]]`, or as a search result
    shows it, `Pool.md > Pool > Size, lines 5-7`. A note whose name holds these signs comes first. Raises what
    `find_note` does.
    """
    asked = _clean_path(file_path)
    # A name may begin or end with what people do not mean to write: a blank.
    exact = conn.execute(FIND_EXACT, {"exact": file_path, "asked": asked}).fetchone()
    if exact:
        return Place(str(exact[0]))
    vaults = conn.execute("SELECT vaults FROM index_settings").fetchone()
    readings = list(_list_readings(asked, vaults[0] if vaults else []))
    for place in dict.fromkeys((*map(Place, readings), *_list_places(readings))):
        found = [row[0] for row in conn.execute(FIND_CLOSEST, _fold_path(place.file_path)).fetchall()]
        if len(found) == 1:
            return Place(str(found[0]), place.heading)
        if found:
            raise NoteNotFound(
                f"{_quote(file_path)} may be any of {len(found)}{' or more' * (len(found) == SHOWN)} notes",
                "Use one of these paths: " + ", ".join(found),
                tuple(found),
            )
    raise _explain_missing(conn, file_path, asked)


def _fold_path(path: str) -> dict[str, str]:
    return {"folded": unicodedata.normalize("NFC", path).lower()}


def _list_readings(asked: str, vaults: Sequence[str]) -> Iterator[str]:
    """What a path may mean, as it is written first: a URL of a note, one within the vault's own folder, as a
    shell completes it or with the vault's name, with percent signs, or with backslashes.
    """
    readings = [asked]
    if url := _URL.fullmatch(asked):
        query = parse_qs(asked.partition("?")[2].partition("#")[0])
        named = (query.get("file") or query.get("path") or [unquote(url["rest"])])[0].strip("/")
        place = f"#{unquote(url['place'])}" if url["place"] else ""
        readings += [f"{vault}/{named}{place}" for vault in query.get("vault", [])]
        readings.append(f"{named}{place}")
    if "%" in asked and not url:
        readings.append(unquote(asked))
    if "\\" in asked:
        readings.append(asked.replace("\\", "/"))
    for reading in list(readings):
        for vault in vaults:
            name = vault.rsplit("/", 1)[-1]
            for folder in (f"{vault.strip('/')}/", f"{name}/"):
                if reading.lower().startswith(folder.lower()):
                    rest = reading[len(folder) :]
                    readings.append(rest if len(vaults) == 1 else f"{name}/{rest}")
    yield from (reading for reading in dict.fromkeys(readings) if reading and not _UNSTORABLE.search(reading))


def _list_places(readings: Sequence[str]) -> Iterator[Place]:
    """The readings as a path with a place behind it. Of several # the last may be the first of the place: a
    name may hold the others, and of `Pool#Disks#Size` there is no note Pool#Disks.
    """
    for reading in readings:
        if placed := _PLACE.fullmatch(reading):
            yield Place(placed[1], _clean_heading(placed["heading"] or placed["block"] or ""))
        ends = [match.start() for match in re.finditer("#", reading)][:MOST_ENDS]
        for end in reversed(ends):
            if path := reading[:end].strip():
                yield Place(path, _clean_heading(reading[end + 1 :]))


def _clean_heading(written: str) -> str | None:
    """What stands behind a path without the signs around it; of a block behind a heading only the block."""
    heading = _LINES.sub("", written).strip().lstrip("#").strip()
    block = heading.rpartition("#^")[2] if "#^" in heading else ""
    return f"^{block}" if block else heading or None


def _explain_missing(conn: Connection, file_path: str, asked: str) -> NoteNotFound:
    failure = conn.execute(FAILED, {"asked": asked}).fetchone()
    if failure:
        return NoteNotFound(
            f"The note {failure[0]!r} could not be indexed: {failure[1]}", "Mend it, then: obsidian-rag index"
        )
    if conn.execute(LINKED_ONLY, {"asked": asked}).fetchone():
        return NoteNotFound(
            f"The note {_quote(file_path)} is not in the index, though other notes link to it",
            'The vault\'s own setting "Excluded files" leaves it out, or it could not be read: see'
            " obsidian-rag status.",
        )
    paths = [row[0] for row in conn.execute("SELECT file_path FROM notes ORDER BY file_path").fetchall()]
    if not paths:
        return NoteNotFound(f"No note {_quote(file_path)}: {EMPTY[0]}", EMPTY[1])
    nearest = find_nearest(asked, paths)
    mend = f"Nearest paths: {', '.join(nearest)}" if nearest else LOOK
    return NoteNotFound(f"No note {_quote(file_path)} in the index", mend, nearest)


def _quote(file_path: str) -> str:
    return repr(file_path if len(file_path) <= LONGEST_QUOTED else f"{file_path[:LONGEST_QUOTED]}…")


def _clean_path(file_path: str) -> str:
    if len(file_path) > LONGEST_PATH:
        raise QueryError(
            f"file_path has {len(file_path)} characters, at most {LONGEST_PATH} can be a path", NAME_A_NOTE
        )
    if _UNSTORABLE.search(file_path):
        raise QueryError(
            f"file_path is {_quote(file_path)}, with a character that no path holds", NAME_A_NOTE
        )
    asked = file_path.strip()
    if link := _WIKILINK.fullmatch(asked):
        asked = link.group(1).strip()
    asked = asked.removeprefix("./").strip("/")
    if not asked:
        raise QueryError("file_path is empty", NAME_A_NOTE)
    return asked


def find_nearest(asked: str, paths: Sequence[str]) -> tuple[str, ...]:
    """The paths most like one that does not exist: one name inside the other, then names that look alike."""
    stem = _stem(asked)
    by_stem: dict[str, list[str]] = {}
    for path in paths:
        by_stem.setdefault(_stem(path), []).append(path)
    same = [s for s in by_stem if s == stem]
    inside = sorted((s for s in by_stem if min(len(s), len(stem)) > 2 and (s in stem or stem in s)), key=len)
    close = difflib.get_close_matches(stem, by_stem, n=NEAREST, cutoff=0.6)
    ranked = dict.fromkeys(path for s in (*same, *close[:2], *inside, *close) for path in by_stem[s])
    return tuple(list(ranked)[:NEAREST])


def _stem(path: str) -> str:
    return path.rsplit("/", 1)[-1].lower().removesuffix(".md")


def load_note(conn: Connection, file_path: str) -> StoredText:
    """A note's text, whole. Raises NoteNotFound."""
    row = conn.execute(
        "SELECT file_path, title, content, aliases, tags, modified_at, indexed_at FROM notes"
        " WHERE file_path = %s",
        (find_note(conn, file_path),),
    ).fetchone()
    if row is None:
        raise NoteNotFound(f"The note {file_path!r} was removed just now", LOOK)
    return StoredText(row[0], row[1], row[2], tuple(row[3]), tuple(row[4]), row[5], row[6])


def load_place(conn: Connection, file_path: str) -> tuple[StoredText, str | None]:
    """A note's text, whole, and the heading or block (`^id`) that was named with it. Raises NoteNotFound."""
    place = find_place(conn, file_path)
    return load_note(conn, place.file_path), place.heading


# Of several vaults each path starts with the vault's name; the folders below it are the topics.
TOPICS = """
SELECT CASE WHEN vaults > 1 AND second <> '' THEN top || '/' || second ELSE top END AS topic,
       count(*), sum(chunks)::int
FROM (SELECT CASE WHEN strpos(file_path, '/') > 0 THEN split_part(file_path, '/', 1) ELSE '' END AS top,
             CASE WHEN split_part(file_path, '/', 3) <> '' THEN split_part(file_path, '/', 2) ELSE '' END
                 AS second,
             chunks
      FROM notes) AS folder
CROSS JOIN (SELECT coalesce((SELECT cardinality(vaults) FROM index_settings), 1) AS vaults) AS v
GROUP BY topic ORDER BY topic
"""


def list_topics(conn: Connection) -> Topics:
    """The top-level folders with their notes and chunks."""
    topics = tuple(Topic(*row) for row in conn.execute(TOPICS).fetchall())
    return Topics(topics, () if topics else (". ".join(EMPTY),))


STATUS = """
SELECT (SELECT count(*) FROM notes), (SELECT count(*) FROM documents),
       (SELECT count(*) FROM note_links),
       (SELECT count(*) FROM note_links WHERE target_type = 'unresolved'),
       (SELECT to_jsonb(s) - 'only_row' FROM index_settings s),
       (SELECT to_jsonb(r) FROM last_run r),
       (SELECT to_jsonb(r) - 'report' || jsonb_build_object('age_seconds',
            round(extract(epoch FROM now() - finished_at))::bigint)
        FROM index_runs r WHERE status IN ('ok', 'partial') ORDER BY run_id DESC LIMIT 1),
       (SELECT coalesce(jsonb_agg(to_jsonb(f)), '[]') FROM failures f),
       pg_database_size(current_database()),
       (SELECT to_jsonb(k) - 'only_row' FROM keyword_stats k),
       (SELECT coalesce(jsonb_object_agg(fts_config, n), '{}') FROM (
            SELECT coalesce(fts_config, 'none') AS fts_config, count(*) AS n FROM notes GROUP BY 1) AS c),
       (SELECT count(*) FROM notes WHERE warnings <> '{}'),
       (SELECT coalesce(jsonb_agg(to_jsonb(w)), '[]') FROM (
            SELECT file_path, warnings FROM notes WHERE warnings <> '{}' ORDER BY file_path LIMIT 20) AS w)
"""


def load_status(conn: Connection) -> dict[str, Any]:
    """How the index stands: counts, settings, the last run, the last that came to its end with its age,
    failures, warnings of notes. What takes a look at the vault or at every row is in `drift`.

    `cut_short` is set where the last run is recorded as running and nobody runs it; `reembedding` where the
    embedder is being changed.
    """
    row = conn.execute(STATUS).fetchone()
    assert row is not None
    names = (
        "notes", "chunks", "links", "broken_links", "settings", "last_run", "last_good_run", "failures",
        "database_bytes", "keywords", "languages", "notes_with_warnings", "warnings",
    )  # fmt: skip
    status = dict(zip(names, row, strict=True))
    last = status["last_run"]
    running = last is not None and last["status"] == "running"
    begun = load_reembedding(conn)
    return status | {
        "cut_short": running and was_cut_short(conn, last["run_id"]),
        "reembedding": begun.to_json() if begun else None,
    }
