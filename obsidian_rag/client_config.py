"""How MCP clients are told to start the server: each one's syntax, with the paths filled in."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SERVER_NAME = "obsidian-rag"


@dataclass(frozen=True, slots=True)
class Client:
    """A client as commands name it and as people do. `key` holds its servers, `is_typed` tells whether an
    entry must name its transport, `language` is json or toml; Claude Code is told by a command of its own.
    """

    name: str
    title: str
    language: str = "json"
    key: str = "mcpServers"
    is_typed: bool = False


CLAUDE_CODE = Client("claude-code", "Claude Code", "sh")
CLIENTS = (
    CLAUDE_CODE,
    Client("claude-desktop", "Claude Desktop"),
    Client("cursor", "Cursor"),
    Client("vscode", "VS Code", key="servers", is_typed=True),
    Client("codex", "Codex", "toml", "mcp_servers"),
)
CLIENT_NAMES = tuple(client.name for client in CLIENTS)


def find_client(name: str) -> Client:
    """The client of a name in CLIENT_NAMES."""
    return next(client for client in CLIENTS if client.name == name)


def render_configuration(client: Client, program: Sequence[str], environment: Mapping[str, str]) -> str:
    """What goes into a client's configuration file, or for Claude Code the line for the shell.

    `program` is the command of this program, its first word a full path; `environment` the variables that
    its server gets.
    """
    if client is CLAUDE_CODE:
        given = [f"-e {shlex.quote(f'{name}={value}')}" for name, value in environment.items()]
        return make_claude_line(shlex.join(program), given)
    command, *words = program
    arguments = [*words, "serve"]
    if client.language == "toml":
        return _render_toml(client.key, command, arguments, environment)
    entry: dict[str, Any] = {"type": "stdio"} if client.is_typed else {}
    entry |= {"command": command, "args": arguments}
    if environment:
        entry["env"] = dict(environment)
    return json.dumps({client.key: {SERVER_NAME: entry}}, ensure_ascii=False, indent=2)


def make_claude_line(program: str, variables: Sequence[str]) -> str:
    """The line for the shell that tells Claude Code to start the server; what is given is already quoted."""
    return " ".join([f"claude mcp add --scope user {SERVER_NAME}", *variables, f"-- {program} serve"])


def _render_toml(key: str, command: str, arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    lines = [
        f"[{key}.{SERVER_NAME}]",
        f"command = {_quote(command)}",
        f"args = [{', '.join(map(_quote, arguments))}]",
    ]
    if environment:
        lines += ["", f"[{key}.{SERVER_NAME}.env]"]
        lines += [f"{name} = {_quote(value)}" for name, value in environment.items()]
    return "\n".join(lines)


def _quote(text: str) -> str:
    """A basic string of TOML: JSON's but for the one control character that JSON lets through."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
