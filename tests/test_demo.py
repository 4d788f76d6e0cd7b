"""The demo's last lines, and what it does with a database of one's own."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from conftest import Workbench

from obsidian_rag.config import Settings, Vault
from obsidian_rag.demo import EXAMPLE_TOUR, connect_line, describe_next_steps, example_vault, run_demo
from obsidian_rag.errors import IndexMismatch
from obsidian_rag.program import name_program


def expand(line: str, **variables: str) -> list[str]:
    """The words that a shell makes of a line."""
    shown = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {line}"], env=variables, capture_output=True, text=True, check=True
    )
    return shown.stdout.splitlines()


def test_the_line_for_claude_code_holds_all_that_the_server_needs() -> None:
    settings = Settings(
        vaults=(Vault(Path("/it's my/$vault")),),
        data_dir=Path("/data & more"),
        ollama_url="http://box:11434",
        ollama_url_is_set=True,
        embed_model="bge-m3",
        embedder="ollama",
        fts_config="german",
    )
    words = expand(connect_line(settings, "'/my tools/obsidian-rag'"))
    assert words == [
        "claude", "mcp", "add", "--scope", "user", "obsidian-rag",
        "-e", "VAULT_PATH=/it's my/$vault",
        "-e", "OBSIDIAN_RAG_DATA=/data & more",
        "-e", "OLLAMA_URL=http://box:11434",
        "-e", "EMBED_MODEL=bge-m3",
        "-e", "EMBEDDER=ollama",
        "-e", "FTS_CONFIG=german",
        "--", "/my tools/obsidian-rag", "serve",
    ]  # fmt: skip


def test_what_was_not_set_is_not_passed_on() -> None:
    line = connect_line(Settings(vaults=(Vault(Path("/vault")),)), "obsidian-rag")
    assert line == "claude mcp add --scope user obsidian-rag -e VAULT_PATH=/vault -- obsidian-rag serve"


def test_a_password_is_left_to_the_shell() -> None:
    url = "postgresql://me:secret@host/notes"
    settings = Settings(vaults=(Vault(Path("/vault")),), database_url=url)
    text = describe_next_steps(settings, own=True)
    assert "secret" not in text
    assert "DATABASE_URL is taken from your shell" in text
    assert f"DATABASE_URL={url}" in expand(connect_line(settings, "x"), DATABASE_URL=url)


def test_a_database_without_a_password_is_named() -> None:
    settings = Settings(vaults=(Vault(Path("/vault")),), database_url="postgresql:///notes")
    assert "DATABASE_URL=postgresql:///notes" in expand(connect_line(settings, "x"))


def test_several_vaults_stay_one_setting() -> None:
    settings = Settings(vaults=(Vault(Path("/a b"), "a b/"), Vault(Path("/c"), "c/")))
    assert "VAULT_PATH=/a b:/c" in expand(connect_line(settings, "x"))
    assert shlex.quote("/a b:/c") in describe_next_steps(settings, own=True)


def test_the_first_way_on_is_init(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings(vaults=(Vault(Path("/my notes")),))
    for own, arguments in ((False, ["init"]), (True, ["init", "--vault", "/my notes"])):
        lines = describe_next_steps(settings, own).splitlines()
        assert expand(lines[1].strip()) == [*expand(name_program()), *arguments]
        assert "claude mcp add" in lines[3]


def test_the_example_tour_enters_a_note_that_exists() -> None:
    assert EXAMPLE_TOUR.entrance is not None
    assert (example_vault() / EXAMPLE_TOUR.entrance).is_file()


def test_a_vault_of_ones_own_is_asked_about_its_most_linked_notes(
    bench: Workbench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.vault.write("Hub.md", "# Hub\n\nWords.\n")
    for name in "ABC":
        bench.vault.write(f"{name}.md", "[[Hub]]\n")

    assert run_demo(bench.settings) == 0

    said = capsys.readouterr().out
    assert "=== hybrid: Hub" in said
    assert "1. Hub.md" in said
    assert "# Wikilink Graph: Hub.md\n## Hop 1 (3 links)" in said


def test_the_example_never_replaces_the_index_of_a_vault(bench: Workbench) -> None:
    bench.vault.write("Mine.md", "Words.\n")
    bench.index()
    settings = Settings(database_url=bench.database_url, ollama_url=bench.ollama.url, ollama_url_is_set=True)
    with pytest.raises(IndexMismatch):
        run_demo(settings)
    assert bench.rows("SELECT file_path FROM notes") == [("Mine.md",)]
