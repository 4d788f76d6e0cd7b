"""The indexer against a real database and an Ollama double."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import VaultFolder, Workbench

from obsidian_rag.config import parse_vaults
from obsidian_rag.errors import IndexMismatch, SettingsError, VaultError
from obsidian_rag.indexing import Options, run_indexer
from obsidian_rag.progress import SilentProgress

THREE_SECTIONS = "# Alpha\n\nSome text.\n\n## Beta\n\nMore text.\n\n## Gamma\n\nThird.\n"
REPORT_KEYS = [
    "run_id", "status", "notes_seen", "notes_indexed", "notes_unchanged", "notes_renamed", "notes_deleted",
    "notes_failed", "chunks_written", "chunks_embedded", "chunks_reused", "links", "links_resolved",
    "seconds", "failures", "warnings",
]  # fmt: skip


def fill(vault: VaultFolder, count: int, folder: str = "") -> None:
    for number in range(count):
        vault.write(f"{folder}Note {number}.md", f"# Note {number}\n\nThe text of number {number}.\n")


def paths(bench: Workbench) -> list[str]:
    return [path for (path,) in bench.rows("SELECT file_path FROM notes ORDER BY 1")]


def test_a_second_run_embeds_nothing_and_says_so(bench: Workbench) -> None:
    bench.vault.write("A.md", "# Alpha\n\nSome text.\n\n## Beta\n\nMore text.\n")
    first = bench.index()
    assert (first.status, first.notes_indexed, first.chunks_embedded) == ("ok", 1, 2)
    before = bench.tables()

    second = bench.index()

    assert (second.notes_unchanged, second.notes_indexed, second.chunks_embedded) == (1, 0, 0)
    assert bench.tables() == before


def test_a_run_that_changes_nothing_asks_no_embedder(bench: Workbench) -> None:
    fill(bench.vault, 3)
    bench.index()
    bench.ollama.stop()

    assert bench.index().status == "ok"


def test_only_the_edited_section_is_embedded(bench: Workbench) -> None:
    bench.vault.write("A.md", THREE_SECTIONS)
    bench.index()
    bench.ollama.forget()
    bench.vault.write("A.md", THREE_SECTIONS.replace("More text.", "Other words."))

    report = bench.index()

    assert (report.chunks_embedded, report.chunks_reused) == (1, 2)
    assert len(bench.ollama.texts) == 1
    assert "Other words." in bench.ollama.texts[0]


def test_the_report_has_the_documented_keys(bench: Workbench) -> None:
    fill(bench.vault, 1)
    assert list(bench.index().to_json()) == REPORT_KEYS


def test_a_renamed_note_keeps_its_vectors_and_leaves_no_row(bench: Workbench) -> None:
    bench.vault.write("Old.md", THREE_SECTIONS)
    bench.vault.write("Linker.md", "See [[Old]].\n")
    bench.index()
    bench.vault.move("Old.md", "deep/er/New name.md")

    report = bench.index()

    assert (report.notes_renamed, report.chunks_embedded, report.notes_deleted) == (1, 0, 0)
    assert paths(bench) == ["Linker.md", "deep/er/New name.md"]
    assert bench.rows("SELECT count(*) FROM documents WHERE file_path = 'Old.md'") == [(0,)]
    assert bench.rows("SELECT target_path FROM note_links") == [(None,)]
    assert bench.rows("SELECT DISTINCT path_terms FROM documents WHERE file_path LIKE 'deep%'") == [
        ("deep er New name",)
    ]


def test_a_renamed_folder_embeds_nothing(bench: Workbench) -> None:
    fill(bench.vault, 40, "Projects/")
    bench.index()
    bench.vault.move("Projects", "Archive/2024")

    report = bench.index()

    assert (report.notes_renamed, report.chunks_embedded) == (40, 0)
    assert all(path.startswith("Archive/2024/") for path in paths(bench))


def test_a_rename_in_case_alone_embeds_nothing(bench: Workbench) -> None:
    bench.vault.write("note.md", THREE_SECTIONS)
    bench.index()
    bench.vault.move("note.md", "Note.md")

    report = bench.index()

    assert (report.notes_renamed, report.chunks_embedded) == (1, 0)
    assert paths(bench) == ["Note.md"]


def test_two_notes_that_swap_names_embed_nothing(bench: Workbench) -> None:
    bench.vault.write("A.md", "# One\n\nFirst text.\n")
    bench.vault.write("B.md", "# Two\n\nSecond text.\n")
    bench.index()
    bench.vault.move("A.md", "C.md")
    bench.vault.move("B.md", "A.md")
    bench.vault.move("C.md", "B.md")

    assert bench.index().chunks_embedded == 0
    assert bench.rows("SELECT heading FROM documents ORDER BY file_path") == [("Two",), ("One",)]


def test_notes_that_swap_names_far_apart_embed_nothing(bench: Workbench) -> None:
    """The second is stored rounds after the first took its name, and its vectors with it."""
    bench.vault.write("A.md", "# One\n\nFirst text.\n")
    fill(bench.vault, 300, "M/")
    bench.vault.write("Z.md", "# Two\n\nSecond text.\n")
    bench.index()
    bench.vault.move("A.md", "C.md")
    bench.vault.move("Z.md", "A.md")
    bench.vault.move("C.md", "Z.md")

    assert bench.index(full=True).chunks_embedded == 0


def test_text_moved_to_another_note_keeps_its_vector(bench: Workbench) -> None:
    section = "## Moved\n\nA section that changes its note.\n"
    for source, target in (("A.md", "Z.md"), ("Z.md", "A.md")):
        bench.vault.write(source, "Lead.\n\n" + section)
        bench.vault.write(target, "Other lead.\n")
        bench.index()
        bench.vault.write(source, "Lead.\n\n")
        bench.vault.write(target, "Other lead.\n\n" + section)

        report = bench.index()

        assert report.chunks_embedded == 0, (source, report)


def test_a_note_renamed_and_edited_embeds_only_what_is_new(bench: Workbench) -> None:
    bench.vault.write("Old.md", THREE_SECTIONS)
    bench.index()
    bench.vault.delete("Old.md")
    bench.vault.write("New.md", THREE_SECTIONS.replace("Third.", "Changed."))

    report = bench.index()

    assert (report.chunks_embedded, report.chunks_reused, report.notes_deleted) == (1, 2, 1)


def test_notes_with_the_same_content_share_vectors_and_are_all_in(bench: Workbench) -> None:
    for name in ("A", "B", "C"):
        bench.vault.write(f"{name}.md", "# Same\n\nThe very same text.\n")
    bench.vault.write("Empty 1.md", "")
    bench.vault.write("Empty 2.md", "")

    report = bench.index()

    assert (report.notes_indexed, report.chunks_embedded, report.chunks_written) == (5, 1, 3)
    bench.vault.move("B.md", "D.md")
    bench.vault.move("Empty 2.md", "Empty 3.md")
    again = bench.index()
    assert (again.notes_renamed, again.chunks_embedded) == (2, 0)
    assert paths(bench) == ["A.md", "C.md", "D.md", "Empty 1.md", "Empty 3.md"]


def test_of_a_deleted_note_no_row_is_left(bench: Workbench) -> None:
    bench.vault.write("Keep.md", "Links to [[Gone]] and [[Picture.png]].\n")
    bench.vault.write("Gone.md", "# Gone\n\nLinks to [[Keep]].\n")
    bench.index()
    bench.vault.delete("Gone.md")

    report = bench.index()

    assert report.notes_deleted == 1
    for table, column in (("documents", "file_path"), ("notes", "file_path"), ("note_links", "source_path")):
        assert bench.rows(f"SELECT DISTINCT {column} FROM {table}") == [("Keep.md",)]  # noqa: S608
    assert bench.rows("SELECT DISTINCT target_path, target_type FROM note_links") == [(None, "unresolved")]


def test_links_follow_notes_that_come_and_go(bench: Workbench) -> None:
    bench.vault.write("A.md", "[[B]] and [[Nickname]] and [[A#Part]]\n")
    bench.index()
    assert bench.rows("SELECT target_name, target_path, via FROM note_links ORDER BY id") == [
        ("B", None, None), ("Nickname", None, None), ("A", "A.md", "name"),
    ]  # fmt: skip
    bench.vault.write("sub/B.md", "---\naliases: [Nickname]\n---\nText.\n")

    report = bench.index()

    assert (report.links, report.links_resolved) == (3, 3)
    assert bench.rows("SELECT target_name, target_path, via FROM note_links ORDER BY id") == [
        ("B", "sub/B.md", "name"), ("Nickname", "sub/B.md", "alias"), ("A", "A.md", "name"),
    ]  # fmt: skip


def test_several_vaults_have_prefixed_paths_and_links_of_their_own(bench: Workbench, tmp_path: Path) -> None:
    work, home = VaultFolder(tmp_path / "work"), VaultFolder(tmp_path / "home")
    work.write("Plan.md", "See [[Other]] and [[Only at home]].\n")
    work.write("Other.md", "At work.\n")
    home.write("Other.md", "At home.\n")
    home.write("Only at home.md", "[[Other]]\n")
    vaults = parse_vaults(f"{work.root}{os.pathsep}{home.root}")

    report = bench.index({"vaults": vaults})

    assert report.status == "ok"
    assert paths(bench) == ["home/Only at home.md", "home/Other.md", "work/Other.md", "work/Plan.md"]
    links = "SELECT source_path, target_name, target_path FROM note_links ORDER BY 1, 2"
    assert bench.rows(links) == [
        ("home/Only at home.md", "Other", "home/Other.md"),
        ("work/Plan.md", "Only at home", None),
        ("work/Plan.md", "Other", "work/Other.md"),
    ]
    assert bench.index({"vaults": vaults}).notes_unchanged == 4


def test_a_second_vault_joins_without_embedding_the_first_again(bench: Workbench, tmp_path: Path) -> None:
    fill(bench.vault, 30)
    bench.index()
    other = VaultFolder(tmp_path / "other")
    other.write("New.md", "A new text.\n")

    report = bench.index({"vaults": parse_vaults(f"{bench.vault.root}{os.pathsep}{other.root}")})

    assert (report.notes_renamed, report.notes_indexed, report.chunks_embedded) == (30, 1, 1)


def test_a_vault_is_the_same_however_its_path_is_written(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fill(bench.vault, 2)
    bench.index()
    link = tmp_path / "link to it"
    link.symlink_to(bench.vault.root)
    monkeypatch.chdir(tmp_path)
    for spelling in ("vault", "vault/", "./vault/../vault", str(link), f"{bench.vault.root}//"):
        report = bench.index({"vaults": parse_vaults(spelling)})
        assert (report.notes_unchanged, report.notes_indexed, report.notes_deleted) == (2, 0, 0), spelling


@pytest.mark.parametrize("name", ["my notes", "it's", 'say "x"', "a:b", "100%", "{x}", "Заметки 笔记", "-x"])
def test_any_folder_name_will_do(bench: Workbench, tmp_path: Path, name: str) -> None:
    vault = VaultFolder(tmp_path / name)
    fill(vault, 1, "sub folder/")

    assert bench.index({"vaults": parse_vaults(str(vault.root))}).status == "ok"
    assert paths(bench) == ["sub folder/Note 0.md"]


def test_a_vault_whose_name_is_not_utf_8_can_be_indexed(bench: Workbench, tmp_path: Path) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/notes-\xe9"))
    try:
        root.mkdir()
    except OSError:
        pytest.skip("this file system takes no such name")
    (root / "A.md").write_text("Text.\n", "utf-8")

    assert bench.index({"vaults": parse_vaults(str(root))}).status == "ok"
    assert bench.rows("SELECT vaults FROM index_settings") == [([f"{tmp_path}/notes-\\xe9"],)]


def test_a_name_in_either_unicode_form_is_the_note_it_names(bench: Workbench) -> None:
    bench.vault.write(unicodedata.normalize("NFD", "Café.md"), "Text.\n")
    bench.vault.write("A.md", unicodedata.normalize("NFC", "[[Café]]\n"))

    report = bench.index()

    assert (report.links_resolved, report.notes_failed) == (1, 0)
    assert bench.index().notes_unchanged == 2


def test_another_vault_does_not_silently_replace_an_index(bench: Workbench, tmp_path: Path) -> None:
    fill(bench.vault, 3)
    bench.index()
    before = bench.tables()
    other = VaultFolder(tmp_path / "other")
    other.write("New.md", "New.\n")
    settings = {"vaults": parse_vaults(str(other.root))}

    for _ in range(2):
        with pytest.raises(IndexMismatch, match="would replace it"):
            bench.index(settings)
        assert bench.tables() == before

    assert bench.index(settings, allow_mass_delete=True).notes_deleted == 3
    assert paths(bench) == ["New.md"]


def test_a_moved_vault_embeds_nothing(bench: Workbench, tmp_path: Path) -> None:
    fill(bench.vault, 3)
    bench.index()
    bench.vault.root.rename(tmp_path / "elsewhere")

    report = bench.index({"vaults": parse_vaults(str(tmp_path / "elsewhere"))})

    assert (report.notes_unchanged, report.chunks_embedded) == (3, 0)


def test_losing_most_notes_at_once_changes_nothing_unless_it_is_meant(bench: Workbench) -> None:
    fill(bench.vault, 30, "sub/")
    bench.vault.write("Keep.md", "Text.\n")
    bench.index()
    bench.vault.delete("sub")
    before = bench.tables()

    with pytest.raises(VaultError, match="30 of the 31 notes in the index are not in"):
        bench.index()
    assert bench.tables() == before
    with pytest.raises(VaultError, match="30 of the 31"):
        bench.index(dry_run=True)

    assert bench.index(allow_mass_delete=True).notes_deleted == 30


def test_an_empty_vault_changes_nothing_unless_it_is_meant(bench: Workbench) -> None:
    fill(bench.vault, 2)
    bench.index()
    for number in range(2):
        bench.vault.delete(f"Note {number}.md")

    with pytest.raises(VaultError, match="There is no note"):
        bench.index()
    assert len(paths(bench)) == 2

    assert bench.index(allow_mass_delete=True).notes_deleted == 2


def test_a_note_that_becomes_excluded_leaves_the_index(bench: Workbench) -> None:
    bench.vault.write("Private/Diary.md", "# Secret\n\nText.\n")
    bench.vault.write("A.md", "[[Diary]]\n")
    bench.index()
    bench.vault.write(".obsidian/app.json", '{"userIgnoreFilters": ["Private/"]}')

    report = bench.index()

    assert (report.notes_deleted, report.status) == (1, "ok")
    assert any("Excluded files" in warning for warning in report.warnings)
    assert paths(bench) == ["A.md"]
    assert bench.rows("SELECT target_path, target_type FROM note_links") == [("Private/Diary.md", "note")]


def test_a_vault_of_excluded_notes_only_is_told_from_an_empty_one(bench: Workbench) -> None:
    bench.vault.write("Private/Diary.md", "Text.\n")
    bench.vault.write(".obsidian/app.json", '{"userIgnoreFilters": ["Private/"]}')

    with pytest.raises(VaultError, match="no note that is not left out"):
        bench.index()


def test_an_edit_that_keeps_size_and_times_is_seen(bench: Workbench) -> None:
    file = bench.vault.write("A.md", "# A\n\nfirst\n")
    bench.index()
    times = file.stat()
    bench.vault.write("A.md", "# A\n\nother\n")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert bench.index().notes_indexed == 1


def test_a_note_written_again_with_the_same_bytes_is_unchanged_and_its_times_are_kept(
    bench: Workbench,
) -> None:
    file = bench.vault.write("A.md", "Text.\n")
    bench.index()
    os.utime(file, ns=(0, 1_000_000_000))

    assert (bench.index().notes_unchanged, bench.index().notes_unchanged) == (1, 1)
    assert bench.rows("SELECT mtime_ns FROM notes") == [(1_000_000_000,)]


def test_a_note_that_changes_between_plan_and_write_is_stored_as_it_is_then(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obsidian_rag import indexing

    bench.vault.write("A.md", "# A\n\nAs planned.\n")
    bench.vault.write("B.md", "# B\n\nGone before it is read.\n")
    write_notes = indexing.write_notes

    def write_later(*arguments: object) -> None:
        bench.vault.write("A.md", "# A\n\nAs written.\n")
        bench.vault.delete("B.md")
        write_notes(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(indexing, "write_notes", write_later)
    report = bench.index()

    assert bench.rows("SELECT content FROM notes") == [("# A\n\nAs written.\n",)]
    assert [(f.file_path, f.stage) for f in report.failures] == [("B.md", "read")]
    monkeypatch.undo()
    again = bench.index()
    assert (again.status, again.notes_unchanged, again.chunks_embedded) == ("ok", 1, 0)


def test_full_reads_every_note_again_and_embeds_nothing(bench: Workbench) -> None:
    fill(bench.vault, 3)
    bench.index()
    before = bench.tables()

    report = bench.index(full=True)

    assert (report.notes_indexed, report.chunks_embedded, report.chunks_reused) == (3, 0, 3)
    assert bench.tables() == before


def test_a_new_parser_reads_every_note_again_and_embeds_nothing(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obsidian_rag import indexing, intake

    fill(bench.vault, 3)
    bench.index()
    for module in (indexing, intake):
        monkeypatch.setattr(module, "PARSER_VERSION", 99)

    report = bench.index()

    assert (report.notes_indexed, report.chunks_embedded) == (3, 0)
    assert bench.index().notes_unchanged == 3


def test_another_text_search_configuration_is_an_error_until_the_index_is_made_anew(
    bench: Workbench, new_bench: Callable[[VaultFolder], Workbench]
) -> None:
    bench.vault.write("A.md", "# Houses\n\nThe houses were running.\n")
    bench.index()

    with pytest.raises(IndexMismatch, match=r"FTS_CONFIG=auto, now it is simple.*--full"):
        bench.index({"fts_config": "simple"})
    with pytest.raises(SettingsError, match="no text search configuration 'klingon'"):
        bench.index({"fts_config": "klingon"})

    assert bench.index({"fts_config": "simple"}, full=True).chunks_embedded == 0
    assert bench.index().notes_unchanged == 1  # recorded: nobody has to name it again
    with pytest.raises(IndexMismatch, match="FTS_CONFIG=simple, now it is english"):
        bench.index({"fts_config": "english"})
    fresh = new_bench(bench.vault)
    fresh.index({"fts_config": "simple"})
    assert bench.tables() == fresh.tables()


@pytest.mark.parametrize(
    "settings", [{"embedder": "local"}, {"embed_model": "all-minilm"}, {"embed_model": "nomic-embed-text:v9"}]
)
def test_another_embedder_is_an_error_even_where_nothing_is_to_be_embedded(
    bench: Workbench, settings: dict[str, str]
) -> None:
    fill(bench.vault, 2)
    bench.index()
    before = bench.tables()
    bench.ollama.stop()  # nobody has to be asked

    for dry_run in (True, False):
        with pytest.raises(IndexMismatch, match="--reembed"):
            bench.index(settings, dry_run=dry_run)
    assert bench.tables() == before


def test_the_same_embedder_by_another_spelling_is_no_other(bench: Workbench) -> None:
    fill(bench.vault, 2)
    bench.index()

    report = bench.index({"embedder": "ollama", "embed_model": "nomic-embed-text:latest"})

    assert report.notes_unchanged == 2


def test_an_address_of_ollama_that_is_not_used_is_told(bench: Workbench) -> None:
    class Listener(SilentProgress):
        def __init__(self) -> None:
            self.said: list[str] = []

        def say(self, text: str) -> None:
            self.said.append(text)

    def told(**changes: Any) -> list[str]:
        listener = Listener()
        run_indexer(replace(bench.settings, **changes), Options(), listener)
        return [text for text in listener.said if "OLLAMA_URL" in text]

    bench.vault.write("A.md", "Text.\n")
    assert told(embedder="local") == []
    (text,) = told()
    assert "made with the bundled model minilm" in text
    assert "obsidian-rag index --reembed" in text
    assert told(ollama_url_is_set=False) == []
    assert told(embedder="local") == []
    assert told(embed_model="minilm") == []
    bench.index(reembed=True)
    assert told() == []


def test_reembed_takes_another_model_with_other_dimensions(
    bench: Workbench, new_bench: Callable[[VaultFolder], Workbench]
) -> None:
    from ollama_double import Model

    bench.vault.write("A.md", THREE_SECTIONS)
    bench.vault.write("B.md", "[[A]]\n")
    bench.index()
    bench.ollama.pull(Model("all-minilm", 32))
    settings = {"embed_model": "all-minilm"}

    report = bench.index(settings, reembed=True)

    assert (report.status, report.notes_indexed, report.chunks_embedded) == ("ok", 2, 4)
    assert bench.rows("SELECT embed_model, dimensions FROM index_settings") == [("all-minilm", 32)]
    assert bench.found("more text", "vector")
    fresh = new_bench(bench.vault)
    fresh.index(settings)
    assert bench.tables() == fresh.tables()


def test_reembed_with_a_model_that_fails_leaves_the_index_as_it_is(bench: Workbench) -> None:
    from obsidian_rag.errors import EmbedderError

    fill(bench.vault, 2)
    bench.index()
    before = bench.tables()

    with pytest.raises(EmbedderError, match="ollama pull"):
        bench.index({"embed_model": "bge-m3"}, reembed=True)
    bench.ollama.always = "nan500"
    with pytest.raises(EmbedderError):
        bench.index(reembed=True)
    bench.ollama.always = None

    assert bench.tables() == before
    assert bench.index().notes_unchanged == 2


def test_wide_vectors_are_indexed_as_halfvec(
    new_database: Callable[..., str], migrated: str, vault: VaultFolder
) -> None:
    from ollama_double import OllamaDouble

    vault.write("A.md", THREE_SECTIONS)
    with OllamaDouble(dimensions=2560) as ollama:
        bench = Workbench(vault, new_database(migrated), ollama)
        bench.index()
        assert bench.found("more text", "vector") == ["A.md"]
        definition = bench.rows("SELECT pg_get_indexdef('documents_embedding_idx'::regclass)")[0][0]
        assert "halfvec(2560)" in definition


def test_a_dry_run_writes_nothing_at_all(bench: Workbench, database_url: str) -> None:
    fill(bench.vault, 3)
    empty = Workbench(bench.vault, database_url, bench.ollama)

    planned = empty.index(dry_run=True)

    assert (planned.run_id, planned.notes_indexed, planned.status) == (None, 3, "ok")
    assert empty.rows("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace") == []
    bench.index()
    bench.vault.write("Note 0.md", "changed")
    bench.vault.move("Note 1.md", "Moved.md")
    bench.vault.delete("Note 2.md")
    before, runs = bench.tables(), bench.rows("TABLE index_runs")
    planned = bench.index(dry_run=True)
    assert (planned.notes_indexed, planned.notes_renamed, planned.notes_deleted) == (1, 1, 1)
    assert (bench.tables(), bench.rows("TABLE index_runs")) == (before, runs)
    done = bench.index()
    assert (done.notes_indexed, done.notes_renamed, done.notes_deleted) == (1, 1, 1)


def test_each_run_is_in_the_ledger_with_what_it_did(bench: Workbench) -> None:
    fill(bench.vault, 2)
    report = bench.index()

    ledger = "SELECT run_id, status, error, report->>'notes_indexed' FROM last_run"
    assert bench.rows(ledger) == [(report.run_id, "ok", None, "2")]
    with pytest.raises(IndexMismatch):
        bench.index({"embedder": "local"})
    ((_, status, error, _),) = bench.rows(ledger)
    assert status == "failed"
    assert "cannot be mixed" in error


def test_the_vault_is_only_ever_read(bench: Workbench) -> None:
    fill(bench.vault, 3, "sub/")
    bench.vault.write(".obsidian/app.json", "{}")

    def look() -> list[tuple[str, int, int]]:
        files = sorted(bench.vault.root.rglob("*"))
        return [(str(f), f.stat().st_mtime_ns, f.stat().st_size) for f in [bench.vault.root, *files]]

    before = look()
    bench.index()
    assert look() == before
