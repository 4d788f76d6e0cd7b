"""Notes of which somebody deleted chunks by hand, so that the next run can bring them in again."""

from __future__ import annotations

from obsidian_rag.postgres import Connection

# The sums are kept with each note, so that rows which somebody deleted by hand are missed at the cost of
# counting those that are left. Only then are their notes looked for.
ARE_CHUNKS_LOST = """
SELECT (SELECT count(*) FROM documents) IS DISTINCT FROM (SELECT sum(chunks) FROM keyword_stats)
"""
FIND_TORN = """
SELECT n.file_path FROM notes n
LEFT JOIN (
    SELECT file_path, count(*) AS chunks, max(chunk_index) AS last, bool_or(content_hash IS NULL) AS adopted
    FROM documents GROUP BY file_path) AS d USING (file_path)
JOIN (SELECT note_id, max(chunk_index) AS last FROM postings GROUP BY note_id) AS p ON p.note_id = n.id
WHERE d.adopted IS NOT TRUE AND (d.file_path IS NULL OR d.chunks <= d.last OR d.last < p.last)
"""


def find_torn_notes(conn: Connection) -> list[str]:
    """The notes whose chunks are not all there. One of which another program made the chunks is none."""
    made = conn.execute("SELECT to_regclass('keyword_stats')").fetchone()
    if made is None or made[0] is None:  # a database before its migration
        return []
    lost = conn.execute(ARE_CHUNKS_LOST).fetchone()
    return [row[0] for row in conn.execute(FIND_TORN).fetchall()] if lost and lost[0] else []
