"""Checks of the database: there, new enough, whole, closed to those who must not write, and quick."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from obsidian_rag.config import Settings
from obsidian_rag.counts import choose
from obsidian_rag.doctor.examination import Examination, Patient
from obsidian_rag.doctor.report import Finding, fail, ok, skip, warn
from obsidian_rag.errors import FIRST_RUN, SettingsError
from obsidian_rag.ledger import load_reembedding, load_settings_row
from obsidian_rag.migrate import check_schema, load_migrations
from obsidian_rag.postgres import Connection, check_server, connect, describe, locate, pgvector_version
from obsidian_rag.schema_text import list_indexes, list_tables
from obsidian_rag.search.vector import explain_nearest
from obsidian_rag.vector_column import CREATE_VECTOR_INDEX, VECTOR_INDEX, name_vector_index, vector_dimensions

STATEMENT_TIMEOUT = "20s"
START_PATIENCE = 300.0  # an embedded server that was killed may recover for minutes before it answers
FULL_SCAN_CHUNKS = 5000  # up to so many, reading all chunks may well be quicker than the vector index
LEAST_FREE = 200_000_000  # bytes, under which a run of the indexer is likely to fail
PSQL = 'Run: obsidian-rag psql --write -- -c "{}"'


def check_connection(patient: Patient) -> Finding:
    """Connect as the server does: to read only."""
    settings = patient.settings
    if not settings.database_url:
        _check_embedded(settings)
    patient.conninfo = locate(settings, read_only=True)
    patient.conn = connect(patient.conninfo, read_only=True)
    patient.conn.execute("SELECT set_config('statement_timeout', %s, false)", (STATEMENT_TIMEOUT,))
    kind = "" if settings.database_url else ", the embedded server"
    return ok(f"{describe(patient.conninfo)}{kind}")


def _check_embedded(settings: Settings) -> None:
    """Raise SettingsError where the embedded server was never started: asking it would make it."""
    from obsidian_rag import embedded, embedded_home, embedded_index

    if embedded.is_installed() and not embedded_home.was_made(settings.data_dir or embedded.default_home()):
        raise SettingsError(
            "DATABASE_URL is not set and nothing was ever indexed in the embedded PostgreSQL",
            embedded_index.tell_first_run(settings.vaults),
        )


def check_version(patient: Patient) -> Finding:
    """The server's version, and that of pgvector that is to be had."""
    check_server(patient.database, patient.conninfo)
    return ok(f"PostgreSQL {str(patient.database.info.parameter_status('server_version')).split(' ')[0]}")


def check_pgvector(patient: Patient) -> Finding:
    """Whether the extension is created here, and whether its version scans on for filtered searches."""
    version = pgvector_version(patient.database)
    text = ".".join(map(str, version))
    if not version:
        return fail(
            "pgvector is not created in this database",
            f"{FIRST_RUN} (or let a superuser run: CREATE EXTENSION vector;)",
        )
    if version < (0, 8):
        return warn(
            f"pgvector {text} works, but a search with a filter may find fewer notes than there are",
            "Install pgvector 0.8 or later, then: "
            + PSQL.format("ALTER EXTENSION vector UPDATE").removeprefix("Run: "),
        )
    return ok(f"pgvector {text}")


def check_schema_version(patient: Patient) -> Finding:
    """Whether the schema is the one this program knows, made by the very migrations it comes with."""
    conn = patient.database
    check_schema(conn)
    applied = dict(conn.execute("SELECT version, checksum FROM schema_migrations").fetchall())
    changed = [m for m in load_migrations() if applied.get(m.version) not in (m.checksum, None)]
    patient.row, patient.begun = load_settings_row(conn), load_reembedding(conn)
    if changed:
        return warn(
            f"Migration {changed[0].version} ({changed[0].name}) was another text when it was applied",
            "Install the release of obsidian-rag that made this index, or make it anew in a new database.",
        )
    return ok(f"schema {max(applied)}, up to date")


BROKEN_INDEXES = """
SELECT c.relname, t.relname FROM pg_index i
JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
WHERE i.indrelid = ANY(SELECT to_regclass(name) FROM unnest(%s::text[]) AS name)
    AND NOT (i.indisvalid AND i.indisready)
"""
PRESENT_INDEXES = """
SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = ANY(SELECT to_regclass(name) FROM unnest(%s::text[]) AS name)
"""


def check_indexes(patient: Patient) -> list[Finding]:
    """Whether every index of the schema is there and valid."""
    conn, tables = patient.database, list_tables()
    wanted = list_indexes()
    present = {row[0] for row in conn.execute(PRESENT_INDEXES, (tables,)).fetchall()}
    found = [
        fail(
            f"The index {name} of {table} is invalid, so it is not used", PSQL.format(f"REINDEX INDEX {name}")
        )
        for name, table in conn.execute(BROKEN_INDEXES, (tables,)).fetchall()
    ]
    for name in sorted(set(wanted) - present):
        statement = _vector_index(conn) if name == VECTOR_INDEX else wanted[name]
        found.append(fail(f"The index {name} is missing, so searches are slow", PSQL.format(statement)))
    return found or [ok(f"all {len(wanted)} indexes are there and valid")]


