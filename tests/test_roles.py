"""Who reads cannot write: the role, the server's connections, psql, and the files of the embedded server."""

from __future__ import annotations

import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import DIMENSIONS, Workbench, make_url
from embedded_bench import EmbeddedBench, make_embedded_bench
from ollama_double import OllamaDouble
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from obsidian_rag import embedded, embedded_home
from obsidian_rag.config import Settings
from obsidian_rag.drift import load_full_status
from obsidian_rag.errors import DatabaseUnsuitable
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.migrate import LEDGER, apply_migrations, load_migrations
from obsidian_rag.postgres import Connection, connect, locate
from obsidian_rag.render import render_status
from obsidian_rag.roles import admit_reader

RELATIONS = """
SELECT c.oid::regclass::text, a.attname
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = c.relnatts
WHERE c.relkind IN ('r', 'p', 'v', 'm') AND c.relnamespace = 'public'::regnamespace ORDER BY 1
"""
WRITES = (
    "INSERT INTO {table} DEFAULT VALUES",
    "UPDATE {table} SET {column} = NULL",
    "DELETE FROM {table}",
    "TRUNCATE {table}",
    "DROP TABLE {table}",
    "ALTER TABLE {table} RENAME TO other",
    "LOCK TABLE {table} IN EXCLUSIVE MODE",
)


def list_writes(conn: Connection) -> list[str]:
    """A statement of every kind for every table and view there is, and what makes something new."""
    relations = conn.execute(RELATIONS).fetchall()
    assert len(relations) > 15
    writes = [write.format(table=table, column=column) for table, column in relations for write in WRITES]
    return [*writes, "CREATE TABLE t (i INT)", "CREATE SCHEMA s", "CREATE ROLE r", "CREATE EXTENSION hstore"]


# A view of several tables takes no write from anybody.
REFUSALS = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.WrongObjectType,
    psycopg.errors.ObjectNotInPrerequisiteState,
)


def succeed(conn: Connection, statements: list[str]) -> list[str]:
    """The statements that are not refused, each tried alone and taken back."""
    done = []
    for statement in statements:
        try:
            with conn.transaction(force_rollback=True):
                conn.execute(statement)  # type: ignore[call-overload]
        except REFUSALS:
            continue
        except psycopg.Error as exc:
            statement += f": {exc}"
        done.append(statement)
    return done


def test_the_role_that_reads_can_write_nothing_even_in_transactions_that_may(bench: Workbench) -> None:
    with connect(bench.database_url, read_only=True) as conn:
        assert conn.execute("SELECT current_user").fetchone() == ("rag_reader",)
        conn.execute("SET default_transaction_read_only = off")
        assert succeed(conn, list_writes(conn)) == []
        conn.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("SELECT nextval('documents_id_seq')")


def test_the_statements_of_that_test_write_for_an_owner(bench: Workbench) -> None:
    with connect(bench.database_url) as conn:
        done = succeed(conn, ["DELETE FROM notes", "TRUNCATE documents", "CREATE TABLE t (i INT)"])
        assert len(done) == 3


def test_a_fault_of_the_server_cannot_write(bench: Workbench) -> None:
    reader = IndexReader(bench.settings, lambda text: None)
    try:
        for preparation in ("SELECT 1", "SET default_transaction_read_only = off"):

            def work(conn: Connection, preparation: str = preparation) -> None:
                conn.execute(preparation)  # type: ignore[call-overload]
                conn.execute("DELETE FROM notes")

            with pytest.raises(DatabaseUnsuitable):
                reader.run(work)
        assert reader.run(lambda conn: conn.execute("SHOW statement_timeout").fetchone()) == ("30s",)
    finally:
        reader.close()


@pytest.fixture
def new_login(server: str) -> Iterator[Callable[[str], str]]:
    """Makes a role that can log in, with these options; gives its name, which is its password too."""
    made: list[str] = []

    def make(options: str = "") -> str:
        made.append(f"login_{secrets.token_hex(4)}")
        with psycopg.connect(server, autocommit=True) as conn:
            command = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} " + options)  # type: ignore[operator]
            conn.execute(command.format(sql.Identifier(made[-1]), sql.Literal(made[-1])))
        return made[-1]

    yield make
    with psycopg.connect(server, autocommit=True) as conn:
        for name in made:
            conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def as_login(url: str, login: str) -> str:
    return make_url(url, user=login, password=login)


