"""Why no note passes the filters of a search: which of them matches none, and what is near that does."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from obsidian_rag.postgres import Connection
from obsidian_rag.search.filters import find_allowed
from obsidian_rag.search.priors import fold
from obsidian_rag.search.query import Filters

LEAST_LIKENESS = 0.7  # of a folder, tag, property or value that is offered
NEARLY = 0.9  # as like as the likest, to be offered beside it
MOST_OFFERED = 3

FOLDERS = """
SELECT DISTINCT regexp_replace(file_path, '/[^/]*$', '') AS folder FROM notes WHERE strpos(file_path, '/') > 0
ORDER BY folder
"""
TAGS = "SELECT tag FROM notes, unnest(tags) AS tag GROUP BY tag ORDER BY count(*) DESC, tag"
KEYS = """
SELECT key FROM notes, jsonb_object_keys(front_matter) AS key GROUP BY key ORDER BY count(*) DESC, key
"""
VALUES = """
SELECT item.value FROM notes n
CROSS JOIN LATERAL jsonb_each(n.front_matter) AS p
CROSS JOIN LATERAL jsonb_array_elements_text(
    CASE jsonb_typeof(p.value) WHEN 'array' THEN p.value ELSE jsonb_build_array(p.value) END) AS item (value)
WHERE lower(p.key) = lower(%(key)s) AND length(item.value) <= 100
GROUP BY item.value ORDER BY count(*) DESC, item.value LIMIT 200
"""
DAYS = """
SELECT min(coalesce(note_date, modified_at::date))::text, max(coalesce(note_date, modified_at::date))::text
FROM notes
"""


def explain_filters(conn: Connection, filters: Filters, excludes: tuple[str, ...]) -> str:
    """Why no note passes: filters that match none by themselves, else that none matches all of them."""
    counts = [(name, one, len(find_allowed(conn, one) or ())) for name, one in _split(filters)]
    idle = [_explain_idle(conn, name, one) for name, one, count in counts if not count]
    if idle:
        return f"No note passes the filters: {'; '.join(idle)}. Leave that out, or write it as the notes do."
    if excludes and find_allowed(conn, filters):
        return (
            "SEARCH_EXCLUDES hides all notes that pass the filters. To see them, search with"
            " include_excluded=true (--include-excluded)."
        )
    each = ", ".join(f"{name} ({count})" for name, _, count in counts)
    return f"No note passes all the filters together, though each matches some: {each}. Leave one out."


def _split(filters: Filters) -> Iterator[tuple[str, Filters]]:
    """Each filter by itself, with what it is called."""
    if filters.folder:
        yield f'folder "{filters.folder}"', Filters(folder=filters.folder)
    for tag in filters.tags:
        yield f"tag #{tag}", Filters(tags=(tag,))
    for key, value in filters.properties:
        yield f"property {key}={value}", Filters(properties=((key, value),))
    days = replace(filters, folder=None, tags=(), properties=())
    if days:
        bounds = (("after", days.after), ("before", days.before))
        yield " ".join(f"{name} {day}" for name, day in bounds if day), days


def _explain_idle(conn: Connection, name: str, filters: Filters) -> str:
    if filters.folder:
        folders = [row[0] for row in conn.execute(FOLDERS).fetchall()]
        offer = _offer(filters.folder, _with_outer(folders)) or " (list_topics names the outermost ones)"
        return f"none is in the {name}{offer}"
    if filters.tags:
        tags = [row[0] for row in conn.execute(TAGS).fetchall()]
        return f"none has the {name}{_offer(filters.tags[0], _with_outer(tags), '#')}"
    if filters.properties:
        key, value = filters.properties[0]
        values = [row[0] for row in conn.execute(VALUES, {"key": key}).fetchall()]
        if values:
            more = ", …" * (len(values) > MOST_OFFERED)
            offer = _offer(value, values) or f" ({key} is {', '.join(values[:MOST_OFFERED])}{more})"
            return f"none has the {name}{offer}"
        keys = [row[0] for row in conn.execute(KEYS).fetchall()]
        return f"none has a property {key}{_offer(key, keys)}"
    first, last = conn.execute(DAYS).fetchone() or (None, None)
    return f"none is of a day {name} (the notes are of {first} to {last})"


def _with_outer(names: Sequence[str]) -> list[str]:
    """Names of folders or tags with those they are nested in, which need not have notes of their own."""
    parts = [name.split("/") for name in names]
    return list(dict.fromkeys("/".join(p[:depth]) for p in parts for depth in range(1, len(p) + 1)))


def _offer(asked: str, names: Sequence[str], sign: str = "") -> str:
    """` (did you mean …?)` with the names most like one, or that begin with it; of nested ones
    also by their end."""
    wanted = fold(asked)
    end = wanted.rsplit("/", 1)[-1]
    by_key: dict[str, list[str]] = {}
    for name in {fold(name): name for name in reversed(names)}.values():  # of two spellings the commoner
        for key in dict.fromkeys((fold(name), fold(name).rsplit("/", 1)[-1])):
            by_key.setdefault(key, []).append(name)
    likeness: dict[str, float] = {}
    for one in dict.fromkeys((wanted, end)):
        close = difflib.get_close_matches(one, by_key, n=2 * MOST_OFFERED, cutoff=LEAST_LIKENESS)
        begun = [key for key in by_key if len(one) > 1 and key.startswith(one)]
        for key in dict.fromkeys((*close, *begun)):
            ratio = max(LEAST_LIKENESS, difflib.SequenceMatcher(None, one, key).ratio())
            likeness |= {name: max(ratio, likeness.get(name, 0.0)) for name in by_key[key]}
    best = max(likeness.values(), default=0.0)
    near = sorted((name for name in likeness if likeness[name] >= NEARLY * best), key=lambda n: -likeness[n])
    if not near:
        return ""
    return f" (did you mean {' or '.join(f'{sign}{name}' for name in near[:MOST_OFFERED])}?)"
