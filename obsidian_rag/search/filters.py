"""Which notes may answer: those that a search's filters leave, without those that settings hide."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from obsidian_rag.postgres import Connection
from obsidian_rag.search.priors import fold
from obsidian_rag.search.query import Filters

# A tag includes its nested ones, as in Obsidian: `project` finds `project/shed`. A property matches its
# value as text, or one of the values of a list, without case.
ALLOWED = """
SELECT n.id FROM notes n
WHERE (%(folder)s::text IS NULL OR starts_with(lower(n.file_path), lower(%(folder)s::text) || '/'))
    AND NOT EXISTS (
        SELECT FROM unnest(%(tags)s::text[]) AS wanted
        WHERE NOT EXISTS (
            SELECT FROM unnest(n.tags) AS tag
            WHERE lower(tag) = wanted OR starts_with(lower(tag), wanted || '/')))
    AND NOT EXISTS (
        SELECT FROM unnest(%(names)s::text[], %(values)s::text[]) AS wanted (name, value)
        WHERE NOT EXISTS (
            SELECT FROM jsonb_each(n.front_matter) AS p
            CROSS JOIN LATERAL jsonb_array_elements_text(
                CASE jsonb_typeof(p.value) WHEN 'array' THEN p.value ELSE jsonb_build_array(p.value) END
            ) AS item (value)
            WHERE lower(p.key) = lower(wanted.name) AND lower(item.value) = lower(wanted.value)))
    AND (%(after)s::date IS NULL OR coalesce(n.note_date, n.modified_at::date) >= %(after)s::date)
    AND (%(before)s::date IS NULL OR coalesce(n.note_date, n.modified_at::date) <= %(before)s::date)
"""


PATHS = "SELECT id, file_path FROM notes"
_GLOB = re.compile(r"(\*\*/|\*\*|\*|\?)")
_GLOB_MEANS = {"*": "[^/]*", "?": "[^/]", "**": ".*", "**/": "(?:.*/)?"}


@dataclass(frozen=True, slots=True)
class Hidden:
    """How many notes excludes hide, all told and by each exclude; one that hides none may be a slip."""

    notes: int
    by_exclude: dict[str, int]


def find_exclude(file_path: str, excludes: tuple[str, ...]) -> str | None:
    """The first of the excludes that hides a note, None where none does.

    An exclude is a folder or a note's path, or a pattern: `*` and `?` stand for anything but a slash, `**`
    for anything. A pattern that matches a folder hides what is in it; one without a slash is looked for at
    any depth. Case does not matter.
    """
    path = fold(file_path)
    return next((exclude for exclude in excludes if compile_excludes((exclude,)).match(path)), None)


@lru_cache(maxsize=256)  # every search asks
def compile_excludes(excludes: tuple[str, ...]) -> re.Pattern[str]:
    """What matches the start of a folded path that one of the excludes hides."""
    return re.compile("|".join(map(_translate, excludes)), re.DOTALL)


def _translate(exclude: str) -> str:
    folded = re.sub(r"\*{3,}", "**", fold(exclude))
    signs = _GLOB.split(folded)
    anywhere = "(?:.*/)?" if len(signs) > 1 and "/" not in folded else ""
    pattern = "".join(_GLOB_MEANS.get(sign) or re.escape(sign) for sign in signs)
    return rf"{anywhere}{pattern}(?:/|\Z)"


def find_hidden(conn: Connection, excludes: tuple[str, ...]) -> set[int]:
    """Ids of the notes that the excludes hide."""
    return _split(conn, excludes)[1] if excludes else set()


def _split(conn: Connection, excludes: tuple[str, ...]) -> tuple[set[int], set[int]]:
    """Ids of the notes that the excludes leave, and of those that they hide."""
    hides = compile_excludes(excludes).match
    ids: tuple[set[int], set[int]] = (set(), set())
    for id_, path in conn.execute(PATHS).fetchall():
        ids[hides(fold(path)) is not None].add(id_)
    return ids


def count_hidden(conn: Connection, excludes: tuple[str, ...]) -> Hidden:
    """How many notes the excludes hide from every search."""
    paths = [path for _, path in conn.execute(PATHS).fetchall()] if excludes else []
    found = {exclude: {path for path in paths if find_exclude(path, (exclude,))} for exclude in excludes}
    counts = {exclude: len(hidden) for exclude, hidden in found.items()}
    return Hidden(len(set().union(*found.values())), counts)


def find_allowed(conn: Connection, filters: Filters, excludes: tuple[str, ...] = ()) -> list[int] | None:
    """Ids of the notes that pass and are not hidden; None where all may answer."""
    seen, hidden = _split(conn, excludes) if excludes else (set(), set())
    if not filters:
        return sorted(seen) if hidden else None
    values = {
        "folder": filters.folder.strip("/") if filters.folder else None,
        "tags": [tag.lstrip("#").lower() for tag in filters.tags],
        "names": [name for name, _ in filters.properties],
        "values": [value for _, value in filters.properties],
        "after": filters.after,
        "before": filters.before,
    }
    return [row[0] for row in conn.execute(ALLOWED, values).fetchall() if row[0] not in hidden]
