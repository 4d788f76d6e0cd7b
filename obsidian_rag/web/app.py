"""The routes of the page: files of this package, and what the index says, as JSON or as a picture."""

from __future__ import annotations

import html
import json
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from obsidian_rag.errors import (
    DatabaseError,
    EmbedderError,
    NoteNotFound,
    ObsidianRagError,
    QueryError,
)
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.masking import hide_passwords
from obsidian_rag.web import replies
from obsidian_rag.web.guard import Guard

FILES = Path(__file__).parent / "static"
AT_ONCE = 4  # answers made at the same time; the next wait, and are dropped where nobody waits for them
MOST_WAITING = 32

Parameters = Mapping[str, str]
Answer = Callable[[IndexReader, Parameters], Any]


def make_app(reader: IndexReader, say: Callable[[str], None]) -> Guard:
    """The page over an index, which is opened at the first question; `say` hears of faults of the program."""
    desk = Desk(reader, say)
    routes = [
        Route("/", _send_page),
        Mount("/static", StaticFiles(directory=FILES)),
        *(Route(f"/api/{name}", partial(desk.answer_json, answer)) for name, answer in ANSWERS.items()),
        Route("/picture", desk.answer_picture),
    ]
    return Guard(Starlette(routes=[*routes, Route("/{path:path}", _miss)]))


ANSWERS: dict[str, Answer] = {
    "search": replies.find_notes,
    "notes": replies.browse_notes,
    "note": replies.show_note,
    "links": replies.list_links,
    "topics": replies.list_topics,
    "status": replies.tell_status,
}


async def _send_page(request: Request) -> Response:
    return FileResponse(FILES / "index.html")


async def _miss(request: Request) -> Response:
    return _make_json(_describe(QueryError("There is nothing at this address", "Go to /.")), 404)


class Desk:
    """Answers questions in threads, a few at a time."""

    def __init__(self, reader: IndexReader, say: Callable[[str], None]) -> None:
        self._reader = reader
        self._say = say
        self._turns = anyio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def answer_json(self, answer: Answer, request: Request) -> Response:
        """An answer as JSON; an error as `{"error": {"message", "mend", "nearest"}}` with its status."""
        try:
            found = await self._work(answer, request)
        except ObsidianRagError as exc:
            return _make_json(_describe(exc), _find_status(exc))
        return _make_json(found)

    async def answer_picture(self, request: Request) -> Response:
        """The links around a note, drawn: a page of its own, which this page shows in a frame."""
        try:
            picture = await self._work(replies.draw_picture, request)
        except ObsidianRagError as exc:
            words = html.escape(f"{exc.message}. {exc.mend}")
            page = f'<!doctype html><meta name="color-scheme" content="light dark"><p>{words}</p>'
            return HTMLResponse(page, _find_status(exc), {"Content-Security-Policy": PICTURE_ERROR_POLICY})
        headers = {"Content-Security-Policy": f"{picture.policy}; frame-ancestors 'self'"}
        return HTMLResponse(picture.page, 200, headers)

    async def _work(self, answer: Answer, request: Request) -> Any:
        """What `answer` makes of the request's parameters. Raises ObsidianRagError.

        Typing asks faster than a slow machine answers; whom nobody waits for any more is not answered.
        """
        if self._waiting >= MOST_WAITING:
            raise DatabaseError("Too many questions wait for an answer", "Wait a moment.")
        self._waiting += 1
        try:
            async with self._turns:
                if await request.is_disconnected():
                    raise QueryError("Nobody waits for this answer", "Ask again.")
                work = partial(self._try, answer, dict(request.query_params))
                return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        finally:
            self._waiting -= 1

    def _try(self, answer: Answer, parameters: Parameters) -> Any:
        """The answer; what nobody foresaw becomes an error that shows no password, its place is said."""
        try:
            return answer(self._reader, parameters)
        except ObsidianRagError:
            raise
        except Exception as exc:
            settings = self._reader.settings
            self._say(hide_passwords(traceback.format_exc(), settings))
            words = hide_passwords(f"{type(exc).__name__}: {exc}", settings)
            raise ObsidianRagError(
                f"obsidian-rag failed, which is its own fault: {words}",
                "The terminal that it runs in says where.",
            ) from None


PICTURE_ERROR_POLICY = "default-src 'none'; frame-ancestors 'self'"


def _make_json(content: Any, status: int = 200) -> Response:
    # A lone surrogate, from a file name, becomes \\udc80: so JSON writes it too.
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "backslashreplace"), status, media_type="application/json")


def _describe(exc: ObsidianRagError) -> dict[str, Any]:
    nearest = exc.nearest if isinstance(exc, NoteNotFound) else ()
    return {"error": {"message": exc.message, "mend": exc.mend, "nearest": list(nearest)}}


def _find_status(exc: ObsidianRagError) -> int:
    if isinstance(exc, QueryError):
        return 400
    if isinstance(exc, NoteNotFound):
        return 404
    return 503 if isinstance(exc, DatabaseError | EmbedderError) else 500
