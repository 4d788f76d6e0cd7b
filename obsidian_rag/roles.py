"""The role that reads: who searches can write nothing, whatever is asked and whatever fault this program has.

An embedded server lets rag_reader log in by itself, with a password made of its superuser's: no statement
leads back from there. With DATABASE_URL the login of the settings becomes rag_reader where it may.
"""

from __future__ import annotations

import hashlib
import hmac

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from obsidian_rag.postgres import READER, Connection

LOCK = "SELECT pg_advisory_xact_lock(7266531205)"  # any number that nothing else takes
# A role has one password, and nothing that may be looked up tells which: its comment does, as a digest.
KNOWN = "SELECT rolcanlogin, shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = %s"
CREATE = sql.SQL("CREATE ROLE {}").format(sql.Identifier(READER))
ADMIT = sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}")
DESCRIBE = sql.SQL("COMMENT ON ROLE {} IS {}")

# Since PostgreSQL 16 who makes a role has it to give, and may not take it without giving it to himself.
TAKE_OWN = """
DO $$
BEGIN
    IF EXISTS (
        SELECT FROM pg_roles r WHERE rolname = 'rag_reader' AND NOT pg_has_role(current_user, oid, 'USAGE')
            AND EXISTS (SELECT FROM pg_auth_members m JOIN pg_roles u ON u.oid = m.member
                        WHERE m.roleid = r.oid AND u.rolname = current_user AND m.admin_option)
    ) THEN
        EXECUTE format('GRANT rag_reader TO %I', current_user);
    END IF;
END
$$
"""


def admit_reader(conn: Connection, server: str) -> str:
    """The conninfo of the role that reads, of an embedded server whose superuser's is `server`; `conn` is a
    connection of that one, in autocommit mode. Lets the role log in where it cannot yet.
    """
    secret = str(conninfo_to_dict(server)["password"])
    password = hmac.new(secret.encode(), READER.encode(), "sha256").hexdigest()
    digest = hashlib.sha256(password.encode()).hexdigest()
    if conn.execute(KNOWN, (READER,)).fetchone() != (True, digest):
        with conn.transaction():
            conn.execute(LOCK)
            if conn.execute(KNOWN, (READER,)).fetchone() is None:
                try:
                    with conn.transaction():
                        conn.execute(CREATE)
                except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
                    pass  # the migrations of another database were quicker
            conn.execute(ADMIT.format(sql.Identifier(READER), sql.Literal(password)))
            conn.execute(DESCRIBE.format(sql.Identifier(READER), sql.Literal(digest)))
    return make_conninfo(server, user=READER, password=password)


def take_own_role(conn: Connection) -> None:
    """Let who made the role rag_reader, and is no superuser, become it."""
    if conn.info.server_version >= 160000:
        conn.execute(TAKE_OWN)
