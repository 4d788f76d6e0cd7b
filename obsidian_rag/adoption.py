"""Taking over a database of the first schema in place: no chunk is embedded again, no row is lost."""

from __future__ import annotations

from obsidian_rag.errors import SchemaError
from obsidian_rag.frequent_lexemes import add_fresh
from obsidian_rag.keywords import write_keywords
from obsidian_rag.link_rows import insert_links
from obsidian_rag.models import Note
from obsidian_rag.postgres import Connection
from obsidian_rag.store import ReadNote, delete_notes, find_ids, format_heading_path, insert_note_rows

# Columns by which a table is known to be ours. These are usual names, and the tables of another program must
# not be changed.
OWN_COLUMNS = {
    "documents": {
        "id",
        "file_path",
        "file_hash",
        "chunk_index",
        "heading",
        "content",
        "embedding",
        "metadata",
    },
    "note_links": {"source_path", "target_name", "target_path"},
    "notes": {"file_path", "file_hash", "front_matter", "parser_version"},
    "index_settings": {"vaults", "embed_model", "fts_config"},
    "index_runs": {"run_id", "status", "report"},
    "index_failures": {"run_id", "file_path", "stage"},
}
LIST_COLUMNS = """
SELECT c.relname, array_agg(a.attname::text)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.oid = to_regclass(c.relname::text) AND c.relname = ANY(%s)
GROUP BY c.relname
"""


def check_tables(conn: Connection) -> None:
    """Raise SchemaError where a table of one of our names belongs to another program."""
    for table, columns in conn.execute(LIST_COLUMNS, (list(OWN_COLUMNS),)).fetchall():
        if not OWN_COLUMNS[table] <= set(columns):
            raise SchemaError(
                f"The database has a table {table} that is another program's; nothing was changed",
                "Set DATABASE_URL to a database of its own (createdb).",
            )


FIND_ADOPTABLE = """
SELECT DISTINCT ON (file_path) file_path, file_hash FROM documents d
WHERE NOT EXISTS (SELECT FROM notes n WHERE n.file_path = d.file_path) ORDER BY file_path
"""
FIND_UNTOUCHED = "SELECT DISTINCT ON (file_path) file_path, file_hash FROM documents ORDER BY file_path"


def load_adoptable(conn: Connection) -> dict[str, str]:
    """Path to file hash of the first schema's notes: those with chunks but no row in `notes`.

    Works on a database before its migration too.
    """
    row = conn.execute("SELECT to_regclass('documents'), to_regclass('notes')").fetchone()
    if row is None or row[0] is None:
        return {}
    return dict(conn.execute(FIND_ADOPTABLE if row[1] else FIND_UNTOUCHED).fetchall())


PLACE_CHUNK = """
UPDATE documents SET file_path = %(file_path)s, start_line = %(start_line)s, end_line = %(end_line)s,
    heading_path = %(heading_path)s
WHERE id = %(id)s
"""


def adopt_note(conn: Connection, read: ReadNote, old_path: str | None = None) -> None:
    """Take over a note whose chunks the first schema holds: its row, its links, where its chunks stand.

    The chunks keep their text and vectors, and their `content_hash` stays NULL, since they were cut, and
    perhaps embedded, otherwise. With `old_path`, the note was renamed since.
    """
    note = read.note
    with conn.transaction():
        rows = conn.execute(
            "SELECT id, content FROM documents WHERE file_path = %s ORDER BY chunk_index",
            (old_path or note.file_path,),
        ).fetchall()
        placed, after = [], 0
        for row_id, content in rows:
            start_line, end_line, heading_path, after = _place(note, content, after)
            place = {"start_line": start_line, "end_line": end_line, "heading_path": heading_path}
            placed.append(place | {"id": row_id, "file_path": note.file_path})
        with conn.cursor() as cur:
            cur.executemany(PLACE_CHUNK, placed)
        if old_path is not None:
            delete_notes(conn, [old_path])
        conn.execute("DELETE FROM note_links WHERE source_path = %s", (note.file_path,))
        ids = find_ids(conn, [read])
        conn.execute("DELETE FROM notes WHERE id = ANY(%s)", (ids,))
        insert_note_rows(conn, [read], ids, [len(rows)])
        insert_links(conn, [read.links])
        named = {"id": ids[0], "file_path": note.file_path, "title": note.title, "aliases": note.aliases}
        named["called"] = note.front_matter.get("title")
        write_keywords(conn, [named], [read.fts_config], keep=True)
        add_fresh(conn, ids)


def _place(note: Note, content: str, after: int) -> tuple[int | None, int | None, str, int]:
    """First and last line and heading path of a chunk cut elsewhere, None where it is not found; then the
    offset to look for the next one from.

    It is looked for from `after`, behind where the chunk before it began: a note may say a thing twice.
    """
    wanted = content.replace("\r\n", "\n").strip()
    at = note.text.find(wanted, after) if wanted else -1
    if at < 0 and wanted:
        at = note.text.find(wanted)
    if at < 0:
        return None, None, "", after
    section = next((s for s in note.sections if s.start <= at < s.end), None)
    first = note.text.count("\n", 0, at) + 1
    path = format_heading_path(section.heading_path) if section else ""
    return first, first + wanted.count("\n"), path, at + 1
