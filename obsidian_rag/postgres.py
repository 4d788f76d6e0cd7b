"""Connections to PostgreSQL: where the database is, who connects, and what went wrong in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from obsidian_rag.config import Settings, mask_password
from obsidian_rag.errors import DatabaseError, DatabaseUnavailable, DatabaseUnsuitable, SettingsError

Connection = psycopg.Connection[Any]

READER = "rag_reader"  # the role that can only read
CONNECT_TIMEOUT = 10  # seconds; a host that drops packets must not hang a tool call
# The server of an agent may sit idle for days behind a firewall that forgets connections.
KEEPALIVES = {"keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
MINIMUM_SERVER = 150000
MINIMUM_PGVECTOR = (0, 7)
LEAST_EF_SEARCH = 200  # recall of the HNSW graph; pgvector's 40 loses neighbours
MOST_EF_SEARCH = 1000  # pgvector's own limit


def locate(settings: Settings, create: bool = False, *, read_only: bool = False) -> str:
    """The conninfo of the index. With `create`, an embedded database that is missing is made; with
    `read_only`, an embedded server's is that of a role that can only read.

    Starts the embedded server if it is to be used and nobody has. Raises DatabaseUnavailable where the
    server cannot be had, SettingsError where no vault has been indexed in it.
    """
    if settings.database_url:
        return external_conninfo(settings.database_url)
    from obsidian_rag import embedded_index

    return embedded_index.locate(settings, create, read_only=read_only)


def connect(conninfo: str, *, read_only: bool = False, autocommit: bool = True) -> Connection:
    """A connection with vectors registered, fit for indexing, or for reading only.

    Raises DatabaseUnavailable or DatabaseUnsuitable with the mend.
    """
    conn = open_connection(conninfo)
    try:
        with mapped_errors(conninfo):
            prepare(conn, read_only=read_only)
            conn.autocommit = autocommit
    except BaseException:
        conn.close()
        raise
    return conn


# Since PostgreSQL 16 a member of a role may be kept from taking it.
MAY_TAKE_READER = """
SELECT 1 FROM pg_roles WHERE rolname = %s AND pg_has_role(current_user, oid,
    CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END)
"""


def prepare(conn: Connection, *, read_only: bool) -> None:
    """Make a fresh autocommit connection ready: the vector adapter and, for readers, no way to write.

    A reader takes the role rag_reader where it may, so that even a fault in this program cannot write.
    """
    from obsidian_rag.vector_adapters import register_vectors

    register_vectors(conn)
    if read_only:
        conn.execute("SET default_transaction_read_only = on")
        if conn.execute(MAY_TAKE_READER, (READER,)).fetchone():
            conn.execute("SET ROLE rag_reader")
    conn.execute("SELECT set_config('hnsw.ef_search', %s, false)", (str(LEAST_EF_SEARCH),))
    if pgvector_version(conn) >= (0, 8):
        # A filtered or hidden neighbour must not shorten an answer: the scan goes on until it is full.
        conn.execute("SET hnsw.iterative_scan = 'relaxed_order'")


def check_server(conn: Connection, conninfo: str) -> None:
    """Raise DatabaseUnsuitable where the server is too old or has no usable pgvector."""
    where = describe(conninfo)
    if conn.info.server_version < MINIMUM_SERVER:
        raise DatabaseUnsuitable(
            f"PostgreSQL {conn.info.server_version // 10000} of {where} is too old",
            "Use PostgreSQL 15 or later.",
        )
    row = conn.execute("SELECT default_version FROM pg_available_extensions WHERE name = 'vector'").fetchone()
    version = pgvector_version(conn) or (_version(row[0]) if row else ())
    if not version:
        raise DatabaseUnsuitable(
            f"The server of {where} has no pgvector",
            f"Install it there (Debian: postgresql-{conn.info.server_version // 10000}-pgvector).",
        )
    if version < MINIMUM_PGVECTOR:
        raise DatabaseUnsuitable(
            f"pgvector {'.'.join(map(str, version))} of {where} is too old",
            "Install 0.7 or later there; in a database that has it: ALTER EXTENSION vector UPDATE;",
        )


def pgvector_version(conn: Connection) -> tuple[int, ...]:
    """The version of the extension in this database, () where it is not created."""
    row = conn.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    return _version(row[0]) if row else ()


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", text))


@contextmanager
def mapped_errors(conninfo: str = "") -> Iterator[None]:
    """Turn psycopg's errors into ours: unavailable, unsuitable, or a failure with the server's own words."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as exc:
        raise DatabaseUnsuitable(
            f"No permission in the database: {_first_line(exc)}", _mend_permission(str(exc))
        ) from exc
    except psycopg.errors.ReadOnlySqlTransaction as exc:
        raise DatabaseUnsuitable(
            f"The database can only be read: {_first_line(exc)}", "Let DATABASE_URL name the primary server."
        ) from exc
    except psycopg.errors.DiskFull as exc:
        raise DatabaseUnavailable(
            f"The database's disk is full: {_first_line(exc)}", "Free space there and run the indexer again."
        ) from exc
    except psycopg.Error as exc:
        if not is_lost(exc):
            raise DatabaseError(f"The database refused: {_first_line(exc)}", "See its log.") from exc
        where = f" {describe(conninfo)}" if conninfo else ""
        raise DatabaseUnavailable(
            f"The connection to the database{where} was lost: {_first_line(exc)}", "Run the command again."
        ) from exc


