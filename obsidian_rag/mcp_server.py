"""The MCP server over stdio: starts at once, loads and connects once the client has its list of tools.

This module imports little, since stdout must be guarded before the libraries of the server are imported.
"""

from __future__ import annotations

import os
import sys

from obsidian_rag.config import Settings
from obsidian_rag.stdio import guarded_stdio


def serve(settings: Settings) -> None:
    """Serve until the input ends, or until a signal ends it (SystemExit, 128 + its number)."""
    # FastMCP would read a .env of the working directory, which may be the vault.
    os.environ["FASTMCP_ENV_FILE"] = os.devnull
    with guarded_stdio() as stdio:
        from obsidian_rag.mcp_tools import make_server

        server = make_server(settings, stdio.lend)
        try:
            server.run(transport="stdio", show_banner=False, log_level="WARNING")
        except* BrokenPipeError:
            print("The client has closed the connection.", file=sys.stderr)
        ended_by = stdio.ended_by
    if ended_by is not None:
        sys.exit(128 + ended_by)


def main() -> None:
    """The program server.py: the same as `obsidian-rag serve`."""
    from obsidian_rag.cli import cli

    cli(["serve", *sys.argv[1:]], prog_name="server.py")
