"""The open index of a long-lived server: restarts, refusals, the embedder."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import Workbench
from embedded_bench import make_embedded_bench
from ollama_double import Model, OllamaDouble
from psycopg.conninfo import conninfo_to_dict

from obsidian_rag import embedded
from obsidian_rag.catalog import list_topics
from obsidian_rag.config import Settings, parse_vaults
from obsidian_rag.errors import (
    DatabaseError,
    DatabaseUnavailable,
    DatabaseUnsuitable,
    EmbedderUnavailable,
    IndexMismatch,
)
from obsidian_rag.index_reader import IDLE_CONNECTIONS, IndexReader
from obsidian_rag.postgres import Connection

TERMINATE = """
SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


def be_silent(_: str) -> None:
    pass


@pytest.fixture
def indexed(bench: Workbench) -> Workbench:
    bench.vault.write("A.md", "# Alpha\n\nTo [[B]].\n")
    bench.vault.write("B.md", "# Beta\n\nWords.\n")
    bench.index()
    return bench


@pytest.fixture
def reader(indexed: Workbench) -> Iterator[IndexReader]:
    found = IndexReader(indexed.settings, be_silent)
    yield found
    found.close()


def get(statement: str) -> Callable[[Connection], Any]:
    def work(conn: Connection) -> Any:
        row = conn.execute(statement).fetchone()  # type: ignore[call-overload]
        return row[0] if row else None

    return work


BACKEND = get("SELECT pg_backend_pid()")


def test_a_connection_is_used_again(reader: IndexReader) -> None:
    assert reader.run(BACKEND) == reader.run(BACKEND)


def test_a_lost_connection_is_replaced_unseen(reader: IndexReader, indexed: Workbench) -> None:
    before = reader.run(BACKEND)
    assert indexed.rows(TERMINATE) == [(1,)]

    assert reader.run(BACKEND) != before


def test_a_connection_lost_at_work_is_replaced_unseen(reader: IndexReader, indexed: Workbench) -> None:
    attempts: list[int] = []

    def work(conn: Connection) -> int:
        attempts.append(conn.info.backend_pid)
        if len(attempts) == 1:
            indexed.rows(TERMINATE)
        return int(BACKEND(conn))

    assert reader.run(work) == attempts[1]


def test_a_database_that_stays_away_is_an_error(reader: IndexReader, indexed: Workbench) -> None:
    attempts: list[int] = []

    def work(conn: Connection) -> None:
        attempts.append(conn.info.backend_pid)
        indexed.rows(TERMINATE)
        conn.execute("SELECT 1")

    with pytest.raises(DatabaseUnavailable, match="was lost"):
        reader.run(work)
    assert len(attempts) == 2
    assert len(reader.run(list_topics).topics) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM documents",
        "UPDATE notes SET title = ''",
        "INSERT INTO note_links (source_path, target_name) VALUES ('a', 'b')",
        "CREATE TABLE mine ()",
        "DROP TABLE notes",
    ],
)
def test_nothing_can_be_written_through_the_reader(reader: IndexReader, statement: str) -> None:
    with pytest.raises(DatabaseUnsuitable):
        reader.run(get(statement))


def test_the_reader_has_no_right_to_write_even_outside_a_read_only_transaction(reader: IndexReader) -> None:
    def work(conn: Connection) -> None:
        with conn.transaction():
            conn.execute("SET TRANSACTION READ WRITE")
            conn.execute("DELETE FROM documents")

    with pytest.raises(DatabaseUnsuitable, match="permission denied"):
        reader.run(work)
    assert reader.run(get("SELECT count(*) FROM documents")) == 2


def test_a_login_that_may_only_read_is_enough(indexed: Workbench, server: str) -> None:
    role = "reader_" + str(conninfo_to_dict(indexed.database_url)["dbname"])
    indexed.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'pw' IN ROLE rag_reader")
    try:
        url = psycopg.conninfo.make_conninfo(indexed.database_url, user=role, password="pw")
        reader = IndexReader(replace(indexed.settings, database_url=url), be_silent)
        assert reader.run(get("SELECT count(*) FROM documents")) == 2
        reader.close()
    finally:
        indexed.execute(f"DROP ROLE {role}")


