"""The commands: help, JSON, exit codes, and what is printed where."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from conftest import Workbench

from obsidian_rag import embedded
from obsidian_rag.cli import cli

RUN_KEYS = [
    "run_id", "status", "notes_seen", "notes_indexed", "notes_unchanged", "notes_renamed", "notes_deleted",
    "notes_failed", "chunks_written", "chunks_embedded", "chunks_reused", "links", "links_resolved",
    "seconds", "failures", "warnings",
]  # fmt: skip
COMMANDS = (
    "init", "index", "serve", "demo", "completion", "search", "note", "graph", "topics", "web", "status",
    "doctor", "diagnose", "eval", "psql",
)  # fmt: skip


@pytest.fixture(autouse=True)
def in_a_quiet_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not where a `.env` lies; and signals stay pytest's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(embedded, "leave_on_sigterm", lambda: None)


def run(bench: Workbench, *arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(
        cli, arguments, env={**bench.environment, **environment}, prog_name="obsidian-rag"
    )


def fill(bench: Workbench) -> None:
    bench.vault.write("Home/Pump.md", "# Pump\n\nIt feeds the [[Garden]].\n")
    bench.vault.write("Garden.md", "# Garden\n\nTomatoes grow here.\n")


def read_one_document(result: Result) -> Any:
    """stdout is one JSON document, and nothing else."""
    return json.loads(result.stdout)


def test_every_documented_command_is_there_and_each_has_help() -> None:
    assert set(COMMANDS) <= set(cli.commands)
    for name, command in cli.commands.items():
        result = CliRunner().invoke(cli, [name, "--help"])
        assert (result.exit_code, result.stderr) == (0, ""), name
        assert "--database-url" in result.stdout or name == "completion", name
        assert command.help, name
    assert CliRunner().invoke(cli, ["--help"]).stdout.count("\n") > len(COMMANDS)


def test_every_option_says_what_it_does() -> None:
    for name, command in cli.commands.items():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, (name, parameter.name)


def test_every_command_that_reports_prints_one_json_document(bench: Workbench) -> None:
    fill(bench)
    for arguments, key in (
        (["index"], "run_id"),
        (["status"], "notes"),
        (["topics"], "topics"),
        (["search", "tomatoes"], "results"),
        (["graph", "Garden"], None),
        (["note", "Garden"], "content"),
    ):
        result = run(bench, *arguments, "--json")
        assert result.exit_code == 0, (arguments, result.output)
        document = read_one_document(result)
        assert key is None or key in document


def test_a_note_is_printed_from_a_heading_a_block_or_an_offset(bench: Workbench) -> None:
    text = "# Pump\n\nIntro.\n\n## Noise\n\nAt night. ^hum\n\n## Oil\n\nYearly.\n"
    bench.vault.write("Home/Pump.md", text)
    run(bench, "index")
    section = "## Noise\n\nAt night. ^hum\n\n\n"
    for arguments in (
        ["Pump#Noise"],
        ["[[Pump#Noise|it]]"],
        ["Home/Pump.md", "--heading", "noise"],
        ["Pump#^hum"],
        ["Pump", "--heading", "^hum"],
    ):
        assert (run(bench, "note", *arguments).stdout, arguments) == (section, arguments)
    assert run(bench, "note", "Pump", "--offset", str(text.index("## Oil"))).stdout == "## Oil\n\nYearly.\n\n"
    document = read_one_document(run(bench, "note", "Pump#Noise", "--json"))
    assert (document["heading"], document["content"]) == ("Pump > Noise", section[:-1])
    missing = run(bench, "note", "Pump#Fuel")
    assert (missing.exit_code, missing.stdout) == (0, f"{text}\n")
    assert "No heading 'Fuel' in Home/Pump.md" in missing.stderr
    for wrong in (["--heading", "Fuel"], ["--offset", "-1"], ["--offset", "9999"]):
        refused = run(bench, "note", "Pump", *wrong)
        assert (refused.exit_code, refused.stdout) == (2, "")


def test_index_reports_on_stderr_and_prints_nothing_on_stdout_without_json(bench: Workbench) -> None:
    fill(bench)
    result = run(bench, "index")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "2 were indexed" in result.stderr
    assert "nothing embedded" in run(bench, "index").stderr


def test_index_quiet_says_nothing_where_all_is_well(bench: Workbench, tmp_path: Path) -> None:
    fill(bench)
    bench.vault.write(".obsidian/app.json", '{"userIgnoreFilters": ["Nothing/"]}')
    config = tmp_path / "config" / "obsidian-rag"
    result = run(bench, "index", "--quiet", XDG_CONFIG_HOME=str(config.parent))
    assert (result.exit_code, result.output) == (0, "")


def test_index_json_has_the_same_keys_whatever_happens(bench: Workbench, tmp_path: Path) -> None:
    fill(bench)
    outcomes = {
        "ok": (run(bench, "index", "--json"), 0),
        "unknown setting": (run(bench, "index", "--json", "--embedder", "openai"), 2),
        "missing vault": (run(bench, "index", "--json", str(tmp_path / "none")), 2),
        "mismatch": (run(bench, "index", "--json", "--embed-model", "bge-m3"), 2),
        "database": (run(bench, "index", "--json", DATABASE_URL="postgresql://127.0.0.1:1/x"), 2),
        "dry run": (run(bench, "index", "--json", "--dry-run"), 0),
    }
    bench.vault.write("Bad.md", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)
    outcomes["partial"] = (run(bench, "index", "--json"), 1)
    bench.vault.write("New.md", "New.\n")
    bench.ollama.stop()
    outcomes["no Ollama"] = (run(bench, "index", "--json", "--quiet"), 2)
    for name, (result, code) in outcomes.items():
        document = read_one_document(result)
        assert list(document)[: len(RUN_KEYS)] == RUN_KEYS, name
        assert result.exit_code == code, (name, result.output)
        if code == 2:
            assert document["status"] == "failed"
            assert document["error"], name
            assert document["mend"], name
            assert result.stderr.startswith("Error: ") or "\nError: " in result.stderr, name
    assert read_one_document(outcomes["partial"][0])["failures"][0]["file_path"] == "Bad.md"
    assert "FAILED Bad.md (read)" in outcomes["partial"][0].stderr
    assert read_one_document(outcomes["no Ollama"][0])["run_id"] is not None


@pytest.mark.parametrize("arguments", [["--nonsense"], ["one", "two"], ["--data-dir"]])
def test_arguments_that_cannot_be_read_are_an_error_also_as_json(
    bench: Workbench, arguments: list[str]
) -> None:
    result = run(bench, "index", "--json", *arguments)
    assert result.exit_code == 2
    assert read_one_document(result)["status"] == "failed"


def test_a_command_that_fails_has_exit_code_2_and_one_document(bench: Workbench, database_url: str) -> None:
    fill(bench)
    empty = run(bench, "search", "x", "--json", DATABASE_URL=database_url)
    assert empty.exit_code == 2
    assert "obsidian-rag index" in read_one_document(empty)["mend"]
    run(bench, "index")
    for arguments in (["note", "No such note"], ["graph", "No such note"], ["search", ""]):
        result = run(bench, *arguments, "--json")
        assert (result.exit_code, read_one_document(result)["status"]) == (2, "failed"), arguments
        assert run(bench, *arguments).stdout == ""


def test_a_fault_of_the_program_is_no_partial_success(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1, Python's own for a traceback, would say that only some notes failed."""
    from obsidian_rag import indexing

    def fail(*arguments: object, **options: object) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(indexing, "run_indexer", fail)
    result = run(bench, "index", "--json")
    assert result.exit_code == 2
    assert read_one_document(result)["error"] == "RuntimeError: unforeseen"
    assert "Traceback" in result.stderr


