"""MCP clients as the doctor sees them: whose configuration starts our server, and with what."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from obsidian_rag.config import Settings, parse_vaults
from obsidian_rag.doctor import clients
from obsidian_rag.doctor.clients import expand, is_ours, list_places
from obsidian_rag.doctor.examination import Patient, Surroundings, examine
from obsidian_rag.doctor.report import Check


class Machine:
    """A home, a project folder below it, a vault, and a program to start."""

    def __init__(self, root: Path) -> None:
        self.home, self.vault = root / "home", root / "vault"
        self.folder = self.home / "work" / "project"
        for folder in (self.folder, self.vault, self.home / "bin"):
            folder.mkdir(parents=True)
        self.program = self.add_program("obsidian-rag", "exit 0")
        self.settings = Settings(vaults=parse_vaults(str(self.vault)))
        self.variables = {"PATH": f"{self.home / 'bin'}:/usr/bin:/bin"}

    def add_program(self, name: str, script: str) -> str:
        file = self.home / "bin" / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        return str(file)

    def write(self, path: str, content: Any) -> Path:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return file

    def entry(self, vault: str | None = None, **others: Any) -> dict[str, Any]:
        """Our server as a client's configuration holds it."""
        environment = {"VAULT_PATH": str(self.vault) if vault is None else vault}
        return {"command": self.program, "args": ["serve"], "env": environment} | others

    def look(self, **settings: Any) -> list[Check]:
        around = Surroundings(self.home, self.folder, self.variables, "linux")
        return list(examine(Patient(replace(self.settings, **settings), around), clients.CHECKS))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("path", "keys", "client"),
    [
        (".claude.json", ["mcpServers"], "Claude Code"),
        (".claude.json", ["projects", "{home}/work/project", "mcpServers"], "Claude Code"),
        (".claude.json", ["projects", "{home}/work", "mcpServers"], "Claude Code"),
        ("work/project/.mcp.json", ["mcpServers"], "Claude Code"),
        ("work/.mcp.json", ["mcpServers"], "Claude Code"),
        (".config/Claude/claude_desktop_config.json", ["mcpServers"], "Claude Desktop"),
        (".cursor/mcp.json", ["mcpServers"], "Cursor"),
        ("work/project/.cursor/mcp.json", ["mcpServers"], "Cursor"),
        (".config/Code/User/mcp.json", ["servers"], "VS Code"),
        ("work/project/.vscode/mcp.json", ["servers"], "VS Code"),
        (".gemini/settings.json", ["mcpServers"], "Gemini CLI"),
        (".codeium/windsurf/mcp_config.json", ["mcpServers"], "Windsurf"),
    ],
)
def test_a_server_is_found_in_the_configuration_of_each_client(
    machine: Machine, path: str, keys: list[str], client: str
) -> None:
    content: Any = {"other": {"command": "npx", "args": ["-y", "server"]}, "notes": machine.entry()}
    for key in reversed(keys):
        content = {key.format(home=machine.home): content, "unrelated": 1}
    file = machine.write(path, content)

    (check,) = machine.look()

    assert (check.group, check.name, check.status) == ("mcp", client, "ok")
    assert f"notes in {file}" in check.message
    assert f"VAULT_PATH is {machine.vault}" in check.message


def test_a_server_is_found_in_toml_and_where_a_client_was_told_to_keep_it(machine: Machine) -> None:
    machine.variables |= {"CODEX_HOME": str(machine.home / "c"), "CLAUDE_CONFIG_DIR": str(machine.home / "d")}
    machine.write(
        "c/config.toml",
        f'[mcp_servers.o]\ncommand = "{machine.program}"\nargs = ["serve"]\n'
        f'[mcp_servers.o.env]\nVAULT_PATH = "{machine.vault}"\n',
    )
    machine.write("d/.claude.json", {"mcpServers": {"o": machine.entry()}})
    assert [(check.name, check.status) for check in machine.look()] == [
        ("Claude Code", "ok"),
        ("Codex", "ok"),
    ]


