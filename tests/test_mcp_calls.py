"""A call that takes long: its reports of progress, and what is left of it when the client gives it up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import Workbench
from fastmcp import Client
from fault_bench import wait_until
from ollama_double import Hold
from raw_server import RawServer

from obsidian_rag import mcp_tools
from obsidian_rag.calls import Call, check_cancelled, tell_stage, working
from obsidian_rag.errors import CallCancelled, DatabaseError
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.mcp_tools import make_server


@pytest.fixture
def indexed(bench: Workbench) -> Workbench:
    bench.vault.write("Pool.md", "# Pool\n\nFourteen terabytes.\n")
    bench.index()
    return bench


def test_a_search_that_waits_for_the_embedder_reports_progress(
    indexed: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_tools, "PROGRESS_SECONDS", 0.05)
    hold = Hold()
    indexed.ollama.faults.append(hold)
    reports: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, message))
        if message == "loading the embedding model" or len(reports) > 1000:
            hold.release.set()

    async def ask() -> Any:
        async with Client(make_server(indexed.settings)) as client:
            return await client.call_tool(
                "search_notes", {"query": "terabytes"}, progress_handler=on_progress
            )

    assert asyncio.run(ask()).structured_content["results"]
    assert "loading the embedding model" in [message for _, message in reports]
    times = [progress for progress, _ in reports]
    assert times == sorted(set(times))


def test_an_error_of_a_call_with_progress_is_told_as_it_is(
    indexed: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_tools, "PROGRESS_SECONDS", 0.001)

    async def ask() -> Any:
        async with Client(make_server(indexed.settings)) as client:
            return await client.call_tool("get_note", {"file_path": "Nothing"}, raise_on_error=False)

    said = asyncio.run(ask())
    assert said.is_error
    assert said.content[0].text.startswith("No note 'Nothing' in the index")


@pytest.fixture
def locked(indexed: Workbench) -> Iterator[Callable[[], None]]:
    """A lock on the notes, for which each statement about them waits; gives what takes it away."""
    with psycopg.connect(indexed.database_url) as conn:
        conn.execute("LOCK TABLE notes IN ACCESS EXCLUSIVE MODE")
        yield conn.rollback


WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND state = 'active'
"""


def count_waiting(bench: Workbench) -> int:
    return int(bench.rows(WAITING)[0][0])


def test_a_cancelled_call_stops_its_statement_and_the_next_call_is_answered(
    indexed: Workbench, locked: Callable[[], None], tmp_path: Path
) -> None:
    with RawServer(indexed.environment, tmp_path) as server:
        server.initialize()
        number = server.send("tools/call", {"name": "get_note", "arguments": {"file_path": "Pool"}})
        wait_until(lambda: count_waiting(indexed) == 1, "the call waits in the database")
        server.notify("notifications/cancelled", {"requestId": number, "reason": "not needed"})
        wait_until(lambda: count_waiting(indexed) == 0, "its statement is ended")
        locked()
        assert server.call("get_note", file_path="Pool")["structuredContent"]["title"] == "Pool"
        server.end_input()
        assert server.finish() == 0
        assert "Traceback" not in server.stderr


def test_a_cancelled_call_begins_no_statement_when_the_embedder_answers_at_last(
    indexed: Workbench, tmp_path: Path
) -> None:
    hold = Hold()
    indexed.ollama.faults.append(hold)
    with RawServer(indexed.environment, tmp_path) as server:
        server.initialize()
        number = server.send("tools/call", {"name": "search_notes", "arguments": {"query": "terabytes"}})
        assert hold.entered.wait(60)
        server.notify("notifications/cancelled", {"requestId": number})
        # The first call still waits for its embedder; this one asks for none.
        words = server.call("search_notes", query="terabytes", mode="keyword")
        assert words["structuredContent"]["results"]
        hold.release.set()
        assert server.call("search_notes", query="terabytes")["structuredContent"]["results"]
        server.end_input()
        assert server.finish() == 0
        assert server.stderr == ""


@pytest.fixture
def reader(indexed: Workbench) -> Iterator[IndexReader]:
    reader = IndexReader(indexed.settings, lambda text: None)
    yield reader
    reader.close()


def test_a_call_given_up_ends_the_statement_it_waits_for_and_leaves_no_connection(
    indexed: Workbench, reader: IndexReader
) -> None:
    call, caught = Call(), []

    def work() -> None:
        try:
            with call.current():
                reader.run(lambda conn: conn.execute("SELECT pg_sleep(600)"))
        except DatabaseError as exc:
            caught.append(str(exc))

    thread = threading.Thread(target=work)
    thread.start()
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    wait_until(lambda: indexed.rows(sleeping)[0][0] == 1, "the statement is under way")
    call.cancel()
    thread.join(60)
    assert "canceling statement due to user request" in caught[0]
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    # An order to end it may still be under way to that connection, which must not serve another call.
    wait_until(lambda: indexed.rows(others)[0][0] == 1, "its connection is closed")
    with call.current(), pytest.raises(CallCancelled):
        reader.run(lambda conn: None)
    assert reader.run(lambda conn: conn.execute("SELECT 1").fetchone()) == (1,)


def test_a_statement_that_begins_after_the_order_is_ended_too(reader: IndexReader) -> None:
    call, held, go_on = Call(), threading.Event(), threading.Event()
    caught: list[BaseException] = []

    def work(conn: psycopg.Connection[Any]) -> None:
        held.set()
        go_on.wait(60)
        conn.execute("SELECT pg_sleep(600)")

    def run() -> None:
        try:
            with call.current():
                reader.run(work)
        except DatabaseError as exc:
            caught.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    assert held.wait(60)
    call.cancel()
    go_on.set()
    thread.join(60)
    assert not thread.is_alive()
    assert len(caught) == 1


def test_without_a_call_nothing_is_told_or_cancelled(reader: IndexReader) -> None:
    tell_stage("anything")
    check_cancelled()
    with working(reader.run(lambda conn: conn)):
        pass
