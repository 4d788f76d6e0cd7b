"""Indexes of an empty index: taken away before many notes come in, made at once when they are there.

That takes a fraction of the time. Until then searches answer from the tables themselves; there is a limit to
how long they must. What is away stands in `withdrawn_indexes`, so that a killed run loses none.
"""

from __future__ import annotations

import psycopg

from obsidian_rag.postgres import Connection
from obsidian_rag.progress import Progress
from obsidian_rag.vector_column import take_memory

LEAST_NOTES = 200  # for which it is worth it
LONGEST = 300.0  # seconds without the indexes
LOCK_TIMEOUT = "1s"  # a reader may hold a table for long; then the indexes stay

OWNS = """
SELECT bool_and(pg_has_role(current_user, relowner, 'USAGE')) FROM pg_class
WHERE oid IN ('documents'::regclass, 'postings'::regclass, 'note_names'::regclass)
"""
# Those that keep rows apart stay, and the one by which a text's vector is found. What is recorded is carried
# out as the tables' owner, and others may write there too: it must be one statement that makes an index.
WITHDRAW = """
DO $$
DECLARE
    taken TEXT;
BEGIN
    FOR taken IN
        INSERT INTO withdrawn_indexes
        SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM pg_index i
        WHERE i.indrelid IN ('documents'::regclass, 'postings'::regclass, 'note_names'::regclass)
            AND NOT i.indisunique AND i.indisvalid
            AND i.indexrelid <> to_regclass('documents_content_hash_idx')
            AND pg_get_indexdef(i.indexrelid) ~ '^CREATE INDEX [^;]+$'
        ON CONFLICT DO NOTHING
        RETURNING name
    LOOP
        EXECUTE 'DROP INDEX ' || taken;
    END LOOP;
END
$$
"""
COUNT = "SELECT count(*) FROM withdrawn_indexes"
BUILD_ONE = """
DO $$
DECLARE
    taken withdrawn_indexes := (SELECT w FROM withdrawn_indexes w ORDER BY name LIMIT 1);
BEGIN
    IF to_regclass(taken.name) IS NULL AND taken.definition ~ '^CREATE INDEX [^;]+$' THEN
        EXECUTE taken.definition;
    END IF;
    DELETE FROM withdrawn_indexes WHERE name = taken.name;
END
$$
"""


def withdraw_indexes(conn: Connection) -> None:
    """Take the indexes away that only searches need, unless somebody works with the tables or owns them."""
    row = conn.execute(OWNS).fetchone()
    if row is None or not row[0]:
        return
    try:
        with conn.transaction():
            conn.execute("SELECT set_config('lock_timeout', %s, true)", (LOCK_TIMEOUT,))
            conn.execute(WITHDRAW)
    except psycopg.errors.LockNotAvailable:
        return


def restore_indexes(conn: Connection, progress: Progress) -> None:
    """Make again what was taken away, by this run or by one that was killed."""
    row = conn.execute(COUNT).fetchone()
    count = int(row[0]) if row else 0
    if count:
        progress.begin("Building indexes", count)
    for _ in range(count):
        try:
            _build_one(conn, parallel=True)
        except (psycopg.errors.DiskFull, psycopg.errors.OutOfMemory):
            # Worker processes share memory, of which a container may have little; it is told as a full disk.
            _build_one(conn, parallel=False)
        progress.advance()


def _build_one(conn: Connection, *, parallel: bool) -> None:
    with conn.transaction():
        take_memory(conn)
        if not parallel:
            conn.execute("SET LOCAL max_parallel_maintenance_workers = 0")
        conn.execute(BUILD_ONE)