def _vector_index(conn: Connection) -> str:
    """What makes the vector index anew, by the dimensions of the vectors."""
    parts = name_vector_index("documents", VECTOR_INDEX, vector_dimensions(conn))
    # Plain names, which need no quotes; inside the shell's they would end those.
    return " ".join(CREATE_VECTOR_INDEX.format(**parts).as_string(conn).replace('"', "").split())


def check_vector_index(patient: Patient) -> Finding:
    """Whether a search like those of the server is answered from the HNSW index."""
    conn = patient.database
    dimensions = vector_dimensions(conn)
    if dimensions < 1:
        return fail(
            "The column documents.embedding has no dimensions, so that no index can be made on it",
            "Run: obsidian-rag index --reembed",
        )
    probe = np.full(dimensions, dimensions**-0.5, dtype=np.float32)
    if _uses_index(explain_nearest(conn, probe)):
        return ok("a search for near chunks uses the HNSW index")
    row = conn.execute("SELECT count(*) FROM documents").fetchone()
    chunks = int(row[0]) if row else 0
    if not _uses_index(explain_nearest(conn, probe, must_use_index=True)):
        return fail(
            f"A search for near chunks cannot use the HNSW index and reads {_tell_all(chunks)}",
            PSQL.format(f"DROP INDEX IF EXISTS {VECTOR_INDEX}; {_vector_index(conn)}"),
        )
    if chunks > FULL_SCAN_CHUNKS:
        return warn(
            f"A search for near chunks reads {_tell_all(chunks)}, although the HNSW index could be used",
            PSQL.format("ANALYZE documents"),
        )
    return ok(f"the HNSW index is usable; of so few chunks ({chunks}) all are read, which is quicker")


def _tell_all(chunks: int) -> str:
    return choose(chunks, "the only chunk", f"all {chunks} chunks")


def _uses_index(plan: str) -> bool:
    return f'"Index Name": "{VECTOR_INDEX}"' in plan


RIGHTS = """
SELECT current_user, %(login)s::name, current_setting('transaction_read_only') = 'on',
       coalesce(array_agg(name ORDER BY name) FILTER (WHERE NOT has_table_privilege(current_user, name, 'SELECT')), '{}'),
       coalesce(array_agg(name ORDER BY name) FILTER (
           WHERE has_table_privilege(current_user, name, 'INSERT, UPDATE, DELETE, TRUNCATE')), '{}'),
       coalesce(array_agg(name ORDER BY name) FILTER (
           WHERE NOT (has_table_privilege(%(login)s::name, name, 'INSERT')
                  AND has_table_privilege(%(login)s::name, name, 'UPDATE')
                  AND has_table_privilege(%(login)s::name, name, 'DELETE'))), '{}')
FROM unnest(%(tables)s::text[]) AS name WHERE to_regclass(name) IS NOT NULL
HAVING count(*) > 0
"""  # noqa: E501


def _load_rights(patient: Patient) -> tuple[Any, ...] | None:
    """RIGHTS of the role that reads, and of the login that the indexer uses; None where there is no table."""
    login = conninfo_to_dict(locate(patient.settings)).get("user") or patient.database.info.user
    return patient.database.execute(RIGHTS, {"login": login, "tables": list_tables()}).fetchone()


NO_TABLES = skip("there are no tables yet", FIRST_RUN)


def check_reading_role(patient: Patient) -> Finding:
    """Whether the role that the server reads as can read all tables, and write none."""
    row = _load_rights(patient)
    if row is None:
        return NO_TABLES
    role, login, is_read_only, unreadable, writable, _ = row
    if unreadable:
        return fail(
            f"The server reads as {role}, which may not read {', '.join(unreadable)}",
            f"Let the owner of the tables run: GRANT SELECT ON {', '.join(unreadable)} TO {_quote(role)};",
        )
    if not is_read_only:
        return fail(f"The server's transactions as {role} are not read-only", "Please report it.")
    if writable:
        return warn(
            f"The server reads as {role}, which may also write; only its read-only transactions prevent that",
            f"Let a superuser run: GRANT rag_reader TO {_quote(login)}; (where there is no such role, first:"
            " CREATE ROLE rag_reader; and the grants of migrations/0004_roles.sql)",
        )
    return ok(f"the server reads as {role}, which cannot write")


def _quote(role: str) -> str:
    return sql.Identifier(role).as_string()