def test_the_places_of_a_mac_are_those_of_a_mac(machine: Machine) -> None:
    around = Surroundings(machine.home, machine.folder, {}, "darwin")
    files = {place.file for place in list_places(around)}
    assert machine.home / "Library/Application Support/Claude/claude_desktop_config.json" in files


def test_without_a_registration_the_line_that_makes_one_is_given(machine: Machine) -> None:
    machine.write(".claude.json", {"mcpServers": {"other": {"command": "npx"}, "odd": 3}, "projects": []})
    (check,) = machine.look(database_url="postgresql://u:hunter2@h/d")
    assert (check.name, check.status) == ("registration", "warning")
    line = check.mend.removeprefix("For Claude Code: ")
    words = shlex.split(line)
    assert words[:3] == ["claude", "mcp", "add"]
    assert f"VAULT_PATH={machine.vault}" in words
    assert 'DATABASE_URL="$DATABASE_URL"' in line
    assert "hunter2" not in str(check)
    (check,) = machine.look(vaults=())
    assert "VAULT_PATH=/path/to/vault" in check.mend


@pytest.mark.parametrize("text", ["{bad", '{"mcpServers": {} // comment\n}', "\x00", "[1, 2"])
def test_a_configuration_that_cannot_be_read_is_no_pass(machine: Machine, text: str) -> None:
    machine.write("work/project/.mcp.json", text)
    checks = machine.look()
    assert [(check.name, check.status) for check in checks] == [
        ("Claude Code", "skipped"), ("registration", "warning"),
    ]  # fmt: skip
    assert "cannot be read" in checks[0].message
    assert checks[0].mend


def test_an_unreadable_file_of_several_scopes_is_told_once(machine: Machine) -> None:
    machine.write(".claude.json", "{bad")
    assert sum(check.status == "skipped" for check in machine.look()) == 1


