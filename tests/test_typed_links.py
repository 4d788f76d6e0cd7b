"""Typed links in the index: what is stored of them, and that it follows the notes and the table."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import VaultFolder, Workbench
from ollama_double import OllamaDouble
from psycopg import sql
from test_adoption import FIRST_SCHEMA

from obsidian_rag import migrate
from obsidian_rag.config import parse_vaults
from obsidian_rag.errors import SettingsError
from obsidian_rag.indexing import Options, run_indexer
from obsidian_rag.notes import MOST_MENTIONS
from obsidian_rag.postgres import connect
from obsidian_rag.progress import SilentProgress

NOTES = {
    "Acme.md": (
        '---\ntitle: Acme Maps Ltd\nup: "[[Companies]]"\n---\n'
        "# Acme\n\nFounded by [[Ann Lee|Ann]] in 2020. [[Bob]] invested in it.\n\n"
        "> **Advisor:** see [[Cem]]\n"
    ),
    "Ann Lee.md": "She founded [[Acme]]. Later [[Bob]] wrote to her.\n",
    "Bob.md": "Bob met [[Ann Lee|Ann]] at [[Acme]]'s office.\n",
}
RELATIONS = "SELECT source_path, target_name, relation, sentence FROM note_links ORDER BY 1, line, 2"
TYPES = "SELECT source_path, target_name, relation FROM note_links ORDER BY 1, line, 2"
MENTIONS = """
SELECT target_name, sentence_no, m.line, m.sentence, substr(m.sentence, first + 1, last - first), context,
       label, relations
FROM link_mentions m JOIN note_links l ON l.id = link_id WHERE m.source_path = %s ORDER BY sentence_no, first
"""


@pytest.fixture
def indexed(bench: Workbench) -> Workbench:
    """A small vault in the index."""
    for path, text in NOTES.items():
        bench.vault.write(path, text)
    assert bench.index().status == "ok"
    return bench


@pytest.fixture
def own_table(tmp_path: Path) -> Path:
    """A person's own table, which says something else of some words."""
    file = tmp_path / "own.toml"
    file.write_text(
        '[relations.founded]\nreplace = true\nwords = ["planted"]\n'
        '[relations.corresponds_with]\nwords = ["wrote to"]\n',
        encoding="utf-8",
    )
    return file


# --- what is stored ----------------------------------------------------------------------------------


def test_the_type_and_the_sentence_that_gave_it_are_stored(indexed: Workbench) -> None:
    assert indexed.rows(RELATIONS) == [
        ("Acme.md", "Companies", "up", None),
        ("Acme.md", "Ann Lee", "founded", "Founded by Ann in 2020."),
        ("Acme.md", "Bob", "invested_in", "Bob invested in it."),
        ("Acme.md", "Cem", "advises", "Advisor: see Cem"),
        ("Ann Lee.md", "Acme", "founded", "She founded Acme."),
        ("Ann Lee.md", "Bob", "wrote", "Later Bob wrote to her."),
        ("Bob.md", "Acme", "attended", "Bob met Ann at Acme's office."),
        ("Bob.md", "Ann Lee", "attended", "Bob met Ann at Acme's office."),
    ]


def test_each_place_of_a_link_is_stored_with_what_it_says(indexed: Workbench) -> None:
    assert indexed.rows(MENTIONS, "Acme.md") == [
        ("Companies", 0, 3, "", "", "", "up::", {"up": 1.0}),
        ("Ann Lee", 1, 7, "Founded by Ann in 2020.", "Ann", "", None, {"founded": 0.819, "works_at": 0.573}),
        ("Bob", 2, 7, "Bob invested in it.", "Bob", "", None, {"invested_in": 1.0}),
        ("Cem", 3, 9, "Advisor: see Cem", "Cem", "", "Advisor::", {"advises": 1.0}),
    ]


