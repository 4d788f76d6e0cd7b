"""Indexes that are taken away while an empty index fills, and made again when it is full."""

from __future__ import annotations

import psycopg
import pytest
from conftest import Workbench
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from obsidian_rag import index_builds
from obsidian_rag.errors import EmbedderError
from obsidian_rag.postgres import connect
from obsidian_rag.progress import SilentProgress

INDEXES = """
SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1
"""


def fill(bench: Workbench, count: int) -> None:
    for number in range(count):
        bench.vault.write(
            f"Note {number}.md", f"---\naliases: [Alias {number}]\n---\nword{number} [[Note 0]]\n"
        )


@pytest.fixture
def many(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    """A vault of so many notes that the indexes are made at the end."""
    monkeypatch.setattr(index_builds, "LEAST_NOTES", 10)
    fill(bench, 12)
    return bench


def watch_builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many indexes were withdrawn each time that they are made again."""
    seen: list[int] = []
    restore = index_builds.restore_indexes

    def watched(conn: psycopg.Connection, progress: SilentProgress) -> None:
        row = conn.execute(index_builds.COUNT).fetchone()
        seen.append(row[0] if row else 0)
        restore(conn, progress)

    monkeypatch.setattr(index_builds, "restore_indexes", watched)
    return seen


def test_an_empty_index_is_filled_without_indexes_and_ends_with_all_of_them(
    many: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    many.execute("CREATE INDEX \"my own, with 'signs'\" ON documents (lower(heading)) WHERE heading <> ''")
    assert many.index().status == "ok"  # so that the vectors have their width
    before = many.rows(INDEXES)
    many.execute("TRUNCATE documents, notes, note_links, link_mentions, postings, note_names, link_names")
    many.execute("UPDATE keyword_stats SET notes = 0, chunks = 0, note_length = 0, chunk_length = 0")
    seen = watch_builds(monkeypatch)

    report = many.index()

    assert (report.status, report.notes_indexed) == ("ok", 12)
    assert max(seen) >= 10
    assert many.rows(INDEXES) == before
    assert many.rows("SELECT * FROM withdrawn_indexes") == []
    assert many.found("word7")[0] == "Note 7.md"


def test_few_notes_or_notes_beside_others_come_in_with_the_indexes_in_place(
    many: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    many.index()
    seen = watch_builds(monkeypatch)
    fill(many, 40)
    assert many.index().notes_indexed == 28
    assert max(seen) == 0


def test_what_a_killed_run_took_away_is_found_and_the_next_run_makes_it_again(many: Workbench) -> None:
    many.index()
    before = many.rows(INDEXES)
    with connect(many.database_url) as conn:
        index_builds.withdraw_indexes(conn)
    assert len(many.rows(INDEXES)) < len(before)
    for mode in ("keyword", "vector", "hybrid"):
        assert many.found("word7", mode)[0] == "Note 7.md"

    assert many.index().notes_unchanged == 12
    assert many.rows(INDEXES) == before


def test_a_run_that_loses_its_embedder_leaves_the_indexes_in_place(many: Workbench) -> None:
    many.index()
    before = many.rows(INDEXES)
    many.execute("TRUNCATE documents, notes, note_links, link_mentions, postings, note_names, link_names")
    many.ollama.always = "unauthorized"
    with pytest.raises(EmbedderError):
        many.index()
    assert many.rows(INDEXES) == before


def test_who_does_not_own_the_tables_leaves_the_indexes_alone(many: Workbench) -> None:
    many.index()
    before = many.rows(INDEXES)
    role = "writer_" + str(conninfo_to_dict(many.database_url)["dbname"])
    many.execute(f"CREATE ROLE {role} IN ROLE rag_indexer")
    try:
        with connect(many.database_url) as conn:
            conn.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
            index_builds.withdraw_indexes(conn)
        assert many.rows(INDEXES) == before
    finally:
        many.execute(f"DROP ROLE {role}")


def test_a_reader_that_holds_a_table_is_not_waited_for(many: Workbench) -> None:
    many.index()
    before = many.rows(INDEXES)
    with psycopg.connect(many.database_url) as reader:
        reader.execute("SELECT count(*) FROM postings")
        with connect(many.database_url) as conn:
            index_builds.withdraw_indexes(conn)
    assert many.rows(INDEXES) == before


def test_where_workers_get_no_memory_the_indexes_are_built_without_them(
    many: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    many.index()
    before = many.rows(INDEXES)
    with connect(many.database_url) as conn:
        index_builds.withdraw_indexes(conn)
        build = index_builds._build_one

        def refuse(conn: psycopg.Connection, *, parallel: bool) -> None:
            if parallel:
                raise psycopg.errors.DiskFull("could not resize shared memory segment")
            build(conn, parallel=parallel)

        monkeypatch.setattr(index_builds, "_build_one", refuse)
        index_builds.restore_indexes(conn, SilentProgress())
    assert many.rows(INDEXES) == before


@pytest.mark.parametrize(
    "statement", ["DROP TABLE notes", "CREATE INDEX ON notes (title); DROP TABLE notes", ""]
)
def test_only_what_makes_an_index_is_carried_out(many: Workbench, statement: str) -> None:
    many.index()
    many.execute("INSERT INTO withdrawn_indexes VALUES ('no_such', %s)", statement)
    before = many.rows(INDEXES)
    assert many.index().notes_unchanged == 12
    assert many.rows(INDEXES) == before
    assert many.rows("SELECT * FROM withdrawn_indexes") == []
