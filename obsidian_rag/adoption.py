"""Taking over a database of the first schema in place: no chunk is embedded again, no row is lost."""

from __future__ import annotations

from obsidian_rag.models import Note, VaultFile
from obsidian_rag.postgres import Connection
from obsidian_rag.store import SEARCH_TSV, format_heading_path, insert_links, split_path, upsert_note


def load_adoptable(conn: Connection) -> dict[str, str]:
    """Path to file hash of the first schema's notes: those with chunks but no row in `notes`."""
    rows = conn.execute(
        "SELECT DISTINCT ON (file_path) file_path, file_hash FROM documents d"
        " WHERE NOT EXISTS (SELECT FROM notes n WHERE n.file_path = d.file_path) ORDER BY file_path"
    ).fetchall()
    return dict(rows)


BACKFILL = f"""
UPDATE documents SET path_terms = %(path_terms)s,
    content_tsv = coalesce(content_tsv, to_tsvector(%(config)s::regconfig, content)),
    search_tsv = {SEARCH_TSV.replace("%(heading_path)s", "coalesce(heading, '')").replace("%(content)s", "content")}
WHERE file_path = %(file_path)s AND search_tsv IS NULL
"""  # noqa: S608, E501 - a constant of this module, no value


def backfill_keywords(conn: Connection, fts_config: str) -> int:
    """Give chunks of the first schema their keyword data from the stored text; return how many notes."""
    paths = [
        row[0] for row in conn.execute("SELECT DISTINCT file_path FROM documents WHERE search_tsv IS NULL")
    ]
    with conn.transaction(), conn.cursor() as cur:
        cur.executemany(
            BACKFILL,
            [{"file_path": p, "path_terms": split_path(p), "config": fts_config} for p in paths],
        )
    return len(paths)


def adopt_note(
    conn: Connection, note: Note, file: VaultFile, file_hash: str, old_path: str | None = None
) -> None:
    """Take over a note whose chunks the first schema holds: its row, its links, where its chunks stand.

    The chunks keep their text and vectors; `parser_version` stays NULL, since they were cut elsewhere.
    """
    with conn.transaction():
        if old_path is not None:
            conn.execute(
                "UPDATE documents SET file_path = %s, path_terms = NULL, search_tsv = NULL"
                " WHERE file_path = %s",
                (note.file_path, old_path),
            )
            conn.execute("DELETE FROM note_links WHERE source_path = %s", (old_path,))
            conn.execute("DELETE FROM notes WHERE file_path = %s", (old_path,))
        conn.execute("DELETE FROM note_links WHERE source_path = %s", (note.file_path,))
        upsert_note(conn, note, file, file_hash, None)
        insert_links(conn, note)
        rows = conn.execute(
            "SELECT id, content FROM documents WHERE file_path = %s ORDER BY chunk_index", (note.file_path,)
        ).fetchall()
        with conn.cursor() as cur:
            cur.executemany(
                "UPDATE documents SET start_line = %s, end_line = %s, heading_path = %s WHERE id = %s",
                [(*_place(note, content), row_id) for row_id, content in rows],
            )


def _place(note: Note, content: str) -> tuple[int | None, int | None, str]:
    """First and last line and heading path of a chunk cut elsewhere; nothing where its text is not found."""
    wanted = content.replace("\r\n", "\n").strip()
    at = note.text.find(wanted) if wanted else -1
    if at < 0:
        return None, None, ""
    section = next((s for s in note.sections if s.start <= at < s.end), None)
    first = note.text.count("\n", 0, at) + 1
    path = format_heading_path(section.heading_path) if section else ""
    return first, first + wanted.count("\n"), path
