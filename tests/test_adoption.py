"""A database of the first schema is taken over in place: nothing is embedded, nothing that worked stops."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from conftest import VaultFolder, Workbench
from ollama_double import OllamaDouble, embed

from obsidian_rag.errors import DatabaseError, IndexMismatch, SchemaError

DIMENSIONS = 768

FIRST_SCHEMA = """
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE documents (
    id SERIAL PRIMARY KEY, file_path TEXT NOT NULL, file_hash TEXT NOT NULL, chunk_index INTEGER NOT NULL,
    heading TEXT, content TEXT NOT NULL, embedding vector(768) NOT NULL, content_tsv TSVECTOR,
    metadata JSONB DEFAULT '{}', updated_at TIMESTAMP DEFAULT NOW(), UNIQUE (file_path, chunk_index));
CREATE INDEX documents_embedding_idx ON documents USING hnsw (embedding vector_cosine_ops);
CREATE INDEX documents_content_tsv_idx ON documents USING gin(content_tsv);
CREATE TABLE note_links (
    id SERIAL PRIMARY KEY, source_path TEXT NOT NULL, target_name TEXT NOT NULL, target_path TEXT,
    updated_at TIMESTAMP DEFAULT now());
CREATE INDEX note_links_source_idx ON note_links(source_path);
CREATE INDEX note_links_target_path_idx ON note_links(target_path);
"""

NOTES = {
    "Garden.md": "# Garden\n\nThe pump feeds the beds. See [[Pump]].\n\n## Beds\n\nTomatoes grow.\n",
    "Home/Pump.md": "Intro of the pump.\n\n# Pump\n\nIt runs at night. See [[Garden]].\n",
    "Home/Twice.md": "# One\n\nSame words.\n\n# Two\n\nSame words.\n",
}
ALGORITHMS = {"Garden.md": hashlib.md5, "Home/Pump.md": hashlib.sha1, "Home/Twice.md": hashlib.sha256}

OLD_QUERIES = {
    "vector": "SELECT file_path, chunk_index, heading, content, 1 - (embedding <=> %(vector)s::vector) FROM"
    " documents ORDER BY embedding <=> %(vector)s::vector, id LIMIT 5",
    "keyword": "SELECT file_path, chunk_index, ts_rank(content_tsv, q) FROM documents,"
    " websearch_to_tsquery('english', 'pump') q WHERE content_tsv @@ q ORDER BY 3 DESC, id",
    "rows": "SELECT id, file_path, file_hash, chunk_index, heading, content, embedding::text,"
    " metadata::text, updated_at FROM documents ORDER BY id",
    "links": "SELECT source_path, target_name, target_path FROM note_links ORDER BY 1, 2",
    "neighbours": "SELECT content FROM documents WHERE file_path = 'Garden.md'"
    " AND chunk_index BETWEEN 0 AND 1 ORDER BY chunk_index",
    "topics": "SELECT split_part(file_path, '/', 1), count(*) FROM documents GROUP BY 1 ORDER BY 1",
}
ADDED_TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = %s"


@pytest.fixture
def wide_ollama() -> Iterator[OllamaDouble]:
    with OllamaDouble(dimensions=DIMENSIONS) as double:
        yield double


@pytest.fixture
def old(vault: VaultFolder, new_database: Callable[..., str], wide_ollama: OllamaDouble) -> Workbench:
    """A vault with an index that the first schema's program made."""
    bench = Workbench(vault, new_database(), wide_ollama)
    bench.execute(FIRST_SCHEMA)
    for path, text in NOTES.items():
        vault.write(path, text)
        add_rows(bench, path, ALGORITHMS[path](text.encode()).hexdigest(), with_tsv=path != "Home/Twice.md")
    bench.execute(
        "INSERT INTO note_links (source_path, target_name, target_path) VALUES"
        " ('Garden.md', 'Pump', 'Home/Pump.md'), ('Home/Pump.md', 'Garden', 'Garden.md')"
    )
    return bench


def add_rows(bench: Workbench, path: str, file_hash: str, with_tsv: bool = True) -> None:
    """Chunks as another program cut them: at blank lines, two paragraphs each, the headings left out."""
    paragraphs = [p for p in NOTES[path].split("\n\n") if not p.startswith("#")]
    for index, content in enumerate(paragraphs):
        vector = str(embed(content, DIMENSIONS))
        bench.execute(
            "INSERT INTO documents (file_path, file_hash, chunk_index, heading, content, embedding,"
            " content_tsv, metadata) VALUES (%s, %s, %s, %s, %s, %s::vector,"
            " CASE WHEN %s THEN to_tsvector('english', %s) END, '{\"own\": 1}')",
            path, file_hash, index, "Own heading", content, vector, with_tsv, content,
        )  # fmt: skip


