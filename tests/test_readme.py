"""The README's two commands, in a copy of the checkout, as a stranger runs them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from checkout import ROOT, copy_checkout, registry_answers, run, strange_environment
from raw_server import RawServer

from obsidian_rag import embedded

COMMANDS = re.compile(r"^(make \w+)\b", re.MULTILINE)


@dataclass(frozen=True)
class Clone:
    """A copy of the checkout in which `make demo` was run."""

    folder: Path
    environment: dict[str, str]
    demo: subprocess.CompletedProcess[str]

    def line_after(self, heading: str) -> list[str]:
        """The words of the command that the demo prints below a heading."""
        lines = self.demo.stdout.splitlines()
        place = next(n for n, line in enumerate(lines) if line.startswith(heading))
        return shlex.split(lines[place + 1])


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    if shutil.which("make") is None:
        pytest.skip("needs make")
    if not embedded.is_installed():
        pytest.skip("needs the extra `embedded`")
    if not registry_answers():
        pytest.skip("needs a package registry that pip can reach")
    base = tmp_path_factory.mktemp("clone")
    folder = copy_checkout(base / "a clone's folder")
    environment = strange_environment(
        PYTHON=sys.executable,
        OBSIDIAN_RAG_DATA=str(base / "the data"),
        XDG_CONFIG_HOME=str(base / "config"),
        EMBEDDER="local",
    )
    return Clone(folder, environment, run(["make", "demo"], folder, environment))


def test_the_readme_begins_with_two_commands() -> None:
    found = COMMANDS.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found[:2] == ["make demo", "make test"]


@pytest.mark.slow
def test_make_demo_indexes_and_asks_the_example_vault(clone: Clone) -> None:
    assert clone.demo.returncode == 0, clone.demo.stdout[-3000:] + clone.demo.stderr[-3000:]
    said = clone.demo.stdout
    assert "notes seen" in said
    for title in ("=== hybrid:", "=== keyword:", "=== vector:", "=== The link graph", "# Wikilink Graph: "):
        assert title in said
    assert "nothing found" not in said
    assert "Traceback" not in said + clone.demo.stderr


@pytest.mark.slow
def test_the_printed_line_for_claude_code_starts_a_server_that_answers(clone: Clone, tmp_path: Path) -> None:
    words = clone.line_after("Or by hand. Connect Claude Code")
    assert words[:3] == ["claude", "mcp", "add"]
    separator = words.index("--")
    given = [words[n + 1] for n, word in enumerate(words[:separator]) if word == "-e"]
    variables = dict(pair.split("=", 1) for pair in given)
    # A client starts it elsewhere and with little of the shell's environment.
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **variables}

    with RawServer(environment, tmp_path, words[separator + 1 :]) as server:
        server.initialize()
        found = server.call("search_notes", query="snapraid parity disk failure")
        assert found["structuredContent"]["results"][0]["file_path"] == "Home Server/Snapraid.md"
        assert found["structuredContent"]["notices"] == [] or "embedder" not in str(
            found["structuredContent"]
        )
        server.end_input()
        assert server.finish() == 0


@pytest.mark.slow
def test_the_printed_line_for_the_readers_own_vault_indexes_it(clone: Clone, tmp_path: Path) -> None:
    (tmp_path / "my notes").mkdir()
    (tmp_path / "my notes" / "Mine.md").write_text("# Mine\n\nWords.\n")
    words = clone.line_after("Index your own vault")
    command = [str(tmp_path / "my notes") if word == "/path/to/your/vault" else word for word in words]
    assert command != words

    done = run(command, tmp_path, clone.environment)

    assert done.returncode == 0, done.stderr
    assert "1 note seen" in done.stderr


@pytest.mark.slow
def test_make_demo_takes_a_vault_of_ones_own(clone: Clone, tmp_path: Path) -> None:
    vault = tmp_path / 'it\'s "mine" & more'
    vault.mkdir()
    (vault / "Mine.md").write_text("# Mine\n\nWords of [[Other]].\n")
    (vault / "Other.md").write_text("# Other\n\nMore words.\n")

    done = run(["make", "demo", f"VAULT={vault}"], clone.folder, clone.environment)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 notes seen" in done.stdout
    words = next(shlex.split(line) for line in done.stdout.splitlines() if "claude mcp add" in line)
    assert f"VAULT_PATH={vault}" in words


@pytest.mark.slow
def test_make_test_runs_the_tests(clone: Clone) -> None:
    some = clone.environment | {"PYTEST_ADDOPTS": "tests/test_render.py"}
    done = run(["make", "test"], clone.folder, some)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert re.search(r"=+ \d+ passed in ", done.stdout)
