"""Indexes of an empty index: taken away before many notes come in, made at once when they are there.

That takes a fraction of the time. Until then searches answer from the tables themselves; there is a limit to
how long they must. The names of what is away stand in `withdrawn_indexes`, so that a killed run loses none.
"""

from __future__ import annotations

import psycopg
from psycopg import sql

from obsidian_rag.postgres import Connection
from obsidian_rag.progress import Progress
from obsidian_rag.schema_text import list_indexes
from obsidian_rag.vector_column import (
    CREATE_VECTOR_INDEX,
    VECTOR_INDEX,
    name_vector_index,
    take_memory,
    vector_dimensions,
)

LEAST_NOTES = 200  # for which it is worth it
LONGEST = 300.0  # seconds without the indexes
LOCK_TIMEOUT = "1s"  # a reader may hold a table for long; then the indexes stay

# What only searches need. An index that keeps rows apart stays, and the one by which a text's vector is
# found; so do a person's own, and one of these that somebody gave other settings.
SEARCHED = [
    "documents_content_tsv_idx",
    "documents_embedding_idx",
    "documents_search_tsv_idx",
    "note_names_key_idx",
    "note_names_note_idx",
    "note_names_trigrams_idx",
    "note_names_words_idx",
    "postings_lexeme_idx",
    "postings_note_idx",
]
OWNS = """
SELECT bool_and(pg_has_role(current_user, relowner, 'USAGE')
    AND has_schema_privilege(current_user, relnamespace, 'CREATE'))
FROM pg_class WHERE oid IN ('documents'::regclass, 'postings'::regclass, 'note_names'::regclass)
"""
LOCK = "LOCK TABLE documents, postings, note_names IN ACCESS EXCLUSIVE MODE"
RECORD = """
INSERT INTO withdrawn_indexes
SELECT relname FROM pg_class JOIN pg_index ON indexrelid = pg_class.oid
WHERE pg_class.oid IN (SELECT to_regclass(name) FROM unnest(%s::text[]) AS name)
    AND indisvalid AND reloptions IS NULL
ON CONFLICT DO NOTHING RETURNING name
"""
WITHDRAWN = "SELECT name, to_regclass(name) IS NOT NULL FROM withdrawn_indexes ORDER BY name"


def withdraw_indexes(conn: Connection) -> None:
    """Take the indexes away that only searches need, unless somebody works with the tables or owns them."""
    if not _may_change(conn):
        return
    try:
        with conn.transaction():
            conn.execute("SELECT set_config('lock_timeout', %s, true)", (LOCK_TIMEOUT,))
            conn.execute(LOCK)
            for (name,) in conn.execute(RECORD, (SEARCHED,)).fetchall():
                conn.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
        return


def restore_indexes(conn: Connection, progress: Progress) -> None:
    """Make again what was taken away, by this run or by one that was killed."""
    withdrawn = conn.execute(WITHDRAWN).fetchall()
    if not withdrawn:
        return
    if not _may_change(conn):
        progress.say(
            "Indexes are missing, so that searches are slow, until the owner of the tables runs:"
            " obsidian-rag index"
        )
        return
    statements = list_indexes()
    progress.begin("Building indexes", len(withdrawn))
    for name, is_there in withdrawn:
        # Others may write this table; whatever they name, only indexes of the schema are made.
        statement = None if is_there else statements.get(name)
        if statement is not None:
            _build(conn, name, statement)
        conn.execute("DELETE FROM withdrawn_indexes WHERE name = %s", (name,))
        progress.advance()


def _may_change(conn: Connection) -> bool:
    row = conn.execute(OWNS).fetchone()
    return bool(row and row[0])


def _build(conn: Connection, name: str, statement: str) -> None:
    try:
        _build_once(conn, name, statement, parallel=True)
    except (psycopg.errors.DiskFull, psycopg.errors.OutOfMemory):
        # Worker processes share memory, of which a container may have little; it is told as a full disk.
        _build_once(conn, name, statement, parallel=False)


def _build_once(conn: Connection, name: str, statement: str, *, parallel: bool) -> None:
    with conn.transaction():
        take_memory(conn)
        if not parallel:
            conn.execute("SET LOCAL max_parallel_maintenance_workers = 0")
        if name == VECTOR_INDEX:
            parts = name_vector_index("documents", VECTOR_INDEX, vector_dimensions(conn))
            conn.execute(CREATE_VECTOR_INDEX.format(**parts))
        else:
            conn.execute(statement)
