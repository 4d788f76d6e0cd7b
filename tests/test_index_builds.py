"""Indexes that are taken away while an empty index fills, and made again when it is full."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from conftest import Workbench
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from obsidian_rag import index_builds, intake
from obsidian_rag.errors import EmbedderError
from obsidian_rag.indexing import Options, run_indexer
from obsidian_rag.postgres import connect
from obsidian_rag.progress import SilentProgress
from obsidian_rag.schema_text import list_indexes

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


def count_withdrawn(bench: Workbench) -> int:
    return int(bench.rows("SELECT count(*) FROM withdrawn_indexes")[0][0])


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The indexes that are made again."""
    names: list[str] = []
    build = index_builds._build

    def watched(conn: psycopg.Connection, name: str, statement: str) -> None:
        names.append(name)
        build(conn, name, statement)

    monkeypatch.setattr(index_builds, "_build", watched)
    return names


def empty(bench: Workbench) -> None:
    bench.execute("TRUNCATE documents, notes, note_links, link_mentions, postings, note_names, link_names")
    bench.execute("UPDATE keyword_stats SET notes = 0, chunks = 0, note_length = 0, chunk_length = 0")


def test_an_empty_index_is_filled_without_indexes_and_ends_with_all_of_them(
    many: Workbench, built: list[str]
) -> None:
    many.execute("CREATE INDEX \"my own, with 'signs'\" ON documents (lower(heading)) WHERE heading <> ''")
    many.execute("DROP INDEX note_names_words_idx")
    many.execute("CREATE INDEX note_names_words_idx ON note_names USING gin (words) WITH (fastupdate = off)")
    assert many.index().status == "ok"  # so that the vectors have their width
    before = many.rows(INDEXES)
    empty(many)
    built.clear()

    report = many.index()

    assert (report.status, report.notes_indexed) == ("ok", 12)
    assert built == [name for name in index_builds.SEARCHED if name != "note_names_words_idx"]
    assert many.rows(INDEXES) == before
    assert count_withdrawn(many) == 0
    assert many.found("word7")[0] == "Note 7.md"


def test_few_notes_or_notes_beside_others_come_in_with_the_indexes_in_place(
    many: Workbench, built: list[str]
) -> None:
    many.index()
    built.clear()
    fill(many, 40)
    assert many.index().notes_indexed == 28
    assert built == []


def test_all_that_is_taken_away_is_an_index_of_the_schema() -> None:
    statements = list_indexes()
    assert set(index_builds.SEARCHED) <= statements.keys()
    searched = {name for name in statements if name.startswith(("documents_", "postings_", "note_names_"))}
    kept = {"documents_content_hash_idx", "documents_repeated_idx"}
    assert searched - kept == set(index_builds.SEARCHED)


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
    empty(many)
    many.ollama.always = "unauthorized"
    with pytest.raises(EmbedderError):
        many.index()
    assert many.rows(INDEXES) == before


@contextmanager
def acting_as(bench: Workbench, make: str) -> Iterator[psycopg.Connection]:
    """A connection as another role. `make` is its definition, with {role} for its name."""
    role = "writer_" + str(conninfo_to_dict(bench.database_url)["dbname"])
    bench.execute(make.replace("{role}", role))
    try:
        with connect(bench.database_url) as conn:
            conn.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
            yield conn
    finally:
        bench.execute(f"REASSIGN OWNED BY {role} TO CURRENT_USER; DROP OWNED BY {role}; DROP ROLE {role}")


class Listener(SilentProgress):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def test_who_does_not_own_the_tables_leaves_the_indexes_alone(many: Workbench) -> None:
    many.index()
    before = many.rows(INDEXES)
    with acting_as(many, "CREATE ROLE {role} IN ROLE rag_indexer") as conn:
        index_builds.withdraw_indexes(conn)
    assert many.rows(INDEXES) == before


def test_who_could_not_make_them_again_leaves_the_indexes_alone(many: Workbench) -> None:
    many.index()
    before = many.rows(INDEXES)
    make = "CREATE ROLE {role} IN ROLE rag_indexer;" + "".join(
        f"ALTER TABLE {table} OWNER TO {{role}};" for table in ("documents", "postings", "note_names")
    )
    with acting_as(many, make) as conn:
        index_builds.withdraw_indexes(conn)
    assert many.rows(INDEXES) == before


def test_after_a_killed_run_of_the_owner_another_role_goes_on_and_says_what_is_missing(
    many: Workbench,
) -> None:
    many.index()
    before = many.rows(INDEXES)
    with connect(many.database_url) as conn:
        index_builds.withdraw_indexes(conn)
    progress = Listener()
    with acting_as(many, "CREATE ROLE {role} IN ROLE rag_indexer") as conn:
        index_builds.restore_indexes(conn, progress)
    assert "Indexes are missing" in progress.said[0]
    many.index()
    assert many.rows(INDEXES) == before


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
    build = index_builds._build_once

    def refuse(conn: psycopg.Connection, name: str, statement: str, *, parallel: bool) -> None:
        if parallel:
            raise psycopg.errors.DiskFull("could not resize shared memory segment")
        build(conn, name, statement, parallel=parallel)

    monkeypatch.setattr(index_builds, "_build_once", refuse)
    with connect(many.database_url) as conn:
        index_builds.withdraw_indexes(conn)
        index_builds.restore_indexes(conn, SilentProgress())
    assert many.rows(INDEXES) == before


@pytest.mark.parametrize("name", ["no_such_index", "notes; DROP TABLE notes", 'x" ON notes (title); --'])
def test_only_indexes_of_the_schema_are_made(many: Workbench, name: str) -> None:
    many.index()
    many.execute("INSERT INTO withdrawn_indexes VALUES (%s)", name)
    before = many.rows(INDEXES)
    assert many.index().notes_unchanged == 12
    assert many.rows(INDEXES) == before
    assert count_withdrawn(many) == 0


def test_after_a_while_a_long_run_goes_on_with_the_indexes_made(
    many: Workbench, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    many.index()
    empty(many)
    built.clear()
    monkeypatch.setattr(index_builds, "LONGEST", -1.0)
    monkeypatch.setattr(intake, "MOST_ROUND", 3)
    seen: list[tuple[str, int]] = []

    class Watcher(SilentProgress):
        def begin(self, what: str, total: int) -> None:
            seen.append((what, total))

    run_indexer(many.settings, Options(), Watcher())
    assert built == index_builds.SEARCHED
    assert [what for what, _ in seen] == ["Indexing notes", "Building indexes", "Indexing notes"]
    assert 0 < seen[2][1] <= 12
