"""Errors as an agent reads them: what is wrong, what to pass instead, never so long that a client cuts it."""

from __future__ import annotations

import logging

from fastmcp.exceptions import NotFoundError, ResourceError, ToolError, ValidationError
from fastmcp.prompts import PromptResult
from fastmcp.resources import ResourceResult
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import ToolResult
from mcp.types import CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams
from pydantic import ValidationError as PydanticValidationError

from obsidian_rag import schemas

# Clients cut an error's text at about 10,000 characters, in its middle. What was given stands at the
# beginning, what to do at the end.
LONGEST, HEAD, TAIL = 6_000, 1_500, 4_000
MOST_FAULTS = 5  # arguments that an error names
LONGEST_NAME, LONGEST_VALUE = 60, 80


class ClearErrors(Middleware):
    """Says in few lines what was wrong with a request, instead of the reports of the libraries."""

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        name = context.message.name
        try:
            return await call_next(context)
        except NotFoundError as exc:
            known = "; ".join(schemas.USAGE.values())
            raise ToolError(f"Unknown tool: {_quote(name)}. There are: {known}.") from exc
        except (ValidationError, PydanticValidationError) as exc:
            cause = exc.__cause__ if isinstance(exc, ValidationError) else exc
            if not isinstance(cause, PydanticValidationError):
                raise ToolError(shorten(str(exc)), log_level=logging.INFO) from exc
            raise ToolError(shorten(explain_arguments(name, cause))) from exc
        except ToolError as exc:
            raise ToolError(shorten(str(exc)), log_level=exc.log_level) from exc

    async def on_read_resource(
        self,
        context: MiddlewareContext[ReadResourceRequestParams],
        call_next: CallNext[ReadResourceRequestParams, ResourceResult],
    ) -> ResourceResult:
        try:
            return await call_next(context)
        except NotFoundError as exc:
            raise ValidationError(
                f"Unknown resource: {_quote(str(context.message.uri))}. There are vault://status and"
                " note://{path}, a note's path with its signs percent-encoded.",
                log_level=logging.INFO,
            ) from exc
        except (ResourceError, ValidationError) as exc:
            raise type(exc)(shorten(str(exc)), log_level=exc.log_level) from exc

    async def on_get_prompt(
        self,
        context: MiddlewareContext[GetPromptRequestParams],
        call_next: CallNext[GetPromptRequestParams, PromptResult],
    ) -> PromptResult:
        given = context.message.arguments or {}
        if context.message.name == "answer_from_notes" and list(given) != ["question"]:
            raise ValidationError(
                'answer_from_notes takes one argument: question="what is to be answered".',
                log_level=logging.INFO,
            )
        try:
            return await call_next(context)
        except NotFoundError as exc:
            raise ValidationError(
                f"Unknown prompt: {_quote(context.message.name)}. There is answer_from_notes(question).",
                log_level=logging.INFO,
            ) from exc


def shorten(text: str) -> str:
    """An error's text without its middle, where it is too long to be shown whole."""
    return text if len(text) <= LONGEST else f"{text[:HEAD]} […] {text[-TAIL:]}"


def explain_arguments(tool: str, error: PydanticValidationError) -> str:
    """What is wrong with a tool's arguments and what it takes."""
    wrong = []
    faults = error.errors(include_url=False, include_context=False)
    for fault in faults[:MOST_FAULTS]:
        name = ".".join(map(str, fault["loc"])) or "arguments"
        name = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
        if fault["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            wrong.append(f"{name} is not one of its arguments")
        elif fault["type"].startswith("missing"):
            wrong.append(f"{name} is missing")
        else:
            wrong.append(f"{name} is {_show(fault['input'])}: {fault['msg']}")
    if len(faults) > MOST_FAULTS:
        wrong.append(f"{len(faults) - MOST_FAULTS} more are wrong")
    return f"{tool} cannot be called so: {'; '.join(wrong)}. Write {schemas.USAGE.get(tool, tool)}."


def _show(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= LONGEST_VALUE else f"{shown[:LONGEST_VALUE]}…"


def _quote(name: str) -> str:
    return repr(name if len(name) <= LONGEST_VALUE else f"{name[:LONGEST_VALUE]}…")
