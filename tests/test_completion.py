"""Shell completion: what is offered, in the shells themselves, quickly and without a word of errors."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import VaultFolder

from obsidian_rag.cli import cli
from obsidian_rag.cli.completions import SHELLS

HERE = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}


@pytest.fixture
def notes(vault: VaultFolder) -> VaultFolder:
    for path in ("Home Server/Snapraid.md", "Home Server/Backups.md", "Garden $x.md", ".trash/Home gone.md"):
        vault.write(path, "x\n")
    vault.write("Home Server/picture.png", b"")
    return vault


def complete(words: str, environment: Mapping[str, str], folder: Path) -> list[str]:
    """What fish is offered for the last of these words, which stand each on a line."""
    done = subprocess.run(
        [sys.executable, "-m", "obsidian_rag"],
        env={**HERE, **environment, "_OBSIDIAN_RAG_COMPLETE": "zsh_complete", "COMP_WORDS": words,
             "COMP_CWORD": str(len(words.split("\n")) - 1), "HOME": str(folder)},
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()[1::3]


def test_notes_are_offered_by_path_and_by_name(notes: VaultFolder, tmp_path: Path) -> None:
    environment = {"VAULT_PATH": str(notes.root)}
    home = ["Home Server/Backups.md", "Home Server/Snapraid.md"]
    assert complete("obsidian-rag\nnote\nhome", environment, tmp_path) == home
    assert complete("obsidian-rag\ngraph\nsnap", environment, tmp_path) == home[1:]
    assert complete("obsidian-rag\ndiagnose\n--target\nBack", environment, tmp_path) == home[:1]
    assert complete("obsidian-rag\nnote\n", environment, tmp_path) == ["Garden $x.md", *home]


def test_the_vault_of_the_command_line_counts(notes: VaultFolder, tmp_path: Path) -> None:
    found = complete(f"obsidian-rag\nnote\n--vault\n{notes.root}\nsnap", {}, tmp_path)
    assert found == ["Home Server/Snapraid.md"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("search\n--mode\nk", ["keyword"]),
        ("search\n--intent\ne", ["exact", "entity"]),
        ("graph\n--direction\n", ["both", "out", "in"]),
        ("init\n--client\nclaude", ["claude-code", "claude-desktop"]),
        ("completion\n", list(SHELLS)),
        ("st", ["status"]),
    ],
)
def test_words_of_lists_are_offered(words: str, offered: list[str], tmp_path: Path) -> None:
    assert complete(f"obsidian-rag\n{words}", {}, tmp_path) == offered


@pytest.mark.parametrize(
    "environment",
    [{}, {"VAULT_PATH": "/nowhere"}, {"EMBEDDER": "nonsense"}, {"VAULT_PATH": "/a/x:/b/x"}],
)
def test_completion_that_fails_is_silent(environment: Mapping[str, str], tmp_path: Path) -> None:
    assert complete("obsidian-rag\nnote\nx", environment, tmp_path) == []


def test_completion_loads_nothing_heavy(notes: VaultFolder, tmp_path: Path) -> None:
    program = "import sys\nfrom obsidian_rag.cli import main\ntry:\n main()\nfinally:\n print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**HERE, "VAULT_PATH": str(notes.root), "_OBSIDIAN_RAG_COMPLETE": "zsh_complete",
             "COMP_WORDS": "obsidian-rag note snap", "COMP_CWORD": "2", "HOME": str(tmp_path)},
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "Home Server/Snapraid.md" in done.stdout
    assert not {"psycopg", "numpy", "httpx", "rich", "fastmcp"} & set(done.stdout.split())


@pytest.mark.parametrize("shell", SHELLS)
def test_each_script_is_one_that_its_shell_can_read(shell: str, tmp_path: Path) -> None:
    script = subprocess.run(
        [sys.executable, "-m", "obsidian_rag", "completion", shell],
        env=HERE, cwd=tmp_path, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "_OBSIDIAN_RAG_COMPLETE" in script
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize(
    ("typed", "inserted"),
    [("home", r"Home\ Server/Backups.md|Home\ Server/Snapraid.md"), ("gard", r"Garden\ \$x.md"),
     ("'Home Server/Sn", "Home Server/Snapraid.md")],
)  # fmt: skip
def test_bash_inserts_a_name_with_blanks_as_one_word(
    typed: str, inserted: str, notes: VaultFolder, tmp_path: Path
) -> None:
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    program = tmp_path / "obsidian-rag"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m obsidian_rag "$@"\n')
    program.chmod(0o755)
    lines = [
        "source <(obsidian-rag completion bash)",
        'COMP_WORDS=(obsidian-rag note "$1"); COMP_CWORD=2',
        '_obsidian_rag_completion obsidian-rag; IFS="|"; echo "${COMPREPLY[*]}"',
    ]
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines), "bash", typed],
        env={**HERE, "VAULT_PATH": str(notes.root), "HOME": str(tmp_path),
             "PATH": f"{tmp_path}:{HERE['PATH']}"},
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"{inserted}\n"
    assert "Error" not in done.stderr


def test_every_command_can_be_completed() -> None:
    assert {command.name for _, commands in cli.sections for command in commands} == set(cli.commands)