def migrate_until(conn: Connection, last: int) -> None:
    """Bring a database to an older schema, as the program of that time did."""
    conn.execute(LEDGER)
    for migration in load_migrations()[:last]:
        conn.execute(migration.text)  # type: ignore[call-overload]
        conn.execute(
            "INSERT INTO schema_migrations (version, name, checksum) VALUES (%s, %s, %s)",
            (migration.version, migration.name, migration.checksum),
        )


CLOSED = """
SELECT c.relname, r.rolname FROM pg_class c CROSS JOIN pg_roles r
WHERE c.relnamespace = 'public'::regnamespace AND CASE
    WHEN r.rolname = 'rag_reader' THEN c.relkind IN ('r', 'v') AND NOT has_table_privilege(r.oid, c.oid, 'SELECT')
    WHEN r.rolname = 'rag_indexer' THEN
        c.relkind IN ('r', 'v') AND NOT (has_table_privilege(r.oid, c.oid, 'SELECT')
            AND has_table_privilege(r.oid, c.oid, 'INSERT') AND has_table_privilege(r.oid, c.oid, 'TRUNCATE'))
        OR c.relkind = 'S' AND NOT has_sequence_privilege(r.oid, c.oid, 'USAGE') END
"""  # noqa: E501


def test_new_tables_of_an_upgrade_are_open_to_the_roles_whoever_upgrades(
    database_url: str, new_login: Callable[[str], str]
) -> None:
    owner = new_login("")
    with connect(database_url) as conn:
        conn.execute("CREATE EXTENSION vector")
        conn.execute(sql.SQL("GRANT ALL ON SCHEMA public TO {}").format(sql.Identifier(owner)))
        conn.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(owner)))
        migrate_until(conn, 5)
        conn.execute("RESET ROLE")
        assert apply_migrations(conn)
        assert conn.execute(CLOSED).fetchall() == []
        owners = "SELECT count(DISTINCT relowner) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        assert conn.execute(owners).fetchone() == (2,)
        conn.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(owner)))


def test_a_table_that_took_the_place_of_another_has_the_same_rights(bench: Workbench) -> None:
    bench.vault.write("A.md", "text\n")
    bench.index()
    assert bench.index(reembed=True).status == "ok"
    with connect(bench.database_url, read_only=True) as conn:
        assert conn.execute(CLOSED).fetchall() == []
        conn.execute("SET default_transaction_read_only = off")
        assert succeed(conn, list_writes(conn)) == []


def test_a_login_that_may_not_become_the_role_reads_as_itself_and_the_status_says_so(
    bench: Workbench, new_login: Callable[[str], str]
) -> None:
    bench.vault.write("A.md", "text\n")
    bench.index()
    login = new_login("IN ROLE rag_indexer")
    with connect(bench.database_url, read_only=True) as conn:
        status = load_full_status(conn, bench.settings)
        assert status["reader"] == {"role": "rag_reader", "may_write": False}
        assert "Reads as" not in render_status(status)
    with connect(as_login(bench.database_url, login), read_only=True) as conn:
        status = load_full_status(conn, bench.settings)
        assert status["reader"] == {"role": login, "may_write": True}
        assert f"Reads as: {login}, which may also write" in render_status(status)
    with connect(as_login(bench.database_url, login), read_only=True) as conn:
        assert conn.execute("SELECT current_user").fetchone() == (login,)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            conn.execute("DELETE FROM notes")


def test_who_made_the_role_and_may_not_take_it_yet_can_after_a_migration(
    database_url: str, new_login: Callable[[str], str], migrated: str
) -> None:
    """On a managed PostgreSQL 16 who makes a role is given it so."""
    maker = new_login("")
    with connect(database_url) as conn:
        if conn.info.server_version < 160000:
            pytest.skip("a member may always take a role there")
        conn.execute("CREATE EXTENSION vector")
        name = sql.Identifier(maker)
        conn.execute(sql.SQL("GRANT ALL ON SCHEMA public TO {}").format(name))
        conn.execute(sql.SQL("GRANT rag_reader TO {} WITH ADMIN TRUE, SET FALSE, INHERIT FALSE").format(name))
    url = as_login(database_url, maker)
    with connect(url, read_only=True) as conn:
        assert conn.execute("SELECT current_user").fetchone() == (maker,)
    with connect(url) as conn:
        assert apply_migrations(conn)
    with connect(url, read_only=True) as conn:
        assert conn.execute("SELECT current_user, count(*) FROM notes").fetchone() == ("rag_reader", 0)
    with connect(database_url) as conn:
        conn.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(maker)))


