"""Passwords are shown nowhere: not by any command, in any error, in a traceback, a log, or the index."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from click.testing import CliRunner, Result
from conftest import Workbench, make_url
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from raw_server import RawServer

from obsidian_rag import embedded
from obsidian_rag.cli import cli
from obsidian_rag.config import Settings
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.masking import hide_passwords, mask_words

# Both ends are looked for: a part of a password that was cut at one of its signs is seen too.
PASSWORD = "hunter2@:/?#&=%41' \"\\k1tten"
TELLTALES = ("hunter2", "k1tten")
ENCODED = quote(PASSWORD, safe="")
QUOTED = PASSWORD.replace("\\", "\\\\").replace("'", "\\'")

UNREADABLE = (
    f"postgresql://u:{PASSWORD}@127.0.0.1:1/d",
    "postgresql://u:hunter2k1tten/d",
    f"host=127.0.0.1 password='{QUOTED}",
    f"mysql://u:{ENCODED}@h/d",
    f"postgresql://u:{ENCODED}@127.0.0.1:1/d?nonsense=1",
)
UNREACHABLE = (
    f"postgresql://u:{ENCODED}@127.0.0.1:1/d",
    f"postgresql://127.0.0.1:1/d?user=u&password={ENCODED}",
    f"host=127.0.0.1 port=1 user=u password='{QUOTED}' dbname=d",
)
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("index",), ("index", "--dry-run"), ("search", "pump"), ("graph", "Pump"), ("topics",), ("note", "Pump"),
    ("status",), ("doctor",), ("diagnose", "pump", "--target", "Pump"), ("psql", "--", "-c", "SELECT 1"),
    ("psql", "--write", "--", "-c", "SELECT 1"), ("demo",), ("eval", "--queries", "queries.jsonl"),
)  # fmt: skip
WITH_JSON = {"index", "search", "graph", "topics", "note", "status", "doctor", "diagnose", "eval"}


@pytest.fixture(autouse=True)
def in_a_quiet_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where no `.env` and no client's configuration lies; and signals stay pytest's."""
    (tmp_path / "queries.jsonl").write_text('{"id": "1", "query": "pump", "relevant": ["Pump.md"]}\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(embedded, "leave_on_sigterm", lambda: None)


@pytest.fixture
def noted(bench: Workbench) -> Workbench:
    bench.vault.write("Pump.md", "# Pump\n\nIt feeds the [[Garden]].\n")
    return bench


@pytest.fixture
def login(server: str) -> Iterator[str]:
    """A superuser with that password; its name."""
    name = f"login_{secrets.token_hex(4)}"
    role = sql.Identifier(name)
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute(
            sql.SQL("CREATE ROLE {} SUPERUSER LOGIN PASSWORD {}").format(role, sql.Literal(PASSWORD))
        )
        yield name
        conn.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(role))
        conn.execute(sql.SQL("DROP ROLE {}").format(role))


