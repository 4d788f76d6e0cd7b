"""A table like `documents` with other vectors, built beside it, then put in its place.

A copy and not another column: an update of every row would go through every index, that of the old vectors
too, and leave these in the table's file. All is done in the caller's transaction: nobody sees the copy before
it stands in its place, and nothing of it is left where that does not come about.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg
from psycopg import sql

from obsidian_rag.errors import DatabaseError, DatabaseUnsuitable
from obsidian_rag.postgres import Connection
from obsidian_rag.vector_column import (
    CREATE_VECTOR_INDEX,
    VECTOR_INDEX,
    name_vector_index,
    set_vector_type,
    take_memory,
)

NEXT = "documents_next"
NEXT_VECTOR_INDEX = "documents_next_embedding_idx"
# A reader holds the table for the length of an answer. Who waits for it makes later readers wait too, so the
# wait is cut short and taken up again.
LOCK_TIMEOUT = "1s"
LOCK_PAUSE = 0.5  # seconds
LOCK_ATTEMPTS = 400  # about ten minutes

OWNER = """
SELECT pg_get_userbyid(relowner), current_user, pg_has_role(current_user, relowner, 'USAGE')
FROM pg_class WHERE oid = 'documents'::regclass
"""
# What hangs on the table itself and would be lost with it. Its columns, defaults, checks, indexes, statistics
# and rights are copied.
ATTACHED = """
WITH kept AS (SELECT * FROM pg_class WHERE oid = 'documents'::regclass)
SELECT pg_describe_object(d.classid, d.objid, 0)
FROM pg_depend d, kept
LEFT JOIN pg_type t ON t.oid = kept.reltype
WHERE ((d.refclassid = 'pg_class'::regclass AND d.refobjid = kept.oid)
        OR (d.refclassid = 'pg_type'::regclass AND d.refobjid IN (t.oid, t.typarray)))
    AND d.classid NOT IN ('pg_type'::regclass, 'pg_attrdef'::regclass, 'pg_statistic_ext'::regclass)
    AND NOT EXISTS (SELECT FROM pg_constraint c
        WHERE d.classid = 'pg_constraint'::regclass AND c.oid = d.objid AND c.contype <> 'f')
    AND NOT EXISTS (SELECT FROM pg_class c
        WHERE d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relkind IN ('i', 't', 'S'))
UNION SELECT 'row security' FROM kept WHERE relrowsecurity
UNION SELECT 'its place in another table' FROM pg_inherits, kept WHERE inhrelid = kept.oid
UNION SELECT 'its partitions' FROM kept WHERE relkind <> 'r'
ORDER BY 1
"""


def check_replaceable(conn: Connection) -> None:
    """Raise DatabaseUnsuitable where `documents` cannot be replaced: it belongs to another role, or a view, a
    trigger or the like of somebody hangs on it.
    """
    row = conn.execute(OWNER).fetchone()
    assert row is not None
    owner, user, may = row
    if not may:
        raise DatabaseUnsuitable(
            f"Other vectors need a new table documents, which {owner} owns and {user} may not replace",
            f"Let DATABASE_URL connect as {owner} for this once.",
        )
    attached = [row[0] for row in conn.execute(ATTACHED).fetchall()]
    if attached:
        raise DatabaseUnsuitable(
            "Other vectors need a new table documents, and this hangs on the present one:"
            f" {'; '.join(attached)}",
            "Note its definition (obsidian-rag psql -- -c '\\d+ documents'), drop it, run this again, and"
            " create it anew.",
        )


SCHEMA = """
SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = 'documents'::regclass
"""
CREATE = sql.SQL("CREATE TABLE {schema}.documents_next (LIKE documents INCLUDING ALL)")
VECTOR_INDEXES = """
SELECT i.relname, pg_get_indexdef(i.oid)
FROM pg_depend d
JOIN pg_class i ON i.oid = d.objid AND i.relkind = 'i'
JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid AND a.attname = 'embedding'
WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
    AND d.refobjid = %s::regclass
ORDER BY 1
"""
COLUMNS = """
SELECT attname FROM pg_attribute
WHERE attrelid = 'documents'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
ORDER BY attnum
"""
# `wanted` tells for each row the hash of its text, `reembedded` the vector of a hash.
FILL = sql.SQL("""
INSERT INTO documents_next ({columns}) OVERRIDING SYSTEM VALUE
SELECT {values} FROM documents d
JOIN wanted w ON w.id = d.id
JOIN reembedded r ON r.content_hash = w.content_hash
ORDER BY d.id
""")
TAKEN_FROM = {
    "embedding": sql.SQL("r.embedding"),
    "content_hash": sql.SQL("w.content_hash"),
    "repeated": sql.SQL("row_number() OVER (PARTITION BY w.content_hash ORDER BY d.repeated, d.id) > 1"),
}
COPY_RIGHTS = """
DO $$
DECLARE
    kept pg_class := (SELECT c FROM pg_class c WHERE oid = 'documents'::regclass);
    given RECORD;
BEGIN
    IF kept.reloptions IS NOT NULL THEN
        EXECUTE format('ALTER TABLE documents_next SET (%s)', array_to_string(kept.reloptions, ', '));
    END IF;
    EXECUTE format('COMMENT ON TABLE documents_next IS %L', obj_description(kept.oid, 'pg_class'));
    FOR given IN
        SELECT g.grantee, g.privilege_type || a.attlist AS privilege, g.is_grantable
        FROM (SELECT '' AS attlist, kept.relacl AS acl
            UNION ALL
            SELECT format(' (%I)', attname), attacl FROM pg_attribute
            WHERE attrelid = kept.oid AND attnum > 0 AND NOT attisdropped) AS a, aclexplode(a.acl) AS g
        WHERE g.grantee <> kept.relowner
    LOOP
        EXECUTE format('GRANT %s ON documents_next TO %s %s', given.privilege,
            CASE given.grantee WHEN 0 THEN 'PUBLIC' ELSE given.grantee::regrole::text END,
            CASE WHEN given.is_grantable THEN 'WITH GRANT OPTION' ELSE '' END);
    END LOOP;
    IF kept.relowner <> (SELECT relowner FROM pg_class WHERE oid = 'documents_next'::regclass) THEN
        EXECUTE format('ALTER TABLE documents_next OWNER TO %I', pg_get_userbyid(kept.relowner));
    END IF;
