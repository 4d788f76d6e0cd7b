"""The table documents gives way to one with other vectors: what goes along with it, and who has to wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from conftest import Workbench
from ollama_double import Model
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from test_migrations import read_catalogs

from obsidian_rag import vector_swap
from obsidian_rag.errors import DatabaseError, DatabaseUnsuitable
from obsidian_rag.models import RunReport

WIDE = Model("all-minilm", 96)
TO_WIDE = {"embed_model": WIDE.name}
RECORDED = "SELECT embed_model, dimensions FROM index_settings"


@pytest.fixture
def indexed(bench: Workbench) -> Workbench:
    bench.vault.write("A.md", "# Alpha\n\nThe pump feeds the garden.\n")
    bench.vault.write("B.md", "# Beta\n\nKnead the dough.\n")
    bench.index()
    bench.ollama.pull(WIDE)
    bench.ollama.forget()
    return bench


def change(bench: Workbench) -> RunReport:
    return bench.index(TO_WIDE, reembed=True)


@pytest.mark.parametrize(
    ("made", "named", "dropped"),
    [
        ("CREATE VIEW mine AS SELECT file_path FROM documents", "view mine", "DROP VIEW mine"),
        (
            "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
            " CREATE TRIGGER mine BEFORE INSERT ON documents FOR EACH ROW EXECUTE FUNCTION f()",
            "trigger mine on table documents",
            "DROP TRIGGER mine ON documents",
        ),
        (
            "CREATE TABLE stars (chunk INTEGER REFERENCES documents (id))",
            "constraint stars_chunk_fkey on table stars",
            "DROP TABLE stars",
        ),
        ("CREATE TABLE kept (chunk documents)", "table kept", "DROP TABLE kept"),
        ("CREATE TABLE more () INHERITS (documents)", "table more", "DROP TABLE more"),
        (
            "CREATE POLICY mine ON documents USING (true)",
            "policy mine on table documents",
            "DROP POLICY mine ON documents",
        ),
        (
            "ALTER TABLE documents ENABLE ROW LEVEL SECURITY",
            "row security",
            "ALTER TABLE documents DISABLE ROW LEVEL SECURITY",
        ),
        ("CREATE PUBLICATION mine FOR TABLE documents", "publication mine", "DROP PUBLICATION mine"),
    ],
)
def test_what_would_be_lost_with_the_table_is_named_before_anything_is_embedded(
    indexed: Workbench, made: str, named: str, dropped: str
) -> None:
    indexed.execute(made)

    with pytest.raises(DatabaseUnsuitable, match=f"hangs on the present one.*{named}.*drop it"):
        change(indexed)

    assert indexed.ollama.embed_calls == []
    indexed.execute(dropped)
    assert change(indexed).status == "ok"


def test_what_a_person_added_to_the_table_goes_along(indexed: Workbench) -> None:
    indexed.execute(
        "ALTER TABLE documents ADD COLUMN stars INTEGER DEFAULT 3 CHECK (stars < 6),"
        " ADD COLUMN length INTEGER GENERATED ALWAYS AS (length(content)) STORED, SET (fillfactor = 70);"
        ' CREATE INDEX "My index" ON documents (lower(heading)) WHERE stars > 1;'
        " CREATE INDEX near_too ON documents USING hnsw (embedding vector_l2_ops);"
        " COMMENT ON TABLE documents IS 'It''s mine'; COMMENT ON COLUMN documents.stars IS 'of five';"
        " UPDATE documents SET stars = 5 WHERE file_path = 'B.md'"
    )
    role = "friend_" + str(conninfo_to_dict(indexed.database_url)["dbname"])
    indexed.execute(
        f"CREATE ROLE {role}; GRANT SELECT ON documents TO {role} WITH GRANT OPTION;"
        f" GRANT UPDATE (stars) ON documents TO {role}; GRANT SELECT (id) ON documents TO PUBLIC"
    )
    described = (
        "SELECT reloptions, obj_description(oid),"
        " (SELECT array_agg(a::text ORDER BY a::text) FROM unnest(relacl) a),"
        " (SELECT array_agg((attname, attacl, col_description(attrelid, attnum))::text ORDER BY attnum)"
        "  FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped)"
        " FROM pg_class c WHERE oid = 'documents'::regclass"
    )
    before, catalogs = indexed.rows(described), read_catalogs(indexed.database_url)
    try:
        report = change(indexed)

        assert indexed.rows(described) == before
        changed = read_catalogs(indexed.database_url)
        assert {name for name in changed if changed[name] != catalogs[name]} == {"columns", "indexes"}
        lost = [row for row in catalogs["indexes"] if row not in changed["indexes"]]
        assert [row[1] for row in lost] == ["documents_embedding_idx", "near_too"]  # the first by its width
        (warning,) = report.warnings
        assert "near_too on the vectors was not made again; it was: CREATE INDEX near_too" in warning
        assert indexed.rows("SELECT file_path, stars, length > 5 FROM documents ORDER BY 1") == [
            ("A.md", 3, True), ("B.md", 5, True),
        ]  # fmt: skip
    finally:
        indexed.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.fixture
def writer(indexed: Workbench) -> Iterator[str]:
    """A login that may write the index and owns nothing of it."""
    role = "writer_" + str(conninfo_to_dict(indexed.database_url)["dbname"])
    indexed.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'pw' IN ROLE rag_indexer")
    yield role
    indexed.execute(f"REASSIGN OWNED BY {role} TO CURRENT_USER; DROP OWNED BY {role}; DROP ROLE {role}")


def test_only_the_owner_of_the_table_may_replace_it(indexed: Workbench, writer: str) -> None:
    url = make_conninfo(indexed.database_url, user=writer, password="pw")
    settings = TO_WIDE | {"database_url": url}

    with pytest.raises(DatabaseUnsuitable, match=f"owns and {writer} may not replace.*connect as"):
        indexed.index(settings, reembed=True)

    assert indexed.index({"database_url": url}).status == "ok"
    assert indexed.ollama.embed_calls == []


def test_the_new_table_belongs_to_whom_the_old_one_belonged(indexed: Workbench, writer: str) -> None:
    """A superuser may do it for the owner."""
    indexed.execute(f"GRANT CREATE ON SCHEMA public TO {writer}; ALTER TABLE documents OWNER TO {writer}")

    change(indexed)

    owners = "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relname LIKE 'documents%'"
    assert indexed.rows(owners) == [(writer,)]
    assert indexed.index(TO_WIDE).notes_unchanged == 2
    reads = "SELECT has_table_privilege('rag_reader', 'documents', 'SELECT')"
    assert indexed.rows(reads) == [(True,)]


def test_a_long_reader_is_waited_for_and_holds_up_nobody_else(
    indexed: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_swap, "LOCK_TIMEOUT", "50ms")
    waits = threading.Semaphore(0)
    monkeypatch.setattr("time.sleep", lambda seconds: waits.release())
    with ThreadPoolExecutor(1) as aside, psycopg.connect(indexed.database_url) as reader:
        reader.execute("SELECT count(*) FROM documents")  # in a transaction that stays open
        running = aside.submit(change, indexed)
        for _ in range(3):
            assert waits.acquire(timeout=60)
            assert indexed.found("the pump", "vector")[0] == "A.md"
        assert indexed.rows(RECORDED) == [("nomic-embed-text", 64)]
        reader.rollback()
        assert running.result(60).status == "ok"
    assert indexed.rows(RECORDED) == [("all-minilm", 96)]


def test_a_reader_who_never_lets_go_is_named_and_the_vectors_are_kept(
    indexed: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_swap, "LOCK_TIMEOUT", "20ms")
    monkeypatch.setattr(vector_swap, "LOCK_ATTEMPTS", 2)
    monkeypatch.setattr(vector_swap, "LOCK_PAUSE", 0)
    with psycopg.connect(indexed.database_url, application_name="backup") as reader:
        reader.execute("SELECT count(*) FROM documents")
        with pytest.raises(DatabaseError, match=r"backup \(process \d+\) holds the table documents"):
            change(indexed)

    assert indexed.rows(RECORDED) == [("nomic-embed-text", 64)]
    assert indexed.found("the pump", "vector")[0] == "A.md"
    assert change(indexed).chunks_embedded == 0


def test_rows_that_somebody_adds_meanwhile_are_not_lost(
    indexed: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_writers_out = vector_swap.keep_writers_out

    def add_first(conn: psycopg.Connection) -> None:
        indexed.execute(
            "INSERT INTO documents (file_path, file_hash, chunk_index, content, embedding)"
            " SELECT 'C.md', '', 0, 'Mine.', embedding FROM documents LIMIT 1"
        )
        keep_writers_out(conn)

    monkeypatch.setattr(vector_swap, "keep_writers_out", add_first)
    with pytest.raises(DatabaseError, match="Somebody else changed the table documents"):
        change(indexed)
    monkeypatch.undo()

    assert indexed.rows("SELECT count(*) FROM documents WHERE file_path = 'C.md'") == [(1,)]
    assert indexed.rows(RECORDED) == [("nomic-embed-text", 64)]
