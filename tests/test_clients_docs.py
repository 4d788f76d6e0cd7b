"""docs/clients.md: each configuration is what init prints, can be read, and starts a server that answers."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from raw_server import ROOT, RawServer

from obsidian_rag.client_config import CLIENTS, Client, find_client, render_configuration
from obsidian_rag.doctor.clients import Place, find_registrations, list_places
from obsidian_rag.doctor.examination import Surroundings

PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
PROGRAM, VAULT = "/path/to/obsidian-rag", "/path/to/vault"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Snippet:
    """What a page tells one to write or to type for a client."""

    title: str
    language: str
    text: str

    def read_command(self) -> tuple[list[str], Mapping[str, str]]:
        """The command line and the variables with which the client starts the server."""
        if self.language == "sh":
            words = shlex.split(self.text.splitlines()[0])
            at = words.index("--")
            given = [words[n + 1] for n, word in enumerate(words[:at]) if word in ("-e", "--env")]
            return words[at + 1 :], dict(pair.split("=", 1) for pair in given)
        found = tomllib.loads(self.text) if self.language == "toml" else json.loads(self.text)
        (servers,) = found.values()
        (entry,) = servers.values()
        return [entry["command"], *entry["args"]], entry["env"]


def list_snippets() -> list[Snippet]:
    titles = {client.title for client in CLIENTS}
    return [
        Snippet(section.partition("\n")[0], language, text)
        for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)
        if section.partition("\n")[0] in titles
        for language, text in BLOCK.findall(section)
    ]


SNIPPETS = list_snippets()


def fill_in(words: Sequence[str], program: Path, vault: Path) -> list[str]:
    return [word.replace(PROGRAM, str(program)).replace(VAULT, str(vault)) for word in words]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_the_page_shows_what_init_prints(client: Client) -> None:
    printed = render_configuration(client, [PROGRAM], {"VAULT_PATH": VAULT})
    shown = [snippet.text for snippet in SNIPPETS if snippet.title == client.title]
    assert any(text.startswith(f"{printed}\n") for text in shown)
    assert f"`{client.name}`" in PAGE


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: f"{snippet.title}-{snippet.language}")
def test_each_configuration_starts_a_server_that_tells_its_tools(snippet: Snippet, tmp_path: Path) -> None:
    program = tmp_path / "my programs" / "obsidian-rag"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)}"
        ' -m obsidian_rag "$@"\n'
    )
    program.chmod(0o755)
    vault = tmp_path / "my vault"
    vault.mkdir()
    words, given = snippet.read_command()
    command = fill_in(words, program, vault)
    variables = dict(zip(given, fill_in(list(given.values()), program, vault), strict=True))
    assert command == [str(program), "serve"]
    assert variables == {"VAULT_PATH": str(vault)}
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "OBSIDIAN_RAG_DATA": str(tmp_path / "data"),
    }
    with RawServer(environment | variables, tmp_path, command) as server:
        assert server.initialize()["result"]["serverInfo"]["name"]
        names = {tool["name"] for tool in server.ask("tools/list")["result"]["tools"]}
        assert {"search_notes", "get_note"} <= names
        server.end_input()
        assert server.finish() == 0
        assert server.stderr == ""


@pytest.mark.parametrize("client", CLIENTS[1:], ids=lambda client: client.name)
@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_each_file_on_the_page_is_the_one_that_the_doctor_reads(
    client: Client, platform: str, tmp_path: Path
) -> None:
    around = Surroundings(tmp_path / "home", tmp_path / "project", {}, platform)
    files = [place.file for place in list_places(around) if place.client == client.title]
    assert files
    for file in files:
        shown = str(file).replace(f"{tmp_path}/home/", "~/").replace(f"{tmp_path}/project/", "")
        assert f"`{shown}`" in PAGE


@pytest.mark.parametrize("client", CLIENTS[1:], ids=lambda client: client.name)
def test_the_doctor_finds_the_server_in_what_init_prints(client: Client, tmp_path: Path) -> None:
    words = ['/it\'s "my"\\tools\x7f/日本/python', "-m", "obsidian_rag"]
    environment = {"VAULT_PATH": '/a "b"\\c\nd'}
    file = tmp_path / f"config.{client.language}"
    file.write_text(render_configuration(client, words, environment), encoding="utf-8")
    (found,) = find_registrations(Place(client.title, file, (client.key,)), {})
    assert list(found.command) == [*words, "serve"]
    assert found.environment == environment


def test_the_line_for_claude_code_is_one_of_the_shell() -> None:
    words = shlex.split(
        render_configuration(find_client("claude-code"), ["/my tools/x", "-m", "y"], {"A": "b c"})
    )
    assert words[-5:] == ["--", "/my tools/x", "-m", "y", "serve"]
    assert words[words.index("-e") + 1] == "A=b c"