END
$$
"""


def keep_writers_out(conn: Connection) -> None:
    """Let nobody else write to `documents` until the transaction ends; readers go on."""
    conn.execute("LOCK TABLE documents IN SHARE ROW EXCLUSIVE MODE")


def build_next(conn: Connection, dimensions: int, warn: Callable[[str], None]) -> int:
    """Make and fill the copy, with its indexes; returns how many rows it has.

    The temporary table `wanted (id, content_hash)` has a row for each row of `documents`, and `reembedded`
    the vectors. Raises DatabaseError where a row would be lost.
    """
    (schema,) = conn.execute(SCHEMA).fetchone() or ("public",)
    conn.execute(CREATE.format(schema=sql.Identifier(schema)))
    for name, _ in conn.execute(VECTOR_INDEXES, (NEXT,)).fetchall():
        conn.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
    for name, definition in conn.execute(VECTOR_INDEXES, ("documents",)).fetchall():
        if name != VECTOR_INDEX:
            warn(f"Your index {name} on the vectors was not made again; it was: {definition}")
    set_vector_type(conn, NEXT, dimensions)
    columns = [row[0] for row in conn.execute(COLUMNS).fetchall()]
    fill = FILL.format(
        columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
        values=sql.SQL(", ").join(TAKEN_FROM.get(name, sql.Identifier("d", name)) for name in columns),
    )
    rows = conn.execute(fill).rowcount
    present = conn.execute("SELECT count(*) FROM documents").fetchone()
    if present is None or present[0] != rows:
        raise DatabaseError(
            "Somebody else changed the table documents while its texts were embedded",
            "Run it again: obsidian-rag index --reembed; only new texts are embedded.",
        )
    # Worker processes share memory that a container may not have; nobody waits for this.
    conn.execute("SET LOCAL max_parallel_maintenance_workers = 0")
    take_memory(conn)
    conn.execute(CREATE_VECTOR_INDEX.format(**name_vector_index(NEXT, NEXT_VECTOR_INDEX, dimensions)))
    conn.execute("ANALYZE documents_next")
    conn.execute(COPY_RIGHTS)
    return rows


# Indexes of the copy by the names of those they are copies of.
INDEX_NAMES = """
WITH named AS (
    SELECT indrelid = 'documents'::regclass AS is_old, c.relname, definition,
           row_number() OVER (PARTITION BY indrelid, definition ORDER BY c.relname) AS place
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid,
    concat(indisprimary, indisunique, regexp_replace(pg_get_indexdef(c.oid), '^.*? USING ', '')) AS definition
    WHERE indrelid IN ('documents'::regclass, 'documents_next'::regclass))
SELECT n.relname, o.relname FROM named n JOIN named o USING (definition, place)
WHERE o.is_old AND NOT n.is_old
"""
SEQUENCE = """
SELECT nspname, relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
WHERE c.oid = pg_get_serial_sequence('documents', 'id')::regclass
"""


def put_in_place(conn: Connection, say: Callable[[str], None]) -> None:
    """Let the copy take the place of `documents`. Readers wait from now until the transaction ends, which is
    to be at once. Raises DatabaseError where somebody does not let go of the table.
    """
    names = dict(conn.execute(INDEX_NAMES).fetchall()) | {NEXT_VECTOR_INDEX: VECTOR_INDEX}
    _wait_for_readers(conn, say)
    sequence = conn.execute(SEQUENCE).fetchone()
    if sequence is not None:
        conn.execute(
            sql.SQL("ALTER SEQUENCE {} OWNED BY documents_next.id").format(sql.Identifier(*sequence))
        )
    conn.execute("DROP TABLE documents")
    conn.execute("ALTER TABLE documents_next RENAME TO documents")
    for copy, original in names.items():
        conn.execute(
            sql.SQL("ALTER INDEX {} RENAME TO {}").format(sql.Identifier(copy), sql.Identifier(original))
        )


HOLDERS = """
SELECT string_agg(DISTINCT
    concat(coalesce(nullif(application_name, ''), usename), ' (process ', a.pid, ')'), ', ')
FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.relation = 'documents'::regclass AND l.granted AND a.pid <> pg_backend_pid()
"""


def _wait_for_readers(conn: Connection, say: Callable[[str], None]) -> None:
    conn.execute("SELECT set_config('lock_timeout', %s, true)", (LOCK_TIMEOUT,))
    for attempt in range(LOCK_ATTEMPTS):
        try:
            with conn.transaction():
                conn.execute("LOCK TABLE documents IN ACCESS EXCLUSIVE MODE")
            return
        except psycopg.errors.LockNotAvailable:
            if attempt == 0:
                say("Waiting for those who read the index at this moment.")
            time.sleep(LOCK_PAUSE)
    (holders,) = conn.execute(HOLDERS).fetchone() or (None,)
    raise DatabaseError(
        f"The new vectors are ready but cannot take their place: {holders or 'somebody'} holds the table"
        " documents",
        "When that has ended, run again: obsidian-rag index --reembed; nothing is embedded twice.",
    )