def run(bench: Workbench, *arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(
        cli, arguments, env={**bench.environment, **environment}, prog_name="obsidian-rag"
    )


def check(text: str, about: object) -> None:
    assert not any(telltale in text for telltale in TELLTALES), (about, text)


@pytest.mark.parametrize("url", [UNREADABLE[0], UNREACHABLE[0], UNREACHABLE[2]])
def test_no_command_shows_the_password_of_a_database_that_cannot_be_had(noted: Workbench, url: str) -> None:
    for command in COMMANDS:
        for arguments in [command, (*command, "--json")][: 1 + (command[0] in WITH_JSON)]:
            result = run(noted, *arguments, DATABASE_URL=url)
            assert result.exit_code in (1, 2), (arguments, result.output)
            if "--write" not in command:  # there psql itself says what is wrong
                assert "DATABASE_URL" in result.output, (arguments, result.output)
            check(result.output, arguments)


@pytest.mark.parametrize("url", [*UNREADABLE[1:], UNREACHABLE[1]])
def test_a_url_in_whatever_form_is_shown_without_its_password(noted: Workbench, url: str) -> None:
    for arguments in (("index", "--json"), ("search", "pump"), ("doctor", "--json")):
        for settings in ({"DATABASE_URL": url}, {"OLLAMA_URL": url}):
            check(run(noted, *arguments, **settings).output, (arguments, settings))
        check(run(noted, *arguments, "--database-url", url).output, arguments)
    settings = Settings(database_url=url, ollama_url=url)
    check(repr(settings) + str(settings) + f"{settings}", "settings")


def test_what_the_server_refuses_is_told_without_the_password(noted: Workbench, login: str) -> None:
    right = make_url(noted.database_url, user=login, password=PASSWORD)
    known = conninfo_to_dict(right)
    needs_password = bool(conninfo_to_dict(noted.database_url).get("password"))
    wrong = [make_conninfo(right, dbname="no_such_database")]
    wrong += [make_conninfo(right, password=f"{PASSWORD}x")] if needs_password else []
    for conninfo in wrong:
        for command in (
            ("index", "--json"),
            ("search", "pump", "--json"),
            ("status",),
            ("psql",),
            ("doctor",),
        ):
            result = run(noted, *command, DATABASE_URL=conninfo)
            assert result.exit_code in (1, 2), result.output
            assert login in result.output
            check(result.output, command)
    assert known["password"] == PASSWORD


def test_a_password_of_any_signs_works_and_is_kept_in_no_row(noted: Workbench, login: str) -> None:
    url = make_url(noted.database_url, user=login, password=PASSWORD)
    noted.vault.write("Broken.md", b"\xff\xfe\x00\xff" * 100)
    for form in (url, make_conninfo(url)):
        for command in COMMANDS:
            result = run(noted, *command, DATABASE_URL=form)
            assert result.exit_code in (0, 1), (command, result.output)
            check(result.output, command)
    noted.vault.root.rename(noted.vault.root.parent / "away")
    assert run(noted, "index", DATABASE_URL=url).exit_code == 2
    tables = noted.rows(
        "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 2200"
    )
    assert len(tables) > 10
    for (table,) in tables:
        check(str(noted.rows(f"SELECT to_jsonb(t) FROM {table} AS t")), table)  # noqa: S608 - of the catalog
    assert len(noted.rows("SELECT 1 FROM index_runs WHERE error IS NOT NULL")) == 1


def explode(*_: Any, **__: Any) -> Any:
    try:
        raise psycopg.OperationalError(f'connection to "postgresql://u:{ENCODED}@h/d" failed')
    except psycopg.Error as exc:
        raise RuntimeError(f"nobody foresaw {PASSWORD!r}, that is {PASSWORD}") from exc


def test_a_traceback_of_a_fault_hides_what_it_quotes(
    noted: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IndexReader, "run", explode)
    url = make_url(noted.database_url, password=PASSWORD)
    for arguments in (("topics",), ("topics", "--json")):
        result = run(noted, *arguments, DATABASE_URL=url)
        assert result.exit_code == 2
        assert "Traceback" in result.stderr
        assert "nobody foresaw" in result.output
        check(result.output, arguments)


def test_a_fault_of_a_run_is_recorded_without_what_it_quotes(
    noted: Workbench, login: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("obsidian_rag.indexing.write_notes", explode)
    url = make_url(noted.database_url, user=login, password=PASSWORD)
    result = run(noted, "index", "--json", DATABASE_URL=url)
    assert result.exit_code == 2
    check(result.output, "index")
    ((error,),) = noted.rows("SELECT error FROM index_runs")
    assert "nobody foresaw" in error
    check(error, "index_runs")


@pytest.mark.parametrize("url", [UNREADABLE[0], UNREACHABLE[0]])
def test_the_server_says_what_is_wrong_on_both_streams_without_the_password(
    noted: Workbench, tmp_path: Path, url: str
) -> None:
    with RawServer(noted.environment | {"DATABASE_URL": url}, tmp_path) as server:
        server.initialize()
        for tool, arguments in (("search_notes", {"query": "pump"}), ("list_topics", {})):
            answer = server.ask("tools/call", {"name": tool, "arguments": arguments})
            assert answer["result"]["isError"]
            assert "DATABASE_URL" in str(answer)
        check(b"".join(server.lines).decode() + server.stderr, url)


def test_a_fault_of_a_tool_is_logged_without_what_it_quotes(noted: Workbench, tmp_path: Path) -> None:
    program = tmp_path / "broken.py"
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    program.write_text(
        f"import sys; sys.path[:0] = {paths!r}\n"
        "import test_secrets\n"
        "from obsidian_rag.index_reader import IndexReader\n"
        "IndexReader.run = test_secrets.explode\n"
        "from obsidian_rag.mcp_server import main\n"
        "main()\n"
    )
    import sys

    environment = noted.environment | {"DATABASE_URL": UNREACHABLE[0]}
    with RawServer(environment, tmp_path, [sys.executable, program]) as server:
        server.initialize()
        answer = server.ask("tools/call", {"name": "list_topics", "arguments": {}})
        assert answer["result"]["isError"]
        assert "its own fault: RuntimeError: nobody foresaw" in str(answer)
        assert "Traceback" in server.stderr
        check(b"".join(server.lines).decode() + server.stderr, "server")


def test_words_around_a_password_stay() -> None:
    assert mask_words("from http://a:1 to postgresql://u:p@h/d, me@home") == (
        "from http://a:1 to postgresql://u:***@h/d, me@home"
    )
    settings = Settings(database_url=UNREACHABLE[0], ollama_url=f"http://u:{ENCODED}@h")
    for written in (PASSWORD, ENCODED, repr(PASSWORD)[1:-1], f"{PASSWORD!r}"):
        assert hide_passwords(f"before {written} after", settings).replace("'", "") == "before *** after"