def test_a_slow_statement_is_ended_and_not_tried_again(reader: IndexReader) -> None:
    assert reader.run(get("SHOW statement_timeout")) == "30s"
    attempts = []

    def work(conn: Connection) -> None:
        attempts.append(1)
        with conn.transaction():
            conn.execute("SET LOCAL statement_timeout = 20")
            conn.execute("SELECT pg_sleep(60)")

    with pytest.raises(DatabaseError, match="statement timeout"):
        reader.run(work)
    assert attempts == [1]


def test_threads_have_connections_of_their_own_and_few_are_kept(reader: IndexReader) -> None:
    together = threading.Barrier(IDLE_CONNECTIONS + 3, timeout=60)

    def work(conn: Connection) -> int:
        together.wait()
        return int(BACKEND(conn))

    with ThreadPoolExecutor(IDLE_CONNECTIONS + 3) as pool:
        backends = list(pool.map(lambda _: reader.run(work), range(IDLE_CONNECTIONS + 3)))
    assert len(set(backends)) == IDLE_CONNECTIONS + 3
    mine = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state IS NOT NULL"
    assert reader.run(get(mine)) <= IDLE_CONNECTIONS


def test_a_query_is_embedded_once(reader: IndexReader, indexed: Workbench) -> None:
    indexed.ollama.forget()
    first = reader.embed_query("some words")
    assert (reader.embed_query("some words") == first).all()
    assert len(indexed.ollama.texts) == 1


def test_an_embedder_that_comes_back_is_used(reader: IndexReader, indexed: Workbench) -> None:
    indexed.ollama.stop()
    with pytest.raises(EmbedderUnavailable, match="ollama serve"):
        reader.embed_query("words")
    indexed.ollama.start()
    assert len(reader.embed_query("words")) == indexed.ollama.dimensions


def test_a_closed_reader_opens_again(reader: IndexReader) -> None:
    reader.embed_query("words")
    reader.close()
    assert reader.run(get("SELECT 1")) == 1
    reader.embed_query("words")


def test_an_index_without_vectors_says_so(reader: IndexReader, indexed: Workbench) -> None:
    indexed.execute("UPDATE index_settings SET embedder = NULL, embed_model = NULL, dimensions = NULL")
    with pytest.raises(
        IndexMismatch, match=r"no vectors yet\. Run: obsidian-rag init, or: obsidian-rag index"
    ):
        reader.embed_query("words")


def test_an_index_embedded_anew_by_another_model_is_noticed(reader: IndexReader, indexed: Workbench) -> None:
    assert len(reader.embed_query("words")) == 64
    indexed.ollama.pull(Model("bge-m3", dimensions=32))
    indexed.execute(
        "TRUNCATE documents; DROP INDEX documents_embedding_idx;"
        " ALTER TABLE documents ALTER embedding TYPE vector(32);"
        " UPDATE index_settings SET embed_model = 'bge-m3', dimensions = 32"
    )
    assert len(reader.embed_query("words")) == 32


def test_a_killed_embedded_server_is_found_again_at_its_new_port(
    tmp_path: Path, ollama: OllamaDouble
) -> None:
    bench = make_embedded_bench(tmp_path, ollama)
    reader = IndexReader(
        Settings(vaults=parse_vaults(str(bench.vault)), data_dir=bench.home, ollama_url=ollama.url), be_silent
    )
    try:
        port = reader.run(get("SELECT inet_server_port()"))
        bench.kill_server()
        assert reader.run(get("SELECT count(*) FROM notes")) == 2
        assert reader.run(get("SELECT inet_server_port()")) != port
    finally:
        reader.close()
        embedded.release(bench.home)
    assert bench.server_process() is None


def test_the_larger_the_index_the_wider_its_vectors_are_searched(indexed: Workbench) -> None:
    def read_breadth(chunks: int) -> int:
        indexed.execute(f"UPDATE keyword_stats SET chunks = {chunks}")  # type: ignore[call-overload] # noqa: S608
        reader = IndexReader(indexed.settings, be_silent)
        try:
            return int(reader.run(lambda conn: conn.execute("SHOW hnsw.ef_search").fetchone())[0])  # type: ignore[index]
        finally:
            reader.close()

    (before,) = indexed.rows("SELECT chunks FROM keyword_stats")
    assert [read_breadth(n) for n in (0, 60_000, 240_000, 10**9)] == [200, 200, 400, 1000]
    read_breadth(before[0])