def ask(bench: Workbench) -> dict[str, list[tuple[Any, ...]]]:
    """What the queries of people who know the first schema answer."""
    vector = str(embed("tomatoes", DIMENSIONS))
    with psycopg.connect(bench.database_url) as conn:
        return {
            name: conn.execute(query, {"vector": vector} if "%(" in query else None).fetchall()  # type: ignore[call-overload]
            for name, query in OLD_QUERIES.items()
        }


def test_the_first_run_embeds_nothing_and_old_queries_answer_the_same(old: Workbench) -> None:
    before = ask(old)

    report = old.index()

    assert (report.status, report.notes_indexed, report.notes_deleted) == ("ok", 3, 0)
    assert old.ollama.embed_calls == []
    assert ask(old) == before
    assert sum("are taken to be those of nomic-embed-text" in w for w in report.warnings) == 1
    assert old.rows("SELECT embedder, embed_model, dimensions FROM index_settings") == [
        ("ollama", "nomic-embed-text", 768)
    ]


def test_a_second_run_has_nothing_to_do_and_says_nothing_again(old: Workbench) -> None:
    old.index()
    tables, before = old.tables(), ask(old)

    report = old.index()

    assert (report.notes_unchanged, report.notes_indexed, report.warnings) == (3, 0, ())
    assert (old.tables(), ask(old)) == (tables, before)
    assert old.ollama.embed_calls == []


def test_adopted_notes_are_found_by_their_words_path_and_links(old: Workbench) -> None:
    old.index()

    assert old.rows("SELECT count(*) FROM documents WHERE search_tsv IS NULL OR content_tsv IS NULL") == [
        (0,)
    ]
    assert old.rows("SELECT DISTINCT path_terms FROM documents WHERE file_path LIKE 'Home/P%%'") == [
        ("Home Pump",)
    ]
    places = (
        "SELECT content, heading_path, start_line, end_line FROM documents ORDER BY file_path, chunk_index"
    )
    assert old.rows(places) == [
        ("The pump feeds the beds. See [[Pump]].", "Garden", 3, 3),
        ("Tomatoes grow.\n", "Garden > Beds", 7, 7),
        ("Intro of the pump.", "", 1, 1),
        ("It runs at night. See [[Garden]].\n", "Pump", 5, 5),
        ("Same words.", "One", 3, 3),
        ("Same words.\n", "Two", 7, 7),
    ]
    assert old.rows("SELECT source_path, target_path, kind, target_type FROM note_links ORDER BY 1") == [
        ("Garden.md", "Home/Pump.md", "wikilink", "note"),
        ("Home/Pump.md", "Garden.md", "wikilink", "note"),
    ]
    assert "Home/Pump.md" in old.found("home pump", "keyword")
    assert "Garden.md" in old.found("tomatoes", "vector")


def test_dropping_what_was_added_leaves_the_old_queries_working(old: Workbench) -> None:
    before = ask(old)
    old.index()
    with psycopg.connect(old.database_url, autocommit=True) as conn:
        for kind, word in (("v", "VIEW"), ("r", "TABLE")):
            for (name,) in conn.execute(ADDED_TABLES, (kind,)).fetchall():
                if name not in ("documents", "note_links"):
                    conn.execute(f"DROP {word} {name} CASCADE")  # type: ignore[call-overload]
        for table in ("documents", "note_links"):
            added = conn.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > %s"
                " AND NOT attisdropped",
                (table, 10 if table == "documents" else 5),
            ).fetchall()
            assert added
            for (column,) in added:
                conn.execute(f"ALTER TABLE {table} DROP COLUMN {column}")  # type: ignore[call-overload]

    assert ask(old) == before
    # And it can be taken over once more.
    assert old.index().status == "ok"
    assert ask(old) == before
    assert old.ollama.embed_calls == []


def test_only_the_edited_note_is_embedded(old: Workbench) -> None:
    old.index()
    old.vault.write("Garden.md", NOTES["Garden.md"].replace("Tomatoes", "Peppers"))

    report = old.index()

    assert (report.notes_indexed, report.notes_unchanged, report.chunks_embedded) == (1, 2, 2)
    assert any("Peppers grow." in text for text in old.ollama.texts)
    assert not any("night" in text for text in old.ollama.texts)