def test_an_interrupt_has_its_own_exit_code(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    from obsidian_rag import indexing

    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(indexing, "run_indexer", interrupt)
    result = run(bench, "index", "--json")
    assert result.exit_code == 130
    assert read_one_document(result)["status"] == "failed"


def test_the_vault_argument_beats_the_flag_and_the_environment(bench: Workbench, tmp_path: Path) -> None:
    fill(bench)
    result = run(bench, "index", str(bench.vault.root), "--vault", "/nowhere", VAULT_PATH="/nowhere")
    assert result.exit_code == 0, result.output


def test_a_password_is_in_no_output(bench: Workbench) -> None:
    fill(bench)
    for url in (
        "postgresql://u:hunter2@127.0.0.1:1/x",
        "postgresql://u:hunter2@@:/",
        "mysql://u:hunter2@h/d",
    ):
        result = run(bench, "index", "--json", DATABASE_URL=url)
        assert result.exit_code == 2
        assert "hunter2" not in result.output


def test_notices_of_the_settings_go_to_stderr(bench: Workbench, tmp_path: Path) -> None:
    fill(bench)
    (tmp_path / ".env").write_text("EMBED_MODELL=x\n")
    result = run(bench, "index", "--json")
    assert "Did you mean EMBED_MODEL?" in result.stderr
    assert read_one_document(result)["status"] == "ok"


def test_json_is_utf_8_in_every_locale_and_logs_have_no_colour(bench: Workbench) -> None:
    bench.vault.write("Заметка.md", "# 笔记\n\nТекст.\n")
    bench.vault.write("Broken ✗.md", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)
    done = subprocess.run(
        [sys.executable, "-m", "obsidian_rag", "index", "--json"],
        env={**bench.environment, "LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        cwd=bench.vault.root.parent,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout.decode("utf-8"))
    assert document["failures"][0]["file_path"] == "Broken ✗.md"
    assert b"\x1b" not in done.stderr
    assert b"\r" not in done.stderr


def test_indexer_py_is_the_command_index(bench: Workbench) -> None:
    fill(bench)
    launcher = Path(__file__).parent.parent / "indexer.py"
    done = subprocess.run(
        [sys.executable, str(launcher), "--quiet", "--json"],
        env=bench.environment,
        cwd=bench.vault.root.parent,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["notes_indexed"] == 2


def test_a_reader_that_goes_away_is_no_error(bench: Workbench) -> None:
    fill(bench)
    bench.index()
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "obsidian_rag", "note", "Garden"],
            env=bench.environment,
            cwd=bench.vault.root.parent,
            stdout=stdout,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert b"Traceback" not in done.stderr


def test_a_minus_word_needs_no_quotes_on_the_command_line(bench: Workbench) -> None:
    bench.vault.write("A.md", "The walrus likes oysters.\n")
    bench.vault.write("B.md", "Oysters alone.\n")
    bench.index()
    result = run(bench, "search", "oysters", "-walrus", "--json")
    assert result.exit_code == 0
    assert {hit["file_path"] for hit in json.loads(result.stdout)["results"]} == {"B.md"}


def test_an_empty_note_says_so(bench: Workbench) -> None:
    bench.vault.write("A.md", "")
    bench.index()
    assert run(bench, "note", "A").stdout == "(this note is empty)\n"


def test_what_the_terminals_encoding_lacks_is_printed_as_an_escape(bench: Workbench) -> None:
    bench.vault.write("日本.md", "日本語 and Größe.\n")
    bench.index()
    shown = subprocess.run(
        [sys.executable, "-m", "obsidian_rag", "note", "日本"],
        env=bench.environment | {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.decode("latin-1") == "\\u65e5\\u672c\\u8a9e and Größe.\n\n"
