"""Containerfile, compose.yaml and docs/containers.md: what can be told of them without a container engine."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from checkout import ROOT
from conftest import IMAGE

from obsidian_rag.cli import cli
from obsidian_rag.config import NAMES

FILE = (ROOT / "Containerfile").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
PROGRAM = {name: service for name, service in SERVICES.items() if service["image"] == "obsidian-rag"}
PAGE = (ROOT / "docs" / "containers.md").read_text("utf-8")


def list_copied() -> list[str]:
    """What the image is made of, as paths of the checkout."""
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", FILE, re.MULTILINE)
    return [path for line in lines for path in line.split()]


def is_copied(path: str) -> bool:
    return any(Path(path).is_relative_to(copied) for copied in list_copied())


def test_the_image_has_every_file_that_the_wheel_is_made_of() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [*wheel["packages"], *wheel["force-include"], project["project"]["readme"], "LICENSE"]
    assert [path for path in [*needed, "pyproject.toml"] if not is_copied(path)] == []


def test_the_image_copies_what_exists_and_the_build_is_given_nothing_else() -> None:
    assert [path for path in list_copied() if not (ROOT / path).exists()] == []
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert "*" in ignored
    assert sorted(line.removeprefix("!") for line in ignored if line.startswith("!")) == sorted(list_copied())


def test_the_image_runs_the_program_without_root() -> None:
    assert re.findall(r"^ENTRYPOINT (.+)$", FILE, re.MULTILINE) == ['["obsidian-rag"]']
    (user,) = re.findall(r"^USER (\d+):\d+$", FILE, re.MULTILINE)
    assert int(user) > 0
    assert "ARG" not in FILE and "--mount" not in FILE  # no secret takes part in the build


def test_the_services_are_those_of_the_page() -> None:
    assert sorted(SERVICES) == ["database", "indexer", "model", "ollama", "server"]
    assert SERVICES["database"]["image"] == IMAGE
    assert sorted(COMPOSE["volumes"]) == ["database", "ollama"]


@pytest.mark.parametrize("name", PROGRAM)
def test_a_service_runs_a_command_that_exists(name: str) -> None:
    command, *arguments = PROGRAM[name]["command"]
    cli.commands[command].make_context(command, arguments).close()
    checked = PROGRAM[name].get("healthcheck", {"test": ["CMD", "obsidian-rag", "status"]})["test"]
    assert checked[:2] == ["CMD", "obsidian-rag"]
    cli.commands[checked[2]].make_context(checked[2], list(checked[3:])).close()


@pytest.mark.parametrize("name", PROGRAM)
def test_the_program_is_given_settings_that_exist_and_only_the_vault(name: str) -> None:
    service = PROGRAM[name]
    assert set(service["environment"]) - set(NAMES) == {"PGPASSWORD"}
    (mount,) = service["volumes"]
    assert mount["read_only"] is True
    assert mount["source"] == mount["target"] == "${VAULT_PATH}"
    assert mount["bind"] == {"create_host_path": False}
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]


def test_a_client_can_talk_to_the_server() -> None:
    server = SERVICES["server"]
    assert (server["command"], server["stdin_open"], server["tty"]) == (["serve"], True, False)
    assert server["profiles"], "it is not started with the others"


def test_what_others_wait_for_tells_when_it_is_ready() -> None:
    for name, service in SERVICES.items():
        for awaited, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[awaited], f"{name} waits for {awaited}"
            else:
                assert "restart" not in SERVICES[awaited], f"{awaited} has to end"


def test_there_is_no_password_but_that_of_the_reader() -> None:
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if "PASSWORD" in name:
                assert re.fullmatch(r"\$\{POSTGRES_PASSWORD:\?[^}]+\}", value), name
            assert not re.search(r"://[^/@]*:[^/@]*@", str(value)), name
    assert ".env" in (ROOT / ".gitignore").read_text("utf-8").splitlines()


def test_no_port_is_open_to_the_outside() -> None:
    assert [name for name, service in SERVICES.items() if {"ports", "network_mode"} & set(service)] == []


def list_compose_calls() -> list[list[str]]:
    """The words after `docker compose` of each call on the page."""
    code = [
        *re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL),
        *re.findall(r"`([^`\n]+)`", PAGE),
    ]
    calls = [line.partition("docker compose ")[2] for block in code for line in block.splitlines()]
    return [shlex.split(call) for call in calls if call]


def test_calls_on_the_page_name_services_and_commands_that_exist() -> None:
    calls = list_compose_calls()
    assert len(calls) > 8
    for words in calls:
        left = [word for word in words if not word.startswith("-")]
        if words[0] == "-f":
            left = left[1:]
        action, *rest = left
        if action in ("run", "exec", "stop", "logs") and words != ["run"]:
            assert rest[0] in SERVICES, words
        if action == "run" and rest[1:]:
            assert rest[1] in cli.commands, words


def has_compose() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_compose(), reason="needs docker with its compose plugin")
def test_compose_understands_the_file_and_asks_for_what_is_missing(tmp_path: Path) -> None:
    shutil.copy(ROOT / "compose.yaml", tmp_path)
    settings = tmp_path / ".env"
    command = ["docker", "compose", "--profile", "client", "config", "--quiet"]
    for text, code in (("VAULT_PATH=/notes\n", 1), ("VAULT_PATH=/notes\nPOSTGRES_PASSWORD=x\n", 0)):
        settings.write_text(text)
        asked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert min(asked.returncode, 1) == code, asked.stderr
        assert code == 0 or "POSTGRES_PASSWORD" in asked.stderr
