"""The four tools: thin adapters over search, graph, catalog and pages.

What they need is imported late: the server must be there when the agent asks for its tools. From then on it
gets ready for the first call.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_context
from fastmcp.tools import ToolResult
from mcp.types import TextContent

from obsidian_rag import __version__, schemas
from obsidian_rag import tool_arguments as takes
from obsidian_rag.calls import Call
from obsidian_rag.config import Settings
from obsidian_rag.errors import ObsidianRagError, QueryError
from obsidian_rag.tool_errors import ClearErrors
from obsidian_rag.warmup import Warmup

if TYPE_CHECKING:
    from obsidian_rag.index_reader import IndexReader

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Lifespan = Callable[[FastMCP], AbstractAsyncContextManager[None]]

PROGRESS_SECONDS = 1.0  # between two reports of a call that takes long; most are answered before the first


def make_result(text: str, structured: dict[str, Any], beside: str = "", after: str = "") -> ToolResult:
    """A tool's answer: Markdown, what it is, and the same as an object. `beside` is told apart from the text,
    and as little to be trusted; `after` are the program's own words.
    """
    said = "\n\n".join(part for part in (beside, schemas.UNTRUSTED, after) if part)
    blocks = [TextContent(type="text", text=part) for part in (text, said)]
    return ToolResult(blocks, structured)


class NoteTools:
    """The tools over one index, which is opened at the first call. `schemas` describes them to the agent."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._reader: IndexReader | None = None

    async def search_notes(
        self,
        query: takes.Query,
        limit: takes.Limit = 10,
        mode: takes.ModeName = "hybrid",
        folder: takes.Folder = None,
        tags: takes.Tags = None,
        properties: takes.Properties = None,
        after: takes.After = None,
        before: takes.Before = None,
        intent: takes.IntentName = None,
        boosts: takes.Boosts = None,
        include_excluded: takes.WithExcluded = False,
        max_tokens: takes.MaxTokens = schemas.BUDGET,
    ) -> ToolResult:
        def work(reader: IndexReader) -> ToolResult:
            from obsidian_rag.answers import fit_answer, render_answer
            from obsidian_rag.search.pipeline import search
            from obsidian_rag.search.query import make_filters, make_request

            check_tokens(max_tokens)
            filters = make_filters(folder, tags, properties, after, before)
            request = make_request(
                query, mode, limit, filters, intent, boosts=boosts, include_excluded=include_excluded
            )
            answer = fit_answer(search(reader, request), max_tokens)
            return make_result(render_answer(answer), answer.to_json())

        return await self.run(work)

    async def graph_search(
        self,
        file_path: takes.NotePath,
        depth: takes.Depth = 1,
        include_content: takes.WithContent = False,
        relation: takes.Relation = None,
        direction: takes.WayName = "both",
        max_tokens: takes.MaxTokens = schemas.BUDGET,
    ) -> ToolResult:
        def work(reader: IndexReader) -> ToolResult:
            from obsidian_rag.graph import walk_graph
            from obsidian_rag.render import bound_edges, fit_graph, render_graph

            check_tokens(max_tokens)
            relations = [relation] if isinstance(relation, str) else relation or []
            walk = partial(
                walk_graph,
                file_path=file_path,
                depth=depth,
                include_content=include_content,
                relations=relations,
                direction=direction,
                most=bound_edges(max_tokens),
            )
            graph = fit_graph(reader.run(walk), max_tokens)
            return make_result(render_graph(graph), graph.to_json())

        return await self.run(work)

    async def list_topics(self) -> ToolResult:
        def work(reader: IndexReader) -> ToolResult:
            from obsidian_rag.catalog import list_topics
            from obsidian_rag.render import fit_topics, render_topics

            topics = fit_topics(reader.run(list_topics))
            return make_result(render_topics(topics), topics.to_json())

        return await self.run(work)

    async def get_note(
        self, file_path: takes.NotePath, heading: takes.HeadingName = None, offset: takes.Offset = 0
    ) -> ToolResult:
        def work(reader: IndexReader) -> ToolResult:
            from obsidian_rag.catalog import load_place
            from obsidian_rag.note_pages import make_page, render_next, render_outline
            from obsidian_rag.render import render_text

            note, named = reader.run(partial(load_place, file_path=file_path))
            page = make_page(note, heading, offset, named=named)
            return make_result(
                render_text(page.content), page.to_json(), render_outline(page), render_next(page)
            )

        return await self.run(work)

    def prepare(self) -> Iterator[None]:
        """Do beforehand what a first call would wait for, step by step: import, connect, start the embedded
        server. That is not made anew here where nothing was indexed, and no model is loaded: it takes memory
        that a server nobody asks should not hold. Raises what a call raises.
        """
        from obsidian_rag import embedded_index

        yield
        from obsidian_rag import catalog, graph, render  # noqa: F401

        yield
        from obsidian_rag.search import pipeline  # noqa: F401

        yield
        if self._settings.database_url or embedded_index.is_there(self._settings):
            self._open().run(lambda conn: None)

    def close(self) -> None:
        """Close the index; a later call opens it again."""
        with self._lock:
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    async def run(self, work: Callable[[IndexReader], Result]) -> Result:
        """Do a call's work in a thread, and report progress where it takes long. Where the client cancels it,
        it is left to itself, and the statement in the database is ended.

        Raises ToolError with the mend, never gives an empty answer.
        """
        call = Call()
        with call.current():
            async with anyio.create_task_group() as group:
                group.start_soon(report_progress, get_context(), call)
                try:
                    done = await anyio.to_thread.run_sync(self._do, work, abandon_on_cancel=True)
                except anyio.get_cancelled_exc_class():
                    call.cancel()
                    raise
                group.cancel_scope.cancel()
        if isinstance(done, ToolError):
            raise done
        return done

    def _do(self, work: Callable[[IndexReader], Result]) -> Result | ToolError:
        """What the work gives, or the error to raise: one raised in a task group would arrive in a group."""
        try:
            return work(self._open())
        except ObsidianRagError as exc:
            error = ToolError(str(exc), log_level=logging.INFO)
            error.__cause__ = exc
            return error
        except Exception as exc:
            from obsidian_rag.masking import hide_passwords

            log.error("A call failed: %s", hide_passwords(traceback.format_exc(), self._settings))
            words = hide_passwords(f"{type(exc).__name__}: {exc}", self._settings)
            return ToolError(
                f"obsidian-rag failed, which is its own fault: {words}."
                " Ask in another way; the server's log on stderr says where it failed."
            )

    def _open(self) -> IndexReader:
        with self._lock:
            if self._reader is None:
                from obsidian_rag.index_reader import IndexReader

                self._reader = IndexReader(self._settings, partial(print, file=sys.stderr))
            return self._reader


