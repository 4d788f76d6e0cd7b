"""How messages name this program, and how they count."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from obsidian_rag import program
from obsidian_rag.cli import cli
from obsidian_rag.counts import choose, count
from obsidian_rag.program import COMMANDS, find_program, name_program, spell_commands


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This program as it lies in a checkout's environment, which is on no PATH."""
    file = tmp_path / "my notes" / ".venv" / "bin" / "obsidian-rag"
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\necho it runs\n")
    file.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(file.with_name("python")))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return file


def test_the_commands_that_messages_name_are_those_of_the_command_line() -> None:
    assert sorted(COMMANDS) == sorted(cli.commands)


def test_what_the_shell_finds_is_named_briefly(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linked = installed.parents[3] / "bin"
    linked.mkdir()
    (linked / "obsidian-rag").symlink_to(installed)
    monkeypatch.setenv("PATH", f"{linked}:/usr/bin:/bin")
    assert name_program() == "obsidian-rag"


def test_another_program_of_that_name_on_the_path_is_not_taken_for_this_one(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = installed.parents[3] / "other"
    shutil.copytree(installed.parent, other)
    monkeypatch.setenv("PATH", f"{other}:/usr/bin:/bin")
    monkeypatch.chdir(installed.parents[2])
    assert name_program() == ".venv/bin/obsidian-rag"


@pytest.mark.parametrize(
    ("above", "name"), [(2, ".venv/bin/obsidian-rag"), (0, "./obsidian-rag"), (1, "bin/obsidian-rag")]
)
def test_below_the_working_folder_it_is_named_from_there(
    installed: Path, monkeypatch: pytest.MonkeyPatch, above: int, name: str
) -> None:
    monkeypatch.chdir(installed.parents[above])
    assert name_program() == name
    ran = subprocess.run(["sh", "-c", name_program()], capture_output=True, text=True, check=True)
    assert ran.stdout == "it runs\n"


def test_elsewhere_its_whole_path_is_named_for_the_shell(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/usr")
    assert name_program() == find_program() == f"'{installed}'"
    ran = subprocess.run(["sh", "-c", name_program()], capture_output=True, text=True, check=True)
    assert ran.stdout == "it runs\n"


def test_only_commands_are_spelled_out_not_the_name_in_a_sentence_a_path_or_a_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(program, "name_program", lambda: "HERE")
    for text in (
        "Run: obsidian-rag index", "obsidian-rag init, or: obsidian-rag index --full.",
        "`obsidian-rag status` tells", 'Run: obsidian-rag psql --write -- -c "X"',
    ):  # fmt: skip
        assert spell_commands(text) == text.replace("obsidian-rag", "HERE")
    for text in (
        "run obsidian-rag as another user", "obsidian-rag failed", "pip install 'obsidian-rag[embedded]'",
        "/opt/obsidian-rag serve", "Notes/obsidian-rag index.md", "obsidian-rag index.md",
        "claude mcp add obsidian-rag -- /x/obsidian-rag serve", "obsidian-rag indexes", "my-obsidian-rag web",
    ):  # fmt: skip
        assert spell_commands(text) == text


def test_an_error_on_the_terminal_names_the_program_as_it_can_be_typed_and_json_briefly(
    installed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(installed.parents[2])
    variables = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    variables |= {"VAULT_PATH": "", "DATABASE_URL": ""}
    done = CliRunner().invoke(cli, ["index", "--json"], env=variables)
    assert done.exit_code == 2
    assert "Run: .venv/bin/obsidian-rag init, or: .venv/bin/obsidian-rag index /path/to/vault" in done.stderr
    assert '"Run: obsidian-rag init, or: obsidian-rag index /path/to/vault"' in done.stdout


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 notes are"), (1, "1 note is"), (2, "2 notes are"), (11, "11 notes are")]
)
def test_one_is_counted_in_the_singular_and_all_else_in_the_plural(number: int, text: str) -> None:
    assert f"{count(number, 'note')} {choose(number, 'is', 'are')}" == text
    assert count(number, "entry", "entries").endswith("y") is (number == 1)
