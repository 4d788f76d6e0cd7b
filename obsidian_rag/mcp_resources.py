"""What a client can read without a tool: notes and the state of the index; and a prompt."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastmcp import FastMCP
from fastmcp.exceptions import ResourceError, ToolError, ValidationError
from pydantic import Field

from obsidian_rag import schemas
from obsidian_rag.errors import NoteNotFound, QueryError

if TYPE_CHECKING:
    from obsidian_rag.index_reader import IndexReader

# Does work on the index, as the tools do theirs.
Run = Callable[[Callable[["IndexReader"], str]], Coroutine[Any, Any, str]]

MOST_LISTED = 50  # failures that the status names; all are counted


def add_resources(server: FastMCP, run: Run) -> None:
    """Offer `note://{path}` and `vault://status`."""

    async def read_note(path: str) -> str:
        def work(reader: IndexReader) -> str:
            from obsidian_rag.catalog import load_note

            return reader.run(partial(load_note, file_path=path)).content

        return await _run_resource(run, work)

    async def read_status() -> str:
        def work(reader: IndexReader) -> str:
            import json

            from obsidian_rag.catalog import load_status

            status = reader.run(load_status)
            shown = {"failures": status["failures"][:MOST_LISTED], "failed": len(status["failures"])}
            return json.dumps(status | shown, ensure_ascii=False)

        return await _run_resource(run, work)

    server.resource(
        "note://{path*}",
        name="note",
        title="A note",
        description=schemas.NOTE_RESOURCE,
        mime_type="text/markdown",
        security=None,  # a path is looked up in the index and never opened; an error can say what is near
    )(read_note)
    server.resource(
        "vault://status",
        name="status",
        title="State of the index",
        description=schemas.STATUS_RESOURCE,
        mime_type="application/json",
    )(read_status)


async def _run_resource(run: Run, work: Callable[[IndexReader], str]) -> str:
    try:
        return await run(work)
    except ToolError as exc:
        if isinstance(exc.__cause__, NoteNotFound | QueryError):
            raise ValidationError(str(exc), log_level=exc.log_level) from exc  # another URI is the mend
        raise ResourceError(str(exc), log_level=exc.log_level) from exc


def add_prompt(server: FastMCP) -> None:
    """Offer `answer_from_notes`."""

    def answer_from_notes(
        question: Annotated[str, Field(description="What is to be answered from the notes")],
    ) -> str:
        return schemas.PROMPT.format(question=question)

    server.prompt(
        answer_from_notes,
        title="Answer from my notes",
        description="Answers a question from the person's notes alone, and cites them.",
    )
