"""The migrations: equal to schema.sql, safe to run again and side by side, frozen once shipped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from conftest import Workbench

from obsidian_rag.errors import SchemaError
from obsidian_rag.migrate import apply_migrations, check_schema, load_migrations, sql_folder
from obsidian_rag.postgres import connect

# A migration that was shipped is never changed: a database that has it would not have the change. Whoever
# adds one adds its hash here when it ships.
SHIPPED = {
    1: "a31adb602ad890761270a1d3a85873d21493328754eccf96885e9081374cc766",
    2: "b68019c1df544de688cd3c54e7aa0c60194f39f8da6c06f95bdbc5e88a389f60",
    3: "b6bac6976782d0c43823b138bd4e2301e6285a4c78a6580c540106c6f54d0ea5",
    4: "5d4dc5abb33df6caa1f6acf62296168787b7b289e44ffd7e0e6f397d131775a0",
    5: "55e02e9cfaa54540b931b3e2cd1b1ca1b4342d7d278e177249077e167c73b1f2",
    6: "81be787029b5fb24dd0fa216972ab468d2f6f139c5889046c5df94dbb152d2d6",
    7: "221da4d7089250a659ecfb0527cdfab4129cb23864f971ea90d20919e6fa23ab",
    8: "2c2cc78178c2eb1e5c48abfc05ee9be596e73e45af28c56e072e80b3fe1b9dbe",
    9: "da6616433128685576e39c90fd4feb3f740366f039ef17b98dc1418fe7974017",
    10: "747196802298da6ca2c035bfca604bde68c6a6601e7dc0a587ebbd1c9eb0d756",
    11: "d039d75c26a99de5fdfede57e4acb13e5584744a75b5f939bd73aefead162f2e",
}

CATALOGS = {
    "columns": """
        SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
               a.attidentity, a.attgenerated, pg_get_expr(d.adbin, d.adrelid), co.collname
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        LEFT JOIN pg_collation co ON co.oid = a.attcollation
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v') AND a.attnum > 0
            AND NOT a.attisdropped ORDER BY 1, 2""",
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 2",
    "constraints": """
        SELECT conrelid::regclass::text, conname, contype, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2""",
    "views": "SELECT viewname, definition FROM pg_views WHERE schemaname = 'public' ORDER BY 1",
    "sequences": "SELECT sequencename, data_type::text FROM pg_sequences ORDER BY 1",
    "functions": """
        SELECT proname, pg_get_functiondef(oid) FROM pg_proc p WHERE pronamespace = 'public'::regnamespace
            AND prokind IN ('f', 'p')
            AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.objid = p.oid AND e.deptype = 'e')
        ORDER BY 1""",
    "extensions": "SELECT extname FROM pg_extension ORDER BY 1",
}


def read_catalogs(url: str) -> dict[str, list[tuple[Any, ...]]]:
    with psycopg.connect(url) as conn:
        read = {name: conn.execute(query).fetchall() for name, query in CATALOGS.items()}  # type: ignore[call-overload]
    return {
        name: [row for row in rows if not any("schema_migrations" in str(value) for value in row)]
        for name, rows in read.items()
    }


def migrate(url: str) -> list[int]:
    with connect(url) as conn:
        return [migration.version for migration in apply_migrations(conn)]


def test_schema_sql_says_what_the_migrations_make(new_database: Callable[..., str]) -> None:
    described, made = new_database(), new_database()
    with psycopg.connect(described) as conn:
        conn.execute((sql_folder() / "schema.sql").read_text("utf-8"))  # type: ignore[call-overload]
    migrate(made)

    expected, found = read_catalogs(described), read_catalogs(made)

    assert expected["columns"]
    for name in CATALOGS:
        assert found[name] == expected[name], name


def test_rows_that_the_migrations_make_are_described_too(new_database: Callable[..., str]) -> None:
    """A table of one row must have it either way."""
    described, made = new_database(), new_database()
    with psycopg.connect(described) as conn:
        conn.execute((sql_folder() / "schema.sql").read_text("utf-8"))  # type: ignore[call-overload]
    migrate(made)
    for table in {row[0] for row in read_catalogs(made)["columns"]} - {"table_sizes"}:  # has the ledger too
        counts = []
        for url in (described, made):
            with psycopg.connect(url) as conn:
                counts.append(conn.execute(f"SELECT count(*) FROM {table}").fetchone())  # noqa: S608
        assert counts[0] == counts[1], table


def test_every_column_in_schema_sql_has_a_comment_unless_its_name_says_all() -> None:
    text = (sql_folder() / "schema.sql").read_text("utf-8")
    assert all(len(line) <= 110 for line in text.splitlines())
    for table in text.split("CREATE TABLE ")[1:]:
        assert "-- " in table.split(");")[0], table.split()[0]


def test_migrations_run_twice_without_harm(bench: Workbench) -> None:
    bench.vault.write("A.md", "# A\n\nText. [[B]]\n")
    bench.index()
    tables, catalogs = bench.tables(), read_catalogs(bench.database_url)

    assert migrate(bench.database_url) == []
    bench.execute("DELETE FROM schema_migrations")  # as after a restore without the ledger
    assert migrate(bench.database_url) == [m.version for m in load_migrations()]

    assert (bench.tables(), read_catalogs(bench.database_url)) == (tables, catalogs)
    assert bench.index().notes_unchanged == 1


def test_twenty_installs_at_once_all_succeed(database_url: str) -> None:
    start = threading.Barrier(20)
    applied: list[list[int]] = []
    failed: list[Exception] = []

    def install() -> None:
        try:
            with connect(database_url) as conn:
                start.wait()
                applied.append([migration.version for migration in apply_migrations(conn)])
        except Exception as exc:
            failed.append(exc)

    threads = [threading.Thread(target=install) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    assert sorted(applied)[:19] == [[]] * 19
    assert sorted(applied)[19] == [m.version for m in load_migrations()]


def test_databases_of_one_server_can_be_made_at_once(new_database: Callable[..., str]) -> None:
    """Roles belong to the server: two databases may want to make the same one at the same moment."""
    urls = [new_database() for _ in range(4)]
    with psycopg.connect(urls[0], autocommit=True) as conn:
        conn.execute("SELECT 1")
    failed: list[Exception] = []

    def install(url: str) -> None:
        try:
            migrate(url)
        except Exception as exc:
            failed.append(exc)

    threads = [threading.Thread(target=install, args=(url,)) for url in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_a_failing_migration_leaves_nothing_half_done(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obsidian_rag import migrate as module

    known = load_migrations()
    last = known[-1].version + 1
    text = "CREATE TABLE half_done (id INTEGER); SELECT 1 / 0;"
    bad = module.Migration(last, "bad", text, "0" * 64)
    monkeypatch.setattr(module, "load_migrations", lambda: [*known, bad])

    with connect(database_url) as conn, pytest.raises(psycopg.errors.DivisionByZero):
        apply_migrations(conn)

    with psycopg.connect(database_url) as conn:
        assert conn.execute("SELECT to_regclass('half_done')").fetchone() == (None,)
        assert conn.execute("SELECT max(version) FROM schema_migrations").fetchone() == (last - 1,)
        assert conn.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (0,)


def test_a_database_of_a_newer_program_is_refused(bench: Workbench) -> None:
    bench.vault.write("A.md", "Text.\n")
    bench.index()
    bench.execute("INSERT INTO schema_migrations (version, name, checksum) VALUES (9999, 'future', '')")
    before = bench.tables()

    for dry_run in (True, False):
        with pytest.raises(
            SchemaError, match=r"schema 9999, made by a newer obsidian-rag.*pip install --upgrade"
        ):
            bench.index(dry_run=dry_run)
    with connect(bench.database_url) as conn, pytest.raises(SchemaError, match="newer"):
        check_schema(conn)
    assert bench.tables() == before


def test_a_reader_of_a_database_without_index_is_told_to_make_one(database_url: str) -> None:
    with (
        connect(database_url, read_only=True) as conn,
        pytest.raises(SchemaError, match="obsidian-rag index"),
    ):
        check_schema(conn)


def test_migrations_are_numbered_without_gap_and_named_by_what_they_do() -> None:
    migrations = load_migrations()
    assert [m.version for m in migrations] == list(range(1, len(migrations) + 1))
    assert all(m.name.replace("_", "").isalpha() for m in migrations)


def test_shipped_migrations_are_unchanged() -> None:
    present = {m.version: m.checksum for m in load_migrations()}
    assert SHIPPED
    assert {version: present.get(version) for version in SHIPPED} == SHIPPED


def test_migrations_never_make_a_password_nor_drop_what_people_query() -> None:
    for migration in load_migrations():
        text = migration.text.upper()
        assert "PASSWORD" not in text, migration.name
        assert "DROP TABLE" not in text, migration.name
        assert "DROP COLUMN" not in text, migration.name


def test_the_reader_role_can_read_everything_and_write_nothing(bench: Workbench) -> None:
    rights = """
        SELECT relname, has_table_privilege('rag_reader', oid, 'SELECT'),
            has_table_privilege('rag_reader', oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
        FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v')"""
    rows = bench.rows(rights)
    assert len(rows) > 8
    assert [row for row in rows if row[1:] != (True, False)] == []