def test_a_note_edited_before_the_first_run_is_the_only_one_embedded(old: Workbench) -> None:
    old.vault.write("Garden.md", NOTES["Garden.md"].replace("Tomatoes", "Peppers"))
    old.vault.write("New.md", "A new note.\n")

    report = old.index()

    assert (report.notes_indexed, report.chunks_embedded) == (4, 3)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_renamed_note_keeps_its_vectors_also_across_the_adoption(old: Workbench, moment: str) -> None:
    if moment == "after":
        old.index()
    old.vault.move("Home/Pump.md", "Cellar/Water pump.md")

    report = old.index()

    assert (report.notes_renamed, report.chunks_embedded, report.notes_deleted) == (1, 0, 0)
    rows = old.rows("SELECT file_path, count(*), min(path_terms) FROM documents GROUP BY 1 ORDER BY 1")
    assert rows == [
        ("Cellar/Water pump.md", 2, "Cellar Water pump"),
        ("Garden.md", 2, "Garden"),
        ("Home/Twice.md", 2, "Home Twice"),
    ]
    assert old.found("cellar", "keyword") == ["Cellar/Water pump.md"]
    assert old.index().notes_unchanged == 3


def test_full_and_a_new_parser_do_not_embed_adopted_notes(
    old: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obsidian_rag import indexing, intake

    before = ask(old)
    assert old.index(full=True).status == "ok"
    for module in (indexing, intake):
        monkeypatch.setattr(module, "PARSER_VERSION", 99)
    assert old.index().notes_indexed == 3
    assert old.index(full=True).notes_indexed == 3
    assert old.ollama.embed_calls == []
    assert ask(old) == before


def test_a_note_that_is_gone_leaves_no_row(old: Workbench) -> None:
    old.vault.delete("Home/Twice.md")
    old.execute("INSERT INTO note_links (source_path, target_name) VALUES ('Long gone.md', 'Pump')")

    report = old.index()

    assert report.notes_deleted == 1
    assert old.rows("SELECT DISTINCT file_path FROM documents ORDER BY 1") == [
        ("Garden.md",),
        ("Home/Pump.md",),
    ]
    assert old.rows("SELECT DISTINCT source_path FROM note_links ORDER BY 1") == [
        ("Garden.md",), ("Home/Pump.md",),
    ]  # fmt: skip


def test_vectors_of_another_dimension_are_an_error_that_changes_nothing(old: Workbench) -> None:
    from ollama_double import Model

    before = ask(old)
    old.ollama.pull(Model("all-minilm", 384))

    with pytest.raises(IndexMismatch, match=r"768 dimensions, all-minilm gives 384.*EMBED_MODEL"):
        old.index({"embed_model": "all-minilm"})

    assert ask(old) == before
    assert old.index().status == "ok"


def test_a_dry_run_tells_of_the_adoption_and_changes_nothing(old: Workbench) -> None:
    report = old.index(dry_run=True)

    assert (report.notes_indexed, report.notes_deleted) == (3, 0)
    assert sorted(old.rows(ADDED_TABLES, "r")) == [("documents",), ("note_links",)]


def test_the_text_search_configuration_holds_for_adopted_notes_too(old: Workbench) -> None:
    old.index({"fts_config": "simple"})
    assert old.found("tomatoes", "keyword") == ["Garden.md"]
    old.index({"fts_config": "german"}, full=True)
    assert old.rows(
        "SELECT count(*) FROM documents WHERE content_tsv IS DISTINCT FROM to_tsvector('german', content)"
    ) == [(0,)]
    assert old.ollama.embed_calls == []


def test_adopted_notes_can_be_embedded_anew_on_demand(
    old: Workbench, new_bench: Callable[[VaultFolder], Workbench], wide_ollama: OllamaDouble
) -> None:
    report = old.index(reembed=True)

    assert (report.status, report.notes_indexed) == ("ok", 3)
    fresh = new_bench(old.vault)
    fresh.ollama = wide_ollama
    fresh.index()
    assert old.tables() == fresh.tables()


@pytest.mark.parametrize("table", ["documents", "notes", "note_links"])
def test_tables_of_another_program_are_left_alone(bench: Workbench, database_url: str, table: str) -> None:
    other = Workbench(bench.vault, database_url, bench.ollama)
    other.vault.write("A.md", "Text.\n")
    other.execute(f"CREATE TABLE {table} (id SERIAL PRIMARY KEY, title TEXT)")

    for dry_run in (True, False):
        with pytest.raises(SchemaError, match=f"table {table} that is another program's"):
            other.index(dry_run=dry_run)

    assert other.rows(ADDED_TABLES, "r") == [(table,)]


def test_a_killed_adoption_is_finished_by_the_next_run(
    old: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obsidian_rag import adoption

    before = ask(old)
    adopt_note, calls = adoption.adopt_note, 0

    def stop(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise psycopg.errors.InternalError_("killed")
        adopt_note(*arguments)

    monkeypatch.setattr(adoption, "adopt_note", stop)
    with pytest.raises(DatabaseError):
        old.index()
    monkeypatch.undo()

    report = old.index()

    assert (report.notes_unchanged, report.notes_indexed) == (1, 2)
    assert ask(old) == before
    assert old.ollama.embed_calls == []
