"""Apply the numbered migrations, each in one transaction with its row in the ledger."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from psycopg.errors import UndefinedTable

from obsidian_rag.adoption import check_tables
from obsidian_rag.errors import FIRST_RUN, SchemaError
from obsidian_rag.postgres import Connection
from obsidian_rag.roles import settle_roles

# Any number will do as long as every version of the program takes the same.
MIGRATION_LOCK = 7_266_531_204
LEDGER = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of migrations/. `checksum` is the SHA-256 of its text."""

    version: int
    name: str
    text: str
    checksum: str


def sql_folder() -> Path:
    """The folder that holds schema.sql and migrations/: the checkout's, or the installed package's."""
    package = Path(__file__).resolve().parent
    for folder in (package / "sql", package.parent):
        if (folder / "migrations").is_dir():
            return folder
    raise SchemaError("The SQL files of obsidian-rag are missing", "Install it again.")


def load_migrations() -> list[Migration]:
    """All migrations in order of their number."""
    found = []
    for file in sorted((sql_folder() / "migrations").glob("[0-9]*.sql")):
        text = file.read_text(encoding="utf-8")
        version, _, name = file.stem.partition("_")
        found.append(Migration(int(version), name, text, hashlib.sha256(text.encode()).hexdigest()))
    return found


def apply_migrations(conn: Connection) -> list[Migration]:
    """Bring a database to the present schema; return what was applied. `conn` is in autocommit mode.

    Each migration and its ledger row share a transaction, so that a kill leaves none half applied. Runs at
    the same time wait for one another. Raises SchemaError for a database newer than this program, or one
    whose tables are another program's.
    """
    migrations = load_migrations()
    if check_not_newer(conn) == migrations[-1].version:
        return []  # and no right to create anything is needed
    conn.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
    try:
        present = check_not_newer(conn)
        if present == 0:
            check_tables(conn)
        conn.execute(LEDGER)
        applied = [m for m in migrations if m.version > present]
        for migration in applied:
            with conn.transaction():
                conn.execute(migration.text)
                conn.execute(
                    "INSERT INTO schema_migrations (version, name, checksum) VALUES (%s, %s, %s)",
                    (migration.version, migration.name, migration.checksum),
                )
        if applied:
            with conn.transaction():
                settle_roles(conn)
        return applied
    finally:
        if not conn.closed:
            conn.execute("SELECT pg_advisory_unlock(%s)", (MIGRATION_LOCK,))


def check_not_newer(conn: Connection) -> int:
    """The applied version. Raises SchemaError where it is newer than this program."""
    present, known = applied_version(conn), load_migrations()[-1].version
    if present > known:
        raise SchemaError(
            f"The database has schema {present}, made by a newer obsidian-rag; this one knows {known}",
            "Upgrade: pip install --upgrade obsidian-rag",
        )
    return present


def applied_version(conn: Connection) -> int:
    """The number of the newest migration in the ledger, 0 without a ledger. Needs autocommit mode."""
    try:
        row = conn.execute("SELECT coalesce(max(version), 0) FROM schema_migrations").fetchone()
    except UndefinedTable:
        return 0
    return int(row[0]) if row else 0


def check_schema(conn: Connection) -> None:
    """Raise SchemaError unless the database has exactly the schema this program knows."""
    present, wanted = check_not_newer(conn), load_migrations()[-1].version
    if present < wanted:
        what = "holds no index yet" if present == 0 else f"has schema {present}, this program needs {wanted}"
        raise SchemaError(f"The database {what}", FIRST_RUN if present == 0 else "Run: obsidian-rag index")
