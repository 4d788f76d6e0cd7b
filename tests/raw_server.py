"""The real server as a subprocess, spoken to in plain JSON-RPC: what a client sees, byte by byte."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 120  # seconds until a test gives up


class RawServer:
    """`server.py` with its streams. Its stderr goes to a file, so that it can say as much as it likes."""

    def __init__(
        self, environment: Mapping[str, str], folder: Path, command: Sequence[str | Path] | None = None
    ) -> None:
        self._errors = (folder / "stderr.txt").open("wb")
        self.process = subprocess.Popen(
            command or [sys.executable, ROOT / "server.py"],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self.lines: list[bytes] = []
        self._number = 0
        self._answers: dict[int, dict[str, Any]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        self._errors.close()

    @property
    def stderr(self) -> str:
        return Path(self._errors.name).read_text(encoding="utf-8", errors="replace")

    @property
    def _stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    def send(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request; its number."""
        self._number += 1
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params or {}})
        return self._number

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        self._write({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def read(self, number: int) -> dict[str, Any]:
        """The answer to a request, in whatever order they come. Every line of stdout on the way is kept in
        `lines`.
        """
        assert self.process.stdout is not None
        while number not in self._answers:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"The server ended without an answer: {self.stderr}")
            self.lines.append(line)
            message = json.loads(line)
            if "id" in message:
                self._answers[message["id"]] = dict(message)
        return self._answers.pop(number)

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return self.read(self.send(method, params))

    def initialize(self) -> dict[str, Any]:
        answer = self.ask(
            "initialize",
            {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "raw", "version": "1"},
            },
        )
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return dict(self.ask("tools/call", {"name": tool, "arguments": arguments})["result"])

    def end_input(self) -> None:
        self._stdin.close()

    def finish(self) -> int:
        """Wait for the end; the exit code. The rest of stdout is kept in `lines`."""
        assert self.process.stdout is not None
        code = self.process.wait(PATIENCE)
        self.lines += self.process.stdout.readlines()
        return code

    def _write(self, message: dict[str, Any]) -> None:
        self._stdin.write(json.dumps(message).encode() + b"\n")
        self._stdin.flush()