def test_a_link_written_often_keeps_its_first_places(bench: Workbench) -> None:
    bench.vault.write("A.md", "Ann met [[Bob]].\n\n" * 40)
    bench.index()
    assert bench.rows("SELECT occurrences FROM note_links") == [(40,)]
    assert bench.rows("SELECT count(*), max(line) FROM link_mentions") == [(MOST_MENTIONS, 31)]


def test_a_place_that_says_more_decides_over_many_that_say_little(bench: Workbench) -> None:
    bench.vault.write(
        "A.md", "[[Bob]] came by.\n\n" * 3 + "Ann founded [[Bob]].\n\nAnn once founded a [[Bob]].\n"
    )
    bench.index()
    assert bench.rows("SELECT relation, sentence FROM note_links") == [("founded", "Ann founded Bob.")]


def test_a_note_of_very_many_links_is_stored_whole(bench: Workbench) -> None:
    bench.vault.write("A.md", "".join(f"- [[N{number}]]\n" for number in range(6000)))
    assert bench.index().status == "ok"
    assert bench.rows("SELECT count(*) FROM note_links") == [(6000,)]
    assert bench.rows("SELECT count(*) FROM link_mentions") == [(5000,)]


def test_texts_that_a_database_finds_hard_are_stored(bench: Workbench) -> None:
    bench.vault.write("A.md", "a\"b\\c::[[X]] founded '; DROP TABLE notes; -- [[Y|%s {} \U0001f600]] \x01\n")
    assert bench.index().status == "ok"
    assert bench.rows("SELECT count(*) FROM link_mentions") == [(2,)]