# --- the embedded server -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def embedded_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBench]:
    with OllamaDouble(dimensions=DIMENSIONS) as ollama:
        bench = make_embedded_bench(tmp_path_factory.mktemp("embedded"), ollama)
        embedded.acquire(bench.home)
        yield bench
        embedded.release(bench.home)


def ask_as_reader(bench: EmbeddedBench, statement: str) -> Any:
    settings = Settings(data_dir=bench.home)
    with connect(locate(settings, read_only=True), read_only=True) as conn:
        return conn.execute(statement).fetchone()  # type: ignore[call-overload]


def test_in_the_embedded_server_no_statement_leads_back_to_the_superuser(
    embedded_bench: EmbeddedBench,
) -> None:
    assert ask_as_reader(embedded_bench, "SELECT session_user, current_user") == ("rag_reader", "rag_reader")
    settings = Settings(data_dir=embedded_bench.home)
    with connect(locate(settings, read_only=True), read_only=True) as conn:
        conn.execute("SET default_transaction_read_only = off")
        for statement in ("SET ROLE postgres", "SET SESSION AUTHORIZATION postgres", "SET ROLE rag_indexer"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(statement)  # type: ignore[call-overload]
        conn.execute("RESET ROLE")
        assert succeed(conn, list_writes(conn)) == []


def test_the_reading_login_follows_the_password_of_the_superuser(embedded_bench: EmbeddedBench) -> None:
    server = embedded.acquire(embedded_bench.home)
    first = admit(server)
    assert first == admit(server)
    known = conninfo_to_dict(first)
    assert known["password"] != conninfo_to_dict(server)["password"]
    other = psycopg.conninfo.make_conninfo(server, password="another")
    try:
        with psycopg.connect(server, autocommit=True) as conn:
            with psycopg.connect(admit_reader(conn, other)) as reader:
                assert reader.execute("SELECT current_user").fetchone() == ("rag_reader",)
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                psycopg.connect(first)
    finally:
        assert admit(server) == first


def admit(server: str) -> str:
    with psycopg.connect(server, autocommit=True) as conn:
        conninfo = admit_reader(conn, server)
    psycopg.connect(conninfo).close()
    return conninfo


def test_the_embedded_server_is_closed_to_other_machines_and_accounts(embedded_bench: EmbeddedBench) -> None:
    process = embedded_bench.server_process()
    assert process is not None
    listening = [c.laddr.ip for c in process.net_connections("inet") if c.status == "LISTEN"]
    assert set(listening) == {"127.0.0.1"}
    assert [c for c in process.net_connections("unix") if c.laddr] == []

    site = embedded_home.locate(embedded_home.canonical(embedded_bench.home))
    assert mode_of(site.password) == 0o600
    assert len(site.password.read_text("ascii")) >= 32
    assert mode_of(site.data) == 0o700
    assert mode_of(site.log) == 0o600
    said = site.log.read_text("utf-8", "replace")
    assert "SCRAM" not in said
    assert site.password.read_text("ascii") not in said
    rules = (site.data / "pg_hba.conf").read_text("utf-8")
    methods = {line.split()[-1] for line in rules.splitlines() if line.strip() and not line.startswith("#")}
    assert methods == {"scram-sha-256"}


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- psql --------------------------------------------------------------------------------------------


def test_psql_reads_unless_it_is_told_to_write(embedded_bench: EmbeddedBench) -> None:
    shown = "SELECT current_user, current_setting('transaction_read_only')"
    asked = embedded_bench.run("psql", "--", "-At", "-c", shown, "-c", "DELETE FROM notes")
    assert (asked.returncode, asked.stdout) == (1, "rag_reader|on\n")
    assert "cannot execute DELETE in a read-only transaction" in asked.stderr
    forced = ("-c", "SET default_transaction_read_only = off", "-c", "DELETE FROM notes")
    refused = embedded_bench.run("psql", "--", *forced)
    assert "permission denied for table notes" in refused.stderr
    written = embedded_bench.run("psql", "--write", "--", "-At", "-c", "CREATE TABLE own (i INT)")
    assert (written.returncode, written.stderr) == (0, "")
