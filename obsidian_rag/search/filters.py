"""Which notes a filtered search may answer with."""

from __future__ import annotations

from obsidian_rag.postgres import Connection
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


def find_allowed(conn: Connection, filters: Filters) -> list[int] | None:
    """Ids of the notes that pass; None where nothing is filtered."""
    if not filters:
        return None
    values = {
        "folder": filters.folder.strip("/") if filters.folder else None,
        "tags": [tag.lstrip("#").lower() for tag in filters.tags],
        "names": [name for name, _ in filters.properties],
        "values": [value for _, value in filters.properties],
        "after": filters.after,
        "before": filters.before,
    }
    return [row[0] for row in conn.execute(ALLOWED, values).fetchall()]