def check_tokens(max_tokens: int) -> None:
    """Raise QueryError where an answer cannot be that long."""
    if not schemas.LEAST_TOKENS <= max_tokens <= schemas.MOST_TOKENS:
        raise QueryError(
            f"max_tokens is {max_tokens}",
            f"Use a number from {schemas.LEAST_TOKENS} to {schemas.MOST_TOKENS}.",
        )


async def report_progress(context: Context, call: Call) -> None:
    """Tell the client what a call is doing, again and again; one that did not ask for it is told nothing."""
    seconds = 0.0
    while True:
        await anyio.sleep(PROGRESS_SECONDS)
        seconds += PROGRESS_SECONDS
        with suppress(Exception):  # a client that went away must not look like a failure of the call
            await context.report_progress(seconds, message=call.stage)


def make_server(settings: Settings, lifespan: Lifespan | None = None) -> FastMCP:
    """The server with its tools, resources and prompt. Connects to nothing before it runs; `lifespan`
    surrounds its run.
    """
    from obsidian_rag.mcp_resources import add_prompt, add_resources

    tools = NoteTools(settings)
    warmup = Warmup(tools.prepare)

    @asynccontextmanager
    async def live(server: FastMCP) -> AsyncIterator[None]:
        try:
            async with lifespan(server) if lifespan else nullcontext():
                warmup.start()
                yield
        finally:
            warmup.end()
            tools.close()

    server = FastMCP(
        "obsidian-rag",
        version=__version__,
        instructions=schemas.INSTRUCTIONS,
        lifespan=live,
        middleware=[ClearErrors(), warmup],
    )
    for method, title, schema in (
        (tools.search_notes, "Search notes", schemas.SEARCH),
        (tools.graph_search, "Walk the link graph", schemas.GRAPH),
        (tools.list_topics, "List topics", schemas.TOPICS),
        (tools.get_note, "Read a note", schemas.NOTE),
    ):
        name = method.__name__
        server.tool(
            method,
            title=title,
            description=schemas.DESCRIPTIONS[name],
            output_schema=schema,
            annotations=READ_ONLY | {"title": title},
            meta={"anthropic/maxResultSizeChars": schemas.LARGEST_NOTE} if name == "get_note" else None,
        )
    add_resources(server, tools.run)
    add_prompt(server)
    return server


READ_ONLY: dict[str, Any] = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