def test_the_queries_of_the_page_on_relations_answer(indexed: Workbench) -> None:
    page = (Path(__file__).parents[1] / "docs" / "relations.md").read_text("utf-8")
    (example,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    queries = [query for query in example.replace("companies/Acme.md", "Acme.md").split(";") if query.strip()]
    answers = [indexed.rows(query) for query in queries]
    assert ("founded", 2) in answers[0]
    assert ("Ann Lee.md", "Acme.md", "She founded Acme.") in answers[1]
    assert answers[2][0] == ("Ann Lee.md", 1, "founded", 1.0, "She founded Acme.")
    assert answers[3] == []


# --- what changes ------------------------------------------------------------------------------------


def test_a_second_run_changes_nothing(indexed: Workbench) -> None:
    before = indexed.rows("SELECT *, ctid::text FROM link_mentions ORDER BY ctid")
    indexed.index()
    assert indexed.rows("SELECT *, ctid::text FROM link_mentions ORDER BY ctid") == before


def test_another_table_types_all_links_anew_without_parsing_or_embedding_a_note(
    indexed: Workbench, own_table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obsidian_rag import intake

    def refuse(*arguments: Any) -> Any:
        raise AssertionError("a note was parsed")

    calls = len(indexed.ollama.embed_calls)
    monkeypatch.setattr(intake, "parse_note", refuse)

    report = indexed.index({"link_relations": own_table})

    assert (report.status, report.notes_unchanged) == ("ok", 3)
    assert len(indexed.ollama.embed_calls) == calls
    typed = {row[:2]: row[2:] for row in indexed.rows(RELATIONS)}
    assert typed["Ann Lee.md", "Acme"] == (None, "She founded Acme.")
    assert typed["Ann Lee.md", "Bob"] == ("corresponds_with", "Later Bob wrote to her.")
    assert typed["Acme.md", "Cem"] == ("advises", "Advisor: see Cem")
    assert indexed.rows("SELECT relations FROM link_mentions WHERE sentence LIKE 'Later%%'") == [
        ({"corresponds_with": 1.0},)
    ]


def test_links_typed_anew_are_as_if_indexed_by_that_table(
    indexed: Workbench, new_bench: Callable[[VaultFolder], Workbench], own_table: Path
) -> None:
    before = indexed.tables()
    indexed.index({"link_relations": own_table})
    fresh = new_bench(indexed.vault)
    fresh.index({"link_relations": own_table})
    assert indexed.tables() == fresh.tables() != before
    indexed.index()
    assert indexed.tables() == before


def test_links_are_typed_anew_once_and_it_is_said(indexed: Workbench, own_table: Path) -> None:
    class Listener(SilentProgress):
        def __init__(self) -> None:
            self.said: list[str] = []

        def say(self, text: str) -> None:
            self.said.append(text)

    said = []
    for _ in range(2):
        listener = Listener()
        run_indexer(replace(indexed.settings, link_relations=own_table), Options(), listener)
        said.append([text for text in listener.said if "typed anew" in text])
    assert said == [["8 links typed anew by the relations as they are now."], []]


def test_typing_anew_that_is_stopped_leaves_the_old_types_and_is_made_up_for(
    indexed: Workbench, own_table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obsidian_rag import ledger

    before = indexed.rows(RELATIONS)

    def stop(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ledger, "save_relation_rules", stop)
        indexed.index({"link_relations": own_table})
    assert indexed.rows(RELATIONS) == before
    indexed.index({"link_relations": own_table})
    assert indexed.rows(RELATIONS) != before


def test_a_table_that_cannot_be_used_stops_the_run_before_anything_is_changed(
    indexed: Workbench, tmp_path: Path
) -> None:
    before = indexed.tables()
    indexed.vault.write("New.md", "New [[Acme]].\n")
    with pytest.raises(SettingsError, match=r"none\.toml, which cannot be read"):
        indexed.index({"link_relations": tmp_path / "none.toml"})
    assert indexed.tables() == before


def test_a_new_parser_replaces_the_mentions_of_a_note(
    indexed: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obsidian_rag import indexing, intake

    before = indexed.tables()
    indexed.execute("UPDATE link_mentions SET context = 'as an older parser had it'")
    for module in (indexing, intake):
        monkeypatch.setattr(module, "PARSER_VERSION", 99)
    calls = len(indexed.ollama.embed_calls)
    indexed.index()
    after = indexed.tables()
    assert after["link_mentions"] == before["link_mentions"]
    assert len(indexed.ollama.embed_calls) == calls


def test_a_renamed_note_keeps_the_types_of_its_links_and_of_those_to_it(indexed: Workbench) -> None:
    before = indexed.rows(TYPES)
    indexed.vault.move("Ann Lee.md", "people/Ann Lee.md")
    report = indexed.index()
    assert (report.notes_renamed, report.chunks_embedded) == (1, 0)
    moved = [(path.replace("people/", ""), *rest) for path, *rest in indexed.rows(TYPES)]
    assert sorted(moved) == sorted(before)
    assert indexed.rows("SELECT DISTINCT target_path FROM note_links WHERE target_name = 'Ann Lee'") == [
        ("people/Ann Lee.md",)
    ]


def test_an_edited_note_has_the_mentions_of_its_new_text_only(indexed: Workbench) -> None:
    indexed.vault.write("Bob.md", "Bob advises [[Acme]].\n")
    indexed.index()
    assert indexed.rows(MENTIONS, "Bob.md") == [
        ("Acme", 0, 1, "Bob advises Acme.", "Acme", "", None, {"advises": 1.0})
    ]


def test_a_deleted_note_leaves_no_mention_and_no_name(indexed: Workbench) -> None:
    indexed.vault.delete("Acme.md")
    indexed.index()
    assert indexed.rows("SELECT DISTINCT source_path FROM link_mentions ORDER BY 1") == [
        ("Ann Lee.md",),
        ("Bob.md",),
    ]
    assert indexed.rows("SELECT text, node FROM link_names ORDER BY 1") == [
        ("Acme", "?acme"),
        ("Ann", "Ann Lee.md"),
        ("Bob", "Bob.md"),
    ]


# --- by which words links mean a note ----------------------------------------------------------------


def test_the_words_by_which_links_mean_a_note_are_counted(indexed: Workbench) -> None:
    assert indexed.rows("SELECT text, node, key, uses, share FROM link_names ORDER BY 1") == [
        ("Acme", "Acme.md", "acme", 2, 1.0),
        ("Ann", "Ann Lee.md", "ann", 2, 1.0),
        ("Bob", "Bob.md", "bob", 2, 1.0),
        ("Cem", "?cem", "cem", 1, 1.0),
        ("Companies", "?companies", "companies", 1, 1.0),
    ]


def test_links_by_other_words_share_a_note(bench: Workbench) -> None:
    bench.vault.write("A.md", "[[Ann Lee]], [[Ann Lee|Ann]], [[Ann Lee|Ann]] and [Annie](Ann%20Lee.md).\n")
    bench.vault.write("Ann Lee.md", "Myself: [[Ann Lee|me]], ![[Ann Lee]]\n")
    bench.index()
    assert bench.rows("SELECT text, uses, share FROM link_names ORDER BY 1") == [
        ("Ann", 2, 0.5),
        ("Ann Lee", 1, 0.25),
        ("Annie", 1, 0.25),
    ]


def test_a_note_that_is_written_takes_over_the_links_that_waited_for_it(indexed: Workbench) -> None:
    indexed.vault.write("Cem.md", "Here he is.\n")
    indexed.index()
    assert indexed.rows("SELECT node FROM link_names WHERE text = 'Cem'") == [("Cem.md",)]


def test_a_note_is_called_by_its_property_title_its_heading_and_parts_of_its_names(
    bench: Workbench,
) -> None:
    properties = "---\ntitle: Acme Maps\naliases: [The Mappers]\n---\n"
    bench.vault.write("2024-01-05 Acme - a startup.md", f"{properties}# Acme (maps)\n\nText.\n")
    bench.index()
    named = set(bench.rows("SELECT kind, key FROM note_names"))
    assert {("title", "2024 01 05 acme a startup"), ("alias", "the mappers")} <= named
    assert {("called", "acme maps"), ("heading", "acme maps"), ("short", "acme")} <= named
    assert {("part", "a startup"), ("part", "mappers")} <= named
    assert not {("part", "2024"), ("short", "acme maps")} & named


# --- other indexes -----------------------------------------------------------------------------------


def copy_rows(source: str, target: str, tables: dict[str, str]) -> None:
    """Copy rows of tables with the columns that the target has; the value is a condition."""
    with psycopg.connect(source) as old, psycopg.connect(target, autocommit=True) as new:
        for table, condition in tables.items():
            found = new.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
                " AND NOT attisdropped",
                (table,),
            ).fetchall()
            names = [name for (name,) in found]
            columns = sql.SQL(", ").join(map(sql.Identifier, names))
            read = sql.SQL("COPY (SELECT {} FROM {} WHERE {}) TO STDOUT").format(
                columns,
                sql.Identifier(table),
                sql.SQL(condition),  # type: ignore[arg-type]
            )
            write = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), columns)
            new.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(table)))
            with old.cursor().copy(read) as rows, new.cursor().copy(write) as copied:
                for block in rows:
                    copied.write(block)
            if "id" in names:
                sequence = sql.SQL("SELECT setval(pg_get_serial_sequence({}, 'id'), max(id)) FROM {}")
                new.execute(sequence.format(sql.Literal(table), sql.Identifier(table)))


