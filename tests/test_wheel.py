"""The wheel, installed in an environment of its own and used from another folder."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from checkout import copy_checkout, registry_answers, run, strange_environment
from conftest import Workbench
from raw_server import RawServer

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Installation:
    wheel: Path
    program: Path


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    if not registry_answers():
        pytest.skip("needs a package registry that pip can reach")
    base = tmp_path_factory.mktemp("wheel")
    source = copy_checkout(base / "source")
    environment = strange_environment(PIP_NO_COMPILE="1")  # most of what is installed is never imported
    built = run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "-w", base / "dist", "."],
        source,
        environment,
    )
    assert built.returncode == 0, built.stderr
    wheel = next((base / "dist").glob("obsidian_rag-*.whl"))
    made = run([sys.executable, "-m", "venv", base / "venv"], base, environment)
    assert made.returncode == 0, made.stderr
    python = base / "venv" / "bin" / "python"
    installed = run([python, "-m", "pip", "install", "--quiet", wheel], base, environment)
    assert installed.returncode == 0, installed.stderr
    return Installation(wheel, python.with_name("obsidian-rag"))


def call(
    installation: Installation, bench: Workbench, *arguments: str | Path
) -> subprocess.CompletedProcess[str]:
    return run([installation.program, *arguments], bench.vault.root.parent, bench.environment)


def test_the_wheel_holds_all_that_is_not_code(installation: Installation) -> None:
    names = set(zipfile.ZipFile(installation.wheel).namelist())
    assert "obsidian_rag/py.typed" in names
    assert "obsidian_rag/sql/schema.sql" in names
    assert "obsidian_rag/sql/migrations/0001_documents.sql" in names
    assert "obsidian_rag/sql/examples/vault/Start here.md" in names
    assert any(name.startswith("obsidian_rag/bundled/") and name.endswith("tokenizer.json") for name in names)
    assert any("/licenses/" in name for name in names)
    assert not any(name.startswith(("tests/", "benchmarks/")) for name in names)


def test_the_installed_command_explains_itself(installation: Installation, tmp_path: Path) -> None:
    shown = run([installation.program, "--help"], tmp_path, strange_environment())
    assert shown.returncode == 0
    for command in ("index", "serve", "search", "graph", "topics", "note", "status", "psql", "demo"):
        assert f"\n  {command} " in shown.stdout
        assert run([installation.program, command, "--help"], tmp_path, strange_environment()).returncode == 0


def test_the_installed_program_indexes_and_serves_a_vault(
    installation: Installation, bench: Workbench, tmp_path: Path
) -> None:
    bench.vault.write("A.md", "# Alpha\n\nTo [[B]].\n")
    bench.vault.write("B.md", "# Beta\n\nWords.\n")

    indexed = call(installation, bench, "index", "--json")

    assert indexed.returncode == 0, indexed.stderr
    assert json.loads(indexed.stdout)["notes_indexed"] == 2
    found = json.loads(call(installation, bench, "search", "--json", "words").stdout)
    assert found["results"][0]["file_path"] == "B.md"
    with RawServer(bench.environment, tmp_path, [installation.program, "serve"]) as server:
        server.initialize()
        assert server.call("graph_search", file_path="A")["structuredContent"]["total"] == 1


def test_the_installed_demo_has_its_example_vault(installation: Installation, bench: Workbench) -> None:
    environment = {name: value for name, value in bench.environment.items() if name != "VAULT_PATH"}
    done = run([installation.program, "demo"], bench.vault.root.parent, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# Wikilink Graph: Projects/Garden/RAG/index.md" in done.stdout


def test_without_the_embedded_extra_the_error_says_how_to_get_it(
    installation: Installation, bench: Workbench
) -> None:
    environment = {name: value for name, value in bench.environment.items() if name != "DATABASE_URL"}
    done = run([installation.program, "status"], bench.vault.root.parent, environment)
    assert done.returncode == 2
    assert "obsidian-rag[embedded]" in done.stderr
    assert "Traceback" not in done.stderr
