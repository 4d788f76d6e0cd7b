"""The MCP server over stdio: `python server.py --help`. The same as `obsidian-rag serve`."""

from obsidian_rag.mcp_server import main

if __name__ == "__main__":
    main()