def test_a_registration_with_another_vault_or_database_or_without_a_program_is_told(
    machine: Machine, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = str(tmp_path / "other")
    url = "postgresql://u:hunter2@h/d"
    for entry, settings, status, words in (
        (machine.entry(), {}, "ok", "VAULT_PATH is"),
        (machine.entry(other), {}, "warning", f"the settings here name {machine.vault}"),
        (machine.entry("/nowhere"), {}, "error", "its vault /nowhere is not there"),
        (machine.entry(""), {}, "warning", "which it is not told"),
        (machine.entry(args=["serve", "--vault", other], env={}), {}, "warning", "VAULT_PATH is " + other),
        (machine.entry(args=["serve", f"--vault={machine.vault}"], env={}), {}, "ok", "VAULT_PATH is"),
        (machine.entry(), {"database_url": url}, "warning", "its database is the embedded server"),
        (machine.entry(env={"DATABASE_URL": url}), {}, "warning", "its database is postgresql://u:***@h/d"),
        (machine.entry(env={"DATABASE_URL": url}), {"database_url": url}, "ok", "none, so the index"),
        (machine.entry(), {"data_dir": tmp_path}, "warning", "its data lie in the usual folder"),
        (machine.entry(env={"EMBEDDER": "openai"}), {}, "error", "EMBEDDER is 'openai'"),
        (machine.entry(command="/gone/obsidian-rag"), {}, "error", "no program '/gone/obsidian-rag'"),
        (machine.entry(command="uvx", args=["obsidian-rag", "serve"]), {}, "error", "no program 'uvx'"),
    ):
        machine.write(".cursor/mcp.json", {"mcpServers": {"notes": entry}})
        machine.write(".claude.json", {"mcpServers": {"my notes": entry}})
        checks = machine.look(**settings)
        assert {check.status for check in checks} == {status}, (entry, checks)
        assert all(words in check.message for check in checks), (entry, checks)
        assert "hunter2" not in str(checks)
        if status != "ok":
            mends = {check.name: check.mend for check in checks}
            assert "claude mcp remove 'my notes' -s user; then claude mcp add" in mends["Claude Code"]
            assert f"Correct it in {machine.home / '.cursor/mcp.json'}" in mends["Cursor"]


def test_servers_of_other_vaults_beside_the_right_one_are_no_fault(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    servers = {"other": machine.entry(str(tmp_path / "other")), "mine": machine.entry()}
    machine.write(".claude.json", {"mcpServers": servers})
    machine.write(".cursor/mcp.json", {"mcpServers": {"other": servers["other"]}})
    assert [(check.name, check.status) for check in machine.look()] == [
        ("Claude Code", "ok"), ("Claude Code", "ok"), ("Cursor", "warning"),
    ]  # fmt: skip


def test_the_variables_of_a_shared_configuration_are_filled_in(machine: Machine) -> None:
    example = (Path(__file__).parent.parent / ".mcp.json.example").read_text(encoding="utf-8")
    machine.write("work/project/.mcp.json", example)
    machine.variables["VAULT_PATH"] = str(machine.vault)
    (check,) = machine.look()
    assert check.status == "ok", check
    variables = {"A": "x", "EMPTY": ""}
    assert expand("${A} ${B:-y} ${EMPTY:-z} ${B} ${env:A} $A", variables) == "x y z  x $A"


@pytest.mark.parametrize(
    ("command", "ours"),
    [
        ("obsidian-rag serve", True),
        ("/opt/bin/obsidian-rag serve --vault /x", True),
        ("uvx obsidian-rag serve", True),
        ("uv run --directory /src obsidian-rag serve", True),
        ("/usr/bin/python3 -m obsidian_rag serve", True),
        ("/usr/bin/python3 -m obsidian_rag.mcp_server", True),
        ("sh -c 'exec obsidian-rag serve'", True),
        ("C:/x/obsidian-rag.exe serve", True),
        (f"python {shlex.quote(str(Path(__file__).parent.parent / 'server.py'))}", True),
        ("obsidian-rag index", False),
        ("python /other/server.py", False),
        ("npx obsidian-rag-other serve", False),
        ("mcp-server serve /home/me/obsidian-rag-notes", False),
        ("", False),
    ],
)
def test_our_server_is_told_from_others(command: str, ours: bool) -> None:
    assert is_ours(shlex.split(command)) is ours


# --- Claude Code itself ------------------------------------------------------------------------------

ANSWER = """cat <<'END'
$1 $2 $3:
  Scope: User config (available in all your projects)
  Status: {status}
  Environment:
    DATABASE_URL=postgresql://u:hunter2@h/d
END"""


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        (ANSWER.format(status="✔ Connected"), "ok", "✔ Connected"),
        (ANSWER.format(status="✘ Failed to connect"), "error", "Failed to connect"),
        (ANSWER.format(status="⏸ Pending approval (run `claude` to approve)"), "warning", "Pending approval"),
        ("echo postgresql://u:hunter2@h/d; exit 1", "skipped", "exit code 1"),
        ("exec sleep 60", "skipped", "no answer (TimeoutExpired)"),
    ],
)
def test_claude_code_is_asked_whether_the_server_answers(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, script: str, status: str, words: str
) -> None:
    monkeypatch.setattr(clients, "CLAUDE_PATIENCE", 1.0)
    machine.write(".claude.json", {"mcpServers": {"notes": machine.entry()}})
    machine.add_program("claude", f'echo "$@" > "{machine.home}/asked"\n{script}')
    registered, asked = machine.look()
    assert registered.status == "ok"
    assert (asked.name, asked.status) == ("Claude Code", status)
    assert words in asked.message
    assert "hunter2" not in str(asked)
    assert (machine.home / "asked").read_text() == "mcp get notes\n"


def test_claude_code_is_not_asked_about_servers_that_are_not_ours(machine: Machine) -> None:
    machine.write(".claude.json", {"mcpServers": {"other": {"command": "npx"}}})
    machine.add_program("claude", f'touch "{machine.home}/asked"')
    assert [check.name for check in machine.look()] == ["registration"]
    assert not (machine.home / "asked").exists()
