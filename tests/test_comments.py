"""What schema.sql says of tables, views and columns is what psql shows of them."""

from __future__ import annotations

import re
from collections.abc import Callable

import psycopg
from conftest import Workbench

from obsidian_rag.migrate import apply_migrations, load_migrations, sql_folder
from obsidian_rag.postgres import connect

RELATION = re.compile(
    r"(?P<about>(?:^--.*\n)*)^CREATE (?P<kind>TABLE|VIEW) (?P<name>\w+)(?P<body>[\s\S]*?;)$", re.MULTILINE
)
COLUMN = {
    "TABLE": re.compile(r"^ {4}(?P<name>\w+) \S.*? -- (?P<about>.*)$", re.MULTILINE),
    "VIEW": re.compile(r"^ {8}(?:.* AS |[a-z]\.)?(?P<name>\w+),? +-- (?P<about>.*)$", re.MULTILINE),
}
COMMENTS = """
SELECT c.relname, coalesce(a.attname, ''), d.description
FROM pg_description d JOIN pg_class c ON c.oid = d.objoid AND d.classoid = 'pg_class'::regclass
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid AND a.attnum > 0
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v')
"""
REMARKS = re.compile(r"^ +.*[^-]-- ", re.MULTILINE)


def read_schema() -> dict[tuple[str, str], str]:
    """(Relation, column) to what schema.sql says of it; the column is "" for the relation itself."""
    said = {}
    for relation in RELATION.finditer((sql_folder() / "schema.sql").read_text("utf-8")):
        lines = [line.removeprefix("--").strip() for line in relation["about"].splitlines()]
        said[relation["name"], ""] = " ".join(lines)
        for column in COLUMN[relation["kind"]].finditer(relation["body"]):
            said[relation["name"], column["name"]] = column["about"]
    return said


def read_comments(url: str) -> dict[tuple[str, str], str]:
    with psycopg.connect(url) as conn:
        return {(row[0], row[1]): row[2] for row in conn.execute(COMMENTS).fetchall()}


def test_psql_says_of_each_relation_and_column_what_schema_sql_says(bench: Workbench) -> None:
    said = read_schema()
    assert len(said) > 130
    assert read_comments(bench.database_url) == said


def test_no_remark_of_schema_sql_is_overlooked() -> None:
    bodies = [m for m in RELATION.finditer((sql_folder() / "schema.sql").read_text("utf-8"))]
    remarks = sum(len(REMARKS.findall(relation["body"])) for relation in bodies)
    assert remarks == sum(bool(column) for _, column in read_schema())


def test_every_table_and_view_is_described(bench: Workbench) -> None:
    described = {relation for relation, column in read_comments(bench.database_url) if not column}
    present = bench.rows(
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'v') AND relnamespace = 'public'::regnamespace"
    )
    assert {row[0] for row in present} - described == {"schema_migrations"}


def test_a_comment_of_somebodys_own_stays(new_database: Callable[..., str]) -> None:
    url = new_database()
    first = load_migrations()[0]
    with connect(url) as conn:
        conn.execute(first.text)
        conn.execute("COMMENT ON COLUMN documents.content IS 'mine'")
        conn.execute("COMMENT ON TABLE documents IS 'mine too'")
        apply_migrations(conn)
    comments = read_comments(url)
    assert (comments["documents", "content"], comments["documents", ""]) == ("mine", "mine too")
    assert comments["documents", "heading"] == "of the section; NULL before the first heading"


def test_no_view_hangs_on_documents(bench: Workbench) -> None:
    """Else the embedder could not be changed."""
    views = bench.rows(
        "SELECT DISTINCT r.ev_class::regclass::text FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid"
        " WHERE d.classid = 'pg_rewrite'::regclass AND d.refobjid = 'documents'::regclass"
    )
    assert views == []
