"""The programs that compare_tools.py asks, each through its own server, and the model server they may use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from ollama_double import OllamaDouble, embed  # noqa: E402
from speed_calls import Session  # noqa: E402

PATIENCE = 900  # seconds for one call or one command: the longest note through a model on a busy machine


class ModelServer:
    """Ollama on loopback for those that speak its own API and those that speak OpenAI's to it."""

    def __init__(self) -> None:
        self.ollama = OllamaDouble().start()
        self.texts: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def count_texts(self) -> int:
        return len(self.texts) + len(self.ollama.texts)

    def stop(self) -> None:
        self.ollama.stop()
        self._server.shutdown()
        self._server.server_close()

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        texts = self.texts

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if not self.path.endswith("/embeddings"):
                    self.send_error(404)
                    return
                given = body["input"] if isinstance(body["input"], list) else [body["input"]]
                texts.extend(given)
                found = [{"index": n, "embedding": embed(text, 64)} for n, text in enumerate(given)]
                answer = json.dumps({"object": "list", "model": body["model"], "data": found}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


# --- the programs


@dataclass(frozen=True)
class Answer:
    """What a program said: to a call of a tool, or as a command."""

    text: str
    failed: bool = False

    def holds(self, word: str) -> bool:
        return word.casefold() in self.text.casefold()


class Client(Session):
    """An MCP session whose errors are answers too, with a limit of time."""

    def say(self, tool: str, **arguments: object) -> Answer:
        watch = threading.Timer(PATIENCE, self.process.kill)
        watch.start()
        try:
            _, result = self.call(tool, arguments)
        except (RuntimeError, BrokenPipeError) as exc:
            return Answer(str(exc), failed=True)
        finally:
            watch.cancel()
        parts = [part.get("text") or part.get("resource", {}).get("text", "") for part in result["content"]]
        return Answer("\n".join(parts))

    def list_tools(self) -> list[str]:
        return [tool["name"] for tool in self._ask("tools/list", {})["tools"]]


class Program(ABC):
    """One of the compared programs over one copy of the vault, with a home of its own."""

    name: str

    def __init__(self, peers: Path, folder: Path) -> None:
        self.peers, self.folder = peers, folder
        self.vault, self.home = folder / "vault", folder / "home"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "HF_HUB_OFFLINE": "1",
            **{
                f"XDG_{kind}_HOME": str(self.home / kind.lower())
                for kind in ("CACHE", "CONFIG", "DATA", "STATE")
            },
        }
        self.home.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def find(self) -> Path:
        """A file that is there where the program is installed."""

    @abstractmethod
    def serve_command(self) -> list[str]: ...

    @abstractmethod
    def search(self, client: Client, query: str, mode: str = "keyword") -> Answer: ...

    @abstractmethod
    def read(self, client: Client, path: str) -> Answer: ...

    def index_command(self) -> list[str] | None:
        """The command that makes the index equal to the vault; None where the server does that by itself."""
        return None

    def list_backlinks(self, client: Client, path: str) -> Answer | None:
        """None where no tool tells them."""
        return None

    def ask_ollama(self, server: ModelServer) -> bool:
        """Set the program to embed with that Ollama; False where it cannot."""
        return False

    def index(self) -> Answer:
        command = self.index_command()
        return self.run(command) if command else Answer("no index")

    def run(self, command: Sequence[str]) -> Answer:
        done = subprocess.run(
            command,
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Answer(f"exit {done.returncode}\n{done.stdout}\n{done.stderr}", failed=done.returncode != 0)

    @contextmanager
    def open(self) -> Iterator[Client]:
        client = Client(self.serve_command(), self.environment, self.home / "server")
        try:
            yield client
        finally:
            client.close()


class Ours(Program):
    name = "obsidian-rag"

    def __init__(self, peers: Path, folder: Path) -> None:
        super().__init__(peers, folder)
        self.environment |= {
            "VAULT_PATH": str(self.vault),
            "OBSIDIAN_RAG_DATA": str(self.home / "data"),
            "EMBEDDER": "local",
        }

    def find(self) -> Path:
        return ROOT / "server.py"

    def serve_command(self) -> list[str]:
        return [sys.executable, "-m", "obsidian_rag", "serve"]

    def index_command(self) -> list[str]:
        return [sys.executable, "-m", "obsidian_rag", "index"]

    def search(self, client: Client, query: str, mode: str = "keyword") -> Answer:
        return client.say("search_notes", query=query, mode=mode)

    def read(self, client: Client, path: str) -> Answer:
        return client.say("get_note", file_path=path)

    def list_backlinks(self, client: Client, path: str) -> Answer:
        return client.say("graph_search", file_path=path)

    def ask_ollama(self, server: ModelServer) -> bool:
        self.environment |= {"EMBEDDER": "ollama", "OLLAMA_URL": server.ollama.url}
        return True


class Qmd(Program):
    name = "qmd"

    def find(self) -> Path:
        return self.peers / "qmd/node_modules/@tobilu/qmd/dist/cli/qmd.js"

    def _command(self, *arguments: str) -> list[str]:
        return [str(self.peers / "node/node_modules/node/bin/node"), str(self.find()), *arguments]

    def serve_command(self) -> list[str]:
        return self._command("mcp")

    def index_command(self) -> list[str]:
        if (self.home / "config").exists():
            return self._command("update")
        return self._command("collection", "add", str(self.vault), "--name", "notes")

    def search(self, client: Client, query: str, mode: str = "keyword") -> Answer:
        if mode == "hybrid":
            return client.say("query", query=query)
        return client.say("query", searches=[{"type": "lex", "query": query}], rerank=False)

    def read(self, client: Client, path: str) -> Answer:
        return client.say("get", file=path)


class BasicMemory(Program):
    name = "basic-memory"

    def __init__(self, peers: Path, folder: Path) -> None:
        super().__init__(peers, folder)
        self.environment |= {
            "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false",
            "BASIC_MEMORY_AUTO_UPDATE": "false",
        }

    def find(self) -> Path:
        return self.peers / "basic-memory/bin/basic-memory"

    def serve_command(self) -> list[str]:
        return [str(self.find()), "mcp", "--project", "notes"]

    def index_command(self) -> list[str]:
        if (self.home / "config/basic-memory/memory.db").exists():
            return [str(self.find()), "reindex"]
        return [str(self.find()), "project", "add", "notes", str(self.vault), "--default"]

    def search(self, client: Client, query: str, mode: str = "keyword") -> Answer:
        kind = "text" if mode == "keyword" else mode
        return client.say("search_notes", query=query, search_type=kind, output_format="json")

    def read(self, client: Client, path: str) -> Answer:
        return client.say("read_note", identifier=path)

    def list_backlinks(self, client: Client, path: str) -> Answer:
        return client.say("build_context", url=f"memory://{path}")

    def ask_ollama(self, server: ModelServer) -> bool:
        self.environment |= {
            "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "true",
            "BASIC_MEMORY_SEMANTIC_EMBEDDING_PROVIDER": "openai",
            "BASIC_MEMORY_SEMANTIC_EMBEDDING_MODEL": "nomic-embed-text",
            "BASIC_MEMORY_SEMANTIC_EMBEDDING_API_BASE": f"{server.url}/v1",
            "BASIC_MEMORY_SEMANTIC_EMBEDDING_API_KEY": "none",
            "BASIC_MEMORY_SEMANTIC_EMBEDDING_DIMENSIONS": "64",
        }
        return True


class MarkdownVault(Program):
    name = "markdown-vault-mcp"

    def __init__(self, peers: Path, folder: Path) -> None:
        super().__init__(peers, folder)
        self.environment |= {
            "MARKDOWN_VAULT_MCP_SOURCE_DIR": str(self.vault),
            "MARKDOWN_VAULT_MCP_INDEX_PATH": str(self.home / "index.db"),
        }

    def find(self) -> Path:
        return self.peers / "markdown-vault-mcp/bin/markdown-vault-mcp"

    def serve_command(self) -> list[str]:
        return [str(self.find()), "serve"]

    def index_command(self) -> list[str]:
        return [str(self.find()), "reindex" if (self.home / "index.db").exists() else "index"]

    def search(self, client: Client, query: str, mode: str = "keyword") -> Answer:
        return client.say("search", query=query, mode=mode)

    def read(self, client: Client, path: str) -> Answer:
        return client.say("read", path=path)

    def list_backlinks(self, client: Client, path: str) -> Answer:
        return client.say("get_backlinks", path=path)

    def ask_ollama(self, server: ModelServer) -> bool:
        self.environment |= {
            "MARKDOWN_VAULT_MCP_EMBEDDINGS_PATH": str(self.home / "embeddings"),
            "MARKDOWN_VAULT_MCP_EMBEDDING_PROVIDER": "ollama",
            "OLLAMA_HOST": server.url,
        }
        return True


class McpVault(Program):
    name = "mcpvault"

    def find(self) -> Path:
        return self.peers / "mcpvault/node_modules/@bitbonsai/mcpvault/dist/server.js"

    def serve_command(self) -> list[str]:
        return [str(self.peers / "node/node_modules/node/bin/node"), str(self.find()), str(self.vault)]

    def search(self, client: Client, query: str, mode: str = "keyword") -> Answer:
        return client.say("search_notes", query=query)

    def read(self, client: Client, path: str) -> Answer:
        return client.say("read_note", path=path)


PROGRAMS: tuple[type[Program], ...] = (Ours, Qmd, BasicMemory, MarkdownVault, McpVault)


# --- the questions
