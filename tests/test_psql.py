"""`obsidian-rag psql`: the index for a person."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import DIMENSIONS, Workbench
from embedded_bench import EmbeddedBench, make_embedded_bench
from ollama_double import OllamaDouble
from raw_server import ROOT

from obsidian_rag import embedded
from obsidian_rag.config import Settings
from obsidian_rag.errors import SettingsError
from obsidian_rag.psql import connection_variables, run_psql


@pytest.fixture(scope="module")
def embedded_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBench]:
    with OllamaDouble(dimensions=DIMENSIONS) as ollama:
        yield make_embedded_bench(tmp_path_factory.mktemp("embedded"), ollama)


def test_a_statement_is_run_and_the_server_given_back(embedded_bench: EmbeddedBench) -> None:
    done = embedded_bench.run("psql", "--", "-At", "-c", "TABLE broken_links")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "A.md|3|wikilink|Nowhere||||1\n"
    assert embedded_bench.server_process() is None


def test_arguments_reach_psql_as_they_were_written(embedded_bench: EmbeddedBench) -> None:
    done = embedded_bench.run(
        "psql", "--", "-At", "-v", "x=a 'b\" $c", "-c", "SELECT E'quo\"te\\'s', '$HOME *'"
    )
    assert done.stdout == "quo\"te's|$HOME *\n"


def test_the_exit_code_is_psqls(embedded_bench: EmbeddedBench) -> None:
    done = embedded_bench.run("psql", "--", "-v", "ON_ERROR_STOP=1", "-c", "SELECT 1/0", "-c", "SELECT 1")
    assert done.returncode == 1
    assert "division by zero" in done.stderr


def test_psql_runs_in_the_folder_it_was_called_in(embedded_bench: EmbeddedBench, tmp_path: Path) -> None:
    (tmp_path / "ask.sql").write_text("SELECT count(*) FROM notes")
    assert embedded_bench.run("psql", "--", "-At", "-f", "ask.sql", cwd=tmp_path).stdout == "2\n"


def test_a_vault_that_was_never_indexed_is_an_error(embedded_bench: EmbeddedBench, tmp_path: Path) -> None:
    done = embedded_bench.run("psql", "--vault", str(tmp_path), "--", "-c", "SELECT 1")
    assert done.returncode == 2
    assert "has not been indexed yet. Run: " in done.stderr and f" index {tmp_path}\n" in done.stderr


@pytest.mark.skipif(not (embedded.is_installed() or shutil.which("psql")), reason="needs psql")
def test_a_database_by_url_is_opened_too(bench: Workbench, capfd: pytest.CaptureFixture[str]) -> None:
    code = run_psql(Settings(database_url=bench.database_url), ["-At", "-c", "SELECT current_database()"])
    assert code == 0
    assert capfd.readouterr().out.strip() == bench.database_url.rsplit("/", 1)[1]


def test_ctrl_c_ends_the_statement_and_not_the_program(bench: Workbench) -> None:
    command = [sys.executable, "-m", "obsidian_rag", "psql", "--", "-c", "SELECT pg_sleep(600)"]
    working = (
        "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND datname = current_database()"
    )
    with subprocess.Popen(
        command, env=bench.environment, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as program:
        pause = threading.Event()
        while not bench.rows(working) and program.poll() is None:
            pause.wait(0.05)
        os.killpg(program.pid, signal.SIGINT)
        said = program.communicate(timeout=60)[1]
    assert program.returncode == 1
    assert "canceling statement due to user request" in said
    assert "Traceback" not in said


def test_a_password_reaches_psql_through_its_environment_only() -> None:
    assert connection_variables("postgresql://me:se%40cret@host:5433/db?sslmode=require&keepalives=1") == {
        "PGUSER": "me",
        "PGPASSWORD": "se@cret",
        "PGHOST": "host",
        "PGPORT": "5433",
        "PGDATABASE": "db",
        "PGSSLMODE": "require",
    }


def test_without_psql_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, bench: Workbench) -> None:
    monkeypatch.setattr(embedded, "is_installed", lambda: False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SettingsError, match="postgresql-client"):
        run_psql(Settings(database_url=bench.database_url), [])