@pytest.fixture
def upgraded(
    indexed: Workbench, new_database: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> Workbench:
    """The same vault with an index of the fifth schema, as the program wrote it that had that."""
    url = new_database()
    known = migrate.load_migrations()
    with monkeypatch.context() as patch, connect(url) as conn:
        patch.setattr(migrate, "load_migrations", lambda: known[:5])
        migrate.apply_migrations(conn)
        conn.execute(
            sql.SQL("ALTER TABLE documents ALTER COLUMN embedding TYPE vector({})").format(
                sql.Literal(indexed.ollama.dimensions)
            )
        )
    copy_rows(
        indexed.database_url,
        url,
        {
            "index_settings": "TRUE",
            "notes": "TRUE",
            "documents": "TRUE",
            "note_links": "TRUE",
            "postings": "TRUE",
            "note_names": "kind IN ('title', 'alias', 'heading')",
            "keyword_stats": "TRUE",
        },
    )
    older = Workbench(indexed.vault, url, indexed.ollama)
    older.execute("UPDATE notes SET parser_version = 1, keyword_version = 2")
    return older


def test_an_index_of_the_fifth_schema_gains_types_in_place(indexed: Workbench, upgraded: Workbench) -> None:
    assert upgraded.rows("SELECT to_regclass('link_mentions')") == [(None,)]
    calls = len(upgraded.ollama.embed_calls)

    report = upgraded.index()

    assert (report.status, report.chunks_embedded, report.warnings) == ("ok", 0, ())
    assert len(upgraded.ollama.embed_calls) == calls
    assert upgraded.tables() == indexed.tables()
    assert upgraded.index().notes_unchanged == 3


def test_the_migration_may_run_twice_and_keeps_what_is_there(indexed: Workbench) -> None:
    before = indexed.tables()
    migration = next(m for m in migrate.load_migrations() if m.name == "relations")
    for _ in range(2):
        indexed.execute(migration.text)
    assert indexed.tables() == before


def test_a_database_of_the_first_schema_gains_types_without_embedding(
    vault: VaultFolder, new_database: Callable[..., str]
) -> None:
    with OllamaDouble(dimensions=768) as ollama:
        old = Workbench(vault, new_database(), ollama)
        old.execute(FIRST_SCHEMA)
        for path, text in NOTES.items():
            file_hash = hashlib.md5(vault.write(path, text).read_bytes()).hexdigest()
            old.execute(
                "INSERT INTO documents (file_path, file_hash, chunk_index, content, embedding)"
                " VALUES (%s, %s, 0, %s, array_fill(0.1, ARRAY[768])::vector)",
                path,
                file_hash,
                text,
            )
        old.execute("INSERT INTO note_links (source_path, target_name) VALUES ('Bob.md', 'Acme')")

        assert old.index().status == "ok"

        assert ollama.embed_calls == []
        typed = {row[:2]: row[2] for row in old.rows(TYPES)}
        assert typed["Ann Lee.md", "Acme"] == "founded"
        assert typed["Acme.md", "Cem"] == "advises"
        assert old.rows("SELECT count(*) FROM link_mentions") == [(8,)]


def test_links_of_several_vaults_are_typed_each_in_its_own(bench: Workbench, tmp_path: Path) -> None:
    other = VaultFolder(tmp_path / "other")
    for vault, verb in ((bench.vault, "founded"), (other, "advises")):
        vault.write("Ann.md", f"Ann {verb} [[Acme]].\n")
        vault.write("Acme.md", "A company.\n")
    vaults = parse_vaults(f"{bench.vault.root}:{other.root}")
    bench.index({"vaults": vaults})
    assert bench.rows("SELECT source_path, target_path, relation FROM note_links ORDER BY 1") == [
        ("other/Ann.md", "other/Acme.md", "advises"),
        ("vault/Ann.md", "vault/Acme.md", "founded"),
    ]
    assert bench.rows("SELECT node FROM link_names ORDER BY 1") == [("other/Acme.md",), ("vault/Acme.md",)]


def test_the_reading_role_may_read_the_new_tables(indexed: Workbench) -> None:
    allowed = indexed.rows(
        "SELECT has_table_privilege('rag_reader', t, 'SELECT'),"
        " has_table_privilege('rag_reader', t, 'INSERT'), has_table_privilege('rag_indexer', t, 'INSERT')"
        " FROM unnest(ARRAY['link_mentions', 'link_names']) AS t"
    )
    assert allowed == [(True, False, True)] * 2
