"""The calls of soak.py: a client over stdio, what it asks, and what is right about the answers."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from soak_notes import (
    CHANGING,
    COLOURS,
    MOVING,
    PASSING,
    STABLE,
    Truth,
    changing_text,
    moving_paths,
    stable_links,
    stable_path,
    stable_text,
)

ROOT = Path(__file__).resolve().parents[1]
NAMES_THE_DATABASE = ("cannot be reached", "was lost", "The database refused: terminating connection")

# --- a client ----------------------------------------------------------------------------------------


class Client:
    """A server over stdio with many calls under way at once."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.foreign_lines = 0
        self._number = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, environment: Mapping[str, str], folder: Path) -> Client:
        folder.mkdir()
        with (folder / "stderr.txt").open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(ROOT / "server.py"),
                env=dict(environment),
                cwd=folder,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                limit=2**24,
            )
        client = cls(process)
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "s", "version": "1"},
        }
        await client.ask("initialize", hello)
        client._write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return client

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        answer = asyncio.get_running_loop().create_future()
        self._waiting[self._number] = answer
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return dict(await asyncio.wait_for(answer, 120))

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.ask("tools/call", {"name": tool, "arguments": arguments})
        return dict(answer["result"])

    async def end(self) -> int:
        assert self.process.stdin
        self.process.stdin.close()
        code = await asyncio.wait_for(self.process.wait(), 120)
        await self._reading
        return code

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _read(self) -> None:
        assert self.process.stdout
        while line := await self.process.stdout.readline():
            try:
                message = json.loads(line)
                waiting = self._waiting.pop(message["id"])
            except (ValueError, KeyError):
                self.foreign_lines += 1
                continue
            waiting.set_result(message)


# --- calls and what is right about their answers -------------------------------------------------------


class WrongAnswer(Exception):
    """An answer that is not what is known of the notes."""


def check(right: object, what: object) -> None:
    if not right:
        raise WrongAnswer(str(what)[:500])


def hits_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return list(answer["structuredContent"]["results"])