def check_writing_role(patient: Patient) -> Finding:
    """Whether the login of the settings may run the indexer."""
    row = _load_rights(patient)
    if row is None:
        return NO_TABLES
    login, closed = row[1], row[5]
    if closed:
        return warn(
            f"{login} may not write {', '.join(closed)}: enough for the server, not for the indexer",
            f"To index with this login, let the tables' owner run: GRANT rag_indexer TO {_quote(login)};",
        )
    return ok(f"{login} may run the indexer")


def check_disk_room(patient: Patient) -> Finding:
    """How much room is left where the database lies; told only where that is on this machine for sure."""
    row = patient.database.execute("SELECT pg_database_size(current_database())").fetchone()
    size = int(row[0]) if row else 0
    if patient.settings.database_url:
        return skip(
            f"the disk of the server cannot be seen from here (the database takes {_megabytes(size)})",
            "Look there: df -h",
        )
    from obsidian_rag import embedded, embedded_home

    home = embedded_home.canonical(patient.settings.data_dir or embedded.default_home())
    folder = embedded_home.locate(home).data
    free = shutil.disk_usage(folder if os.access(folder, os.X_OK) else folder.parent).free
    text = f"{_megabytes(free)} free at {folder.parent}, the index takes {_megabytes(size)}"
    if free < LEAST_FREE:
        return fail(f"Nearly no room is left: {text}", "Free some, or move the data with --data-dir.")
    if free < size:
        return warn(
            f"Little room is left: {text}", "Embedding anew needs as much again; free some before that."
        )
    return ok(text)


def _megabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


STATISTICS = """
SELECT c.relname, c.reltuples::bigint, coalesce(s.n_dead_tup, 0)
FROM pg_class c LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
WHERE c.oid = ANY(SELECT to_regclass(name) FROM unnest(%s::text[]) AS name) ORDER BY c.relname
"""
COUNT = sql.SQL("SELECT count(*) FROM {}")
AUTOVACUUM_COMES = 600.0  # seconds after a run; it looks round once a minute
SMALL_TABLE = 1000  # rows, under which the planner does well enough without statistics
OFF_BY = 2.0  # times the rows that the planner believes in, more or fewer
DEAD_SHARE = 0.5  # of all rows; autovacuum comes at a fifth


def check_statistics(patient: Patient) -> list[Finding]:
    """Whether the planner knows about how many rows there are, and whether dead ones are cleared away."""
    conn, tables = patient.database, list_tables()
    stale, bloated = [], []
    for table, believed, dead in conn.execute(STATISTICS, (tables,)).fetchall():
        row = conn.execute(COUNT.format(sql.Identifier(table))).fetchone()
        rows = int(row[0]) if row else 0
        if rows >= SMALL_TABLE and not rows / OFF_BY <= believed <= rows * OFF_BY:
            stale.append((table, f"{table} ({'never analyzed' if believed < 0 else believed}, has {rows})"))
        if dead >= SMALL_TABLE and dead > DEAD_SHARE * (rows + dead):
            bloated.append(table)
    found = []
    good = patient.standing["last_good_run"]
    autovacuum = conn.execute("SELECT current_setting('autovacuum') = 'on'").fetchone()
    if stale and autovacuum == (True,) and good and good["age_seconds"] < AUTOVACUUM_COMES:
        waiting = ", ".join(table for table, _ in stale)
        found.append(ok(f"autovacuum has yet to count the rows of {waiting} since the last run"))
    elif stale:
        found.append(
            warn(
                f"The planner's numbers of rows are out of date: {', '.join(text for _, text in stale)}",
                PSQL.format(f"ANALYZE {', '.join(table for table, _ in stale)}"),
            )
        )
    if bloated:
        found.append(
            warn(
                f"More than half of {', '.join(bloated)} {choose(len(bloated), 'is', 'are')} dead rows",
                PSQL.format(f"VACUUM ANALYZE {', '.join(bloated)}"),
            )
        )
    return found or [ok("the planner's numbers of rows are about right")]


CONNECTED = ("connection",)
KNOWN = ("connection", "schema")
CHECKS: Sequence[Examination] = (
    Examination("database", "connection", check_connection, patience=START_PATIENCE),
    Examination("database", "version", check_version, CONNECTED),
    Examination("database", "pgvector", check_pgvector, CONNECTED),
    Examination("database", "reading role", check_reading_role, CONNECTED),
    Examination("database", "writing role", check_writing_role, CONNECTED),
    Examination("database", "schema", check_schema_version, CONNECTED),
    Examination("database", "indexes", check_indexes, KNOWN),
    Examination("database", "vector index", check_vector_index, KNOWN),
    Examination("database", "statistics", check_statistics, KNOWN, patience=60),
    Examination("database", "disk room", check_disk_room, CONNECTED),
)
