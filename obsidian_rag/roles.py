"""The role that reads: who searches can write nothing, whatever is asked and whatever fault this program has.

In an embedded server rag_reader logs in by itself, with a password made of the superuser's: no statement
leads back from there. With DATABASE_URL the login of the settings becomes rag_reader where it may.
"""

from __future__ import annotations

import hashlib
import hmac
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from obsidian_rag.postgres import READER, Connection

LOCK = "SELECT pg_advisory_xact_lock(7266531205)"  # any number that nothing else takes
KNOWN = "SELECT rolcanlogin, shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = %s"
CREATE = sql.SQL("CREATE ROLE {}").format(sql.Identifier(READER))
ADMIT = sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}")
DESCRIBE = sql.SQL("COMMENT ON ROLE {} IS {}")


def admit_reader(conn: Connection, server: str) -> str:
    """The conninfo of the role that reads in an embedded server, whose superuser's is `server`; `conn` is a
    connection of that one, in autocommit mode. Lets the role log in where it cannot yet.
    """
    secret = str(conninfo_to_dict(server)["password"])
    password = hmac.new(secret.encode(), READER.encode(), "sha256").hexdigest()
    # What a role's password is cannot be looked up: its comment tells which one it was given.
    digest = hashlib.sha256(password.encode()).hexdigest()
    if conn.execute(KNOWN, (READER,)).fetchone() != (True, digest):
        _give_password(conn, password, digest)
    return make_conninfo(server, user=READER, password=password)


def _give_password(conn: Connection, password: str, digest: str) -> None:
    # Already as it is stored: a statement that fails is written to the server's log.
    stored = conn.pgconn.encrypt_password(password.encode(), READER.encode(), b"scram-sha-256").decode()
    role = sql.Identifier(READER)
    with conn.transaction():
        conn.execute(LOCK)
        # The migrations of another database may be quicker.
        with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation), conn.transaction():
            conn.execute(CREATE)
        conn.execute(ADMIT.format(role, sql.Literal(stored)))
        conn.execute(DESCRIBE.format(role, sql.Literal(digest)))


# Privileges by default are those of who made the first tables: another owner's new ones would be closed.
GRANT = """
DO $$
DECLARE
    closed RECORD;
BEGIN
    FOR closed IN
        SELECT c.oid::regclass AS name, r.rolname AS role,
               CASE WHEN c.relkind = 'S' THEN 'USAGE, SELECT ON SEQUENCE' WHEN r.rolname = 'rag_reader' THEN 'SELECT ON'
                    ELSE 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON' END AS privileges
        FROM pg_class c CROSS JOIN pg_roles r
        WHERE c.relnamespace = current_schema()::regnamespace AND pg_has_role(current_user, c.relowner, 'USAGE')
            AND CASE
                WHEN r.rolname = 'rag_reader' THEN c.relkind IN ('r', 'v') AND NOT has_table_privilege(r.oid, c.oid, 'SELECT')
                WHEN r.rolname <> 'rag_indexer' THEN FALSE
                WHEN c.relkind = 'S' THEN NOT has_sequence_privilege(r.oid, c.oid, 'USAGE')
                ELSE c.relkind IN ('r', 'v') AND NOT has_table_privilege(r.oid, c.oid, 'INSERT') END
    LOOP
        EXECUTE format('GRANT %s %s TO %I', closed.privileges, closed.name, closed.role);
    END LOOP;
END
$$
"""  # noqa: E501
# Since PostgreSQL 16 who makes a role may give it away, but not take it before it is given to himself.
TAKE_OWN = """
DO $$
BEGIN
    IF EXISTS (
        SELECT FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid JOIN pg_roles u ON u.oid = m.member
        WHERE r.rolname = 'rag_reader' AND u.rolname = current_user AND m.admin_option
            AND NOT pg_has_role(u.oid, r.oid, 'SET')
    ) THEN
        EXECUTE format('GRANT rag_reader TO %I WITH SET TRUE, INHERIT FALSE', current_user);
    END IF;
END
$$
"""


def settle_roles(conn: Connection) -> None:
    """After migrations: open new tables to the roles, and the role that reads to who made it."""
    conn.execute(GRANT)
    if conn.info.server_version >= 160000:
        conn.execute(TAKE_OWN)


READS_AS = "SELECT current_user, has_table_privilege('documents', 'INSERT, UPDATE, DELETE, TRUNCATE')"


def tell_reader(conn: Connection) -> dict[str, Any]:
    """As which `role` an index is read, and whether that one `may_write`; `conn` is one that reads."""
    row = conn.execute(READS_AS).fetchone()
    assert row is not None
    return {"role": row[0], "may_write": row[1]}