@dataclass
class Caller:
    """Makes calls at random and checks their answers."""

    client: Client
    truth: Truth
    chance: random.Random
    latencies: dict[str, list[float]]

    async def call_once(self) -> None:
        """One call. Raises WrongAnswer, and DatabaseAway where the answer is that the database is."""
        ask = self.chance.choices(
            [self.get_stable, self.get_changing, self.search_words, self.search_meaning, self.search_changing,
             self.search_filtered, self.search_moving, self.search_passing, self.walk, self.topics,
             self.mistake],
            [20, 12, 14, 10, 10, 6, 6, 4, 9, 4, 5],
        )[0]  # fmt: skip
        await ask()

    async def _ask(self, kind: str, tool: str, **arguments: Any) -> tuple[dict[str, Any], range]:
        started = time.monotonic()
        answer = await self.client.call(tool, **arguments)
        ended = time.monotonic()
        self.latencies.setdefault(kind, []).append(ended - started)
        if answer.get("isError"):
            text = answer["content"][0]["text"]
            if any(words in text for words in NAMES_THE_DATABASE):
                raise DatabaseAway(text, started, ended)
        return answer, self.truth.editions(started, ended)

    async def _search(self, kind: str, query: str, **others: Any) -> tuple[list[dict[str, Any]], range]:
        answer, editions = await self._ask(kind, "search_notes", query=query, **others)
        check(not answer.get("isError"), answer)
        notices = answer["structuredContent"]["notices"]
        check(not any("keywords only" in notice for notice in notices), notices)
        return hits_of(answer), editions

    async def get_stable(self) -> None:
        n = self.chance.randrange(STABLE)
        answer, _ = await self._ask("get_note", "get_note", file_path=stable_path(n))
        check(not answer.get("isError"), answer)
        check(answer["structuredContent"]["content"] == stable_text(n), answer)

    async def get_changing(self) -> None:
        n = self.chance.randrange(CHANGING)
        answer, editions = await self._ask("get_note", "get_note", file_path=f"Changing/Note {n}.md")
        check(not answer.get("isError"), answer)
        text = answer["structuredContent"]["content"]
        check(any(text == changing_text(n, edition) for edition in editions), (list(editions), text))

    async def search_words(self) -> None:
        n = self.chance.randrange(STABLE)
        mode = self.chance.choice(["keyword", "hybrid"])
        hits, _ = await self._search(f"search {mode}", f"colour of subject{n}", mode=mode)
        check(hits and hits[0]["file_path"] == stable_path(n), (n, mode, [h["file_path"] for h in hits]))
        shown = " ".join(hit["content"] for hit in hits if hit["file_path"] == stable_path(n))
        check(f"The colour of subject{n} is {COLOURS[n % 10]}." in shown, shown)

    async def search_meaning(self) -> None:
        n = self.chance.randrange(STABLE)
        text = f"The colour of subject{n} is {COLOURS[n % 10]}."
        hits, _ = await self._search("search vector", text, mode="vector")
        check(stable_path(n) in [hit["file_path"] for hit in hits], (n, [h["file_path"] for h in hits]))

    async def search_changing(self) -> None:
        n = self.chance.randrange(CHANGING)
        mode = self.chance.choice(["keyword", "hybrid"])
        hits, editions = await self._search(f"search {mode}", f"topic{n}", mode=mode)
        path = f"Changing/Note {n}.md"
        check(hits and hits[0]["file_path"] == path, (n, mode, [h["file_path"] for h in hits]))
        shown = {hit["content"].split("x")[1] for hit in hits if hit["file_path"] == path}
        check(len(shown) == 1, f"passages of several editions: {shown}")
        check(int(shown.pop()) in editions, (list(editions), hits[0]["content"]))

    async def search_filtered(self) -> None:
        n = self.chance.randrange(5)
        hits, _ = await self._search(
            "search filtered", "colour", folder="Stable", tags=[f"kind{n}"], limit=20
        )
        paths = {hit["file_path"] for hit in hits}
        check(len(paths) == 20, f"{len(paths)} of 20 notes that pass")
        check(paths <= {stable_path(m) for m in range(STABLE) if m % 5 == n}, paths)

    async def search_moving(self) -> None:
        n = self.chance.randrange(MOVING)
        hits, _ = await self._search("search keyword", f"wanderer{n}", mode="keyword")
        found = [hit["file_path"] for hit in hits if hit["file_path"] in moving_paths(n)]
        check(len(found) == 1, f"wanderer{n} is at {found}")

    async def search_passing(self) -> None:
        n = self.chance.randrange(PASSING)
        hits, editions = await self._search("search keyword", f"guest{n}", mode="keyword")
        there = f"Passing/Note {n}.md" in [hit["file_path"] for hit in hits]
        check(there in {bool((edition + n) % 3) for edition in editions}, (n, there, list(editions)))

    async def walk(self) -> None:
        n = self.chance.randrange(STABLE)
        answer, _ = await self._ask("graph_search", "graph_search", file_path=stable_path(n))
        check(not answer.get("isError"), answer)
        found = {edge["file_path"] for edge in answer["structuredContent"]["edges"]}
        incoming = {m for m in range(STABLE) if n in stable_links(m)}
        check(found == {stable_path(m) for m in stable_links(n) | incoming}, (n, found))

    async def topics(self) -> None:
        answer, _ = await self._ask("list_topics", "list_topics")
        check(not answer.get("isError"), answer)
        counts = {topic["name"]: topic["notes"] for topic in answer["structuredContent"]["topics"]}
        check(counts.get("Stable") == STABLE and counts.get("Changing") == CHANGING, counts)
        check(counts.get("Here", 0) + counts.get("There", 0) == MOVING, counts)

    async def mistake(self) -> None:
        """What is no note, and what is no argument, are errors that say so."""
        if self.chance.random() < 0.5:
            answer, _ = await self._ask("mistake", "get_note", file_path="Stable/Not 12.md")
            check(answer.get("isError") and "Nearest paths" in answer["content"][0]["text"], answer)
        else:
            answer, _ = await self._ask("mistake", "search_notes", query="colour", mode="guess")
            check(answer.get("isError") and "mode is 'guess'" in answer["content"][0]["text"], answer)


class DatabaseAway(Exception):
    """An answer that says that the database is away, and when the call began and ended."""

    def __init__(self, text: str, started: float, ended: float) -> None:
        super().__init__(text)
        self.started = started
        self.ended = ended