def is_lost(exc: psycopg.Error) -> bool:
    """Whether an error means that the server or the way to it is gone, rather than that it refused."""
    if exc.sqlstate is not None:
        return exc.sqlstate.startswith(("08", "57P"))
    return isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError)


def _mend_permission(text: str) -> str:
    if "create extension" in text:
        return "Let a superuser run in it: CREATE EXTENSION vector;"
    if "for schema" in text:
        return "Let its owner run: GRANT CREATE, USAGE ON SCHEMA public TO your role;"
    return (
        "Connect as the tables' owner, or let the owner GRANT rag_indexer (rag_reader for the server) to your"
        " role."
    )


def external_conninfo(url: str) -> str:
    """DATABASE_URL as a conninfo with our defaults. Raises SettingsError."""
    try:
        given = conninfo_to_dict(url)
    except (psycopg.Error, UnicodeError) as exc:
        raise _unreadable(url) from exc
    parts = f"{given.get('host', '')}{given.get('dbname', '')}"
    if "://" in url and "@" in parts and "%40" not in url:
        raise _unreadable(url)  # an unescaped sign in the password made its rest a part of something else
    if not re.fullmatch(r"[\d,\s]*", str(given.get("port", ""))):
        raise _unreadable(url)  # a password in the place of the port: the host was forgotten
    defaults: dict[str, Any] = {
        "connect_timeout": CONNECT_TIMEOUT,
        "application_name": "obsidian-rag",
        **KEEPALIVES,
    }
    return make_conninfo(**{**defaults, **given})


def _unreadable(url: str) -> SettingsError:
    # libpq's own words may quote a part of the password.
    return SettingsError(
        f"DATABASE_URL cannot be read: {mask_password(url)}",
        "Write it as postgresql://user:password@host:5432/database, signs of the password like @ : / as"
        " %40 %3A %2F",
    )


def open_connection(conninfo: str) -> Connection:
    """A bare connection in autocommit mode. Raises DatabaseUnavailable, SettingsError."""
    try:
        return psycopg.connect(conninfo, autocommit=True)
    except psycopg.OperationalError as exc:
        raise DatabaseUnavailable(_explain(conninfo, str(exc)), _mend(str(exc))) from exc
    except (psycopg.Error, UnicodeError) as exc:
        raise _unreadable(conninfo) from exc


CONNECTION_MENDS: tuple[tuple[str, LiteralString], ...] = (
    ("password authentication failed", "Check the user and password in DATABASE_URL."),
    ("no password supplied", "Put the password into DATABASE_URL, or into ~/.pgpass."),
    ("no pg_hba.conf entry", "Let the server's pg_hba.conf admit this host and user."),
    ("permission denied for database", "Let its owner run: GRANT CONNECT ON DATABASE it TO your role;"),
    ("does not exist", "Create it (createdb, createuser) or correct DATABASE_URL."),
    ("too many clients", "Raise max_connections, or close programs that hold connections."),
    ("Connection refused", "Start PostgreSQL there, or correct host and port in DATABASE_URL."),
    ("resolve", "Correct the host in DATABASE_URL."),
    ("could not translate host name", "Correct the host in DATABASE_URL."),
    ("is not supported by server", "Check that PostgreSQL answers at host and port of DATABASE_URL."),
    ("invalid response", "Check that PostgreSQL answers at host and port of DATABASE_URL."),
    ("SSL", "Add ?sslmode=… to DATABASE_URL as the server demands."),
    ("timeout", "Check the host, the port and the firewall."),
    ("starting up", "Try again in a moment."),
)


def _mend(text: str) -> str:
    return next((mend for sign, mend in CONNECTION_MENDS if sign in text), "Check DATABASE_URL.")


def describe(conninfo: str) -> str:
    """A database as a message names it: 'notes' at user@host:5432."""
    known = conninfo_to_dict(conninfo)
    place = f"{known.get('host', 'localhost')}:{known.get('port', 5432)}"
    return f"{known.get('dbname', '')!r} at {known.get('user', '')}@{place}"


def _explain(conninfo: str, text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # With several attempts (IPv6, IPv4) the last one counts; its hints stand in lines of their own.
    reasons = [line for line in lines if "failed: " in line or "FATAL: " in line] or lines[:1]
    reason = re.sub(r"^.*?(failed: |FATAL: +)+", "", reasons[-1]) if reasons else "no reason given"
    return f"The database {describe(conninfo)} cannot be reached: {reason}"


def _first_line(exc: BaseException) -> str:
    return next(iter(str(exc).splitlines()), type(exc).__name__)
