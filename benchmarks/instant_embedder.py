"""An Ollama that answers at once, for measuring what is not the embedder.

usage: python benchmarks/instant_embedder.py [--port 0] [--dimensions 384] [--per-request S] [--per-text S]

Prints its URL on the first line of stdout and serves until it is told to stop. GET /spent answers how many
requests and texts there were and the seconds of CPU that this process took; POST forgets the counts.

A vector costs a few microseconds: it is put together from pieces of JSON that are there already. Each is one
of 4,096 bases, chosen by the rarest-looking words of the text, with a quarter of its numbers exchanged for
others that the whole text chooses: texts that share words are near, and no two texts are at one place. The
bases lie in clusters on a surface of 24 dimensions, about as embeddings of real notes do.

With `--per-request` and `--per-text` it takes that time, one request after the other and without using the
CPU, like a server whose GPU is the bottleneck.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from itertools import pairwise
from zlib import crc32

import numpy as np

MODEL = "instant"
BASES, BLOCKS, EXCHANGED, PIECES = 4096, 24, 6, 1024
CLUSTERS, SURFACE = 256, 24


class Pieces:
    """The parts of which vectors are made, as JSON."""

    def __init__(self, dimensions: int) -> None:
        chance = np.random.default_rng(1)
        edges = np.linspace(0, dimensions, BLOCKS + 1).astype(int)
        centres = chance.standard_normal((CLUSTERS, SURFACE))
        places = centres[np.arange(BASES) % CLUSTERS] + 0.6 * chance.standard_normal((BASES, SURFACE))
        bases = places @ chance.standard_normal((SURFACE, dimensions))
        bases /= np.linalg.norm(bases, axis=1, keepdims=True)
        others = chance.standard_normal((PIECES, dimensions)) / np.sqrt(dimensions)
        self._bases = [[_write(row[a:b]) for a, b in pairwise(edges)] for row in bases.astype(np.float32)]
        self._others = [[_write(row[a:b]) for a, b in pairwise(edges)] for row in others.astype(np.float32)]

    def vector(self, text: bytes) -> bytes:
        """The JSON of a text's vector."""
        words = {word.lower() for word in text.split() if len(word) > 5}
        sketch = min(map(crc32, words), default=0)
        blocks = list(self._bases[sketch % BASES])
        own = crc32(text)
        for turn in range(EXCHANGED):
            place = (own + 5 * turn) % BLOCKS
            blocks[place] = self._others[(own >> 8 ^ turn * 131) % PIECES][place]
        return b"[" + b",".join(blocks) + b"]"


def _write(numbers: np.ndarray) -> bytes:
    return b",".join(str(number).encode() for number in numbers)


class Server(asyncio.Protocol):
    """One connection. Speaks as much of HTTP as clients of Ollama do."""

    pieces: Pieces
    dimensions = 384
    per_request = per_text = 0.0
    counts = {"requests": 0, "texts": 0}  # noqa: RUF012 - of all connections
    turn: asyncio.Lock

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.buffer = bytearray()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.buffer[:end])
            mark = head.lower().find(b"content-length:")
            length = int(head[mark + 15 :].split(b"\r\n", 1)[0]) if mark >= 0 else 0
            if len(self.buffer) < end + 4 + length:
                return
            body = bytes(self.buffer[end + 4 : end + 4 + length])
            del self.buffer[: end + 4 + length]
            method, path = head.split(b" ", 2)[:2]
            self.answer(method, path.split(b"?")[0], body)

    def answer(self, method: bytes, path: bytes, body: bytes) -> None:
        if path == b"/api/embed":
            texts = json.loads(body)["input"]
            texts = [texts] if isinstance(texts, str) else texts
            self.counts["requests"] += 1
            self.counts["texts"] += len(texts)
            vectors = b",".join([self.pieces.vector(text.encode()) for text in texts])
            whole = b'{"model":"instant","embeddings":[' + vectors + b"]}"
            if self.per_request or self.per_text:
                self.waiting = asyncio.get_running_loop().create_task(self._take_time(len(texts), whole))
            else:
                self._send(whole)
        elif path == b"/api/version":
            self._send(b'{"version":"0.12.6"}')
        elif path == b"/api/tags":
            self._send(
                json.dumps({"models": [{"name": f"{MODEL}:latest", "model": f"{MODEL}:latest"}]}).encode()
            )
        elif path == b"/api/show":
            info = {
                "general.architecture": "bert",
                "bert.embedding_length": self.dimensions,
                "bert.context_length": 2048,
            }
            self._send(
                json.dumps({"capabilities": ["embedding"], "model_info": info, "details": {}}).encode()
            )
        elif path == b"/spent":
            if method == b"POST":
                self.counts.update(requests=0, texts=0)
            times = os.times()
            self._send(json.dumps(self.counts | {"cpu_seconds": times.user + times.system}).encode())
        else:
            self._send(b'{"error":"404 page not found"}', b"404 Not Found")

    async def _take_time(self, texts: int, whole: bytes) -> None:
        async with self.turn:
            await asyncio.sleep(self.per_request + self.per_text * texts)
        self._send(whole)

    def _send(self, body: bytes, status: bytes = b"200 OK") -> None:
        if not self.transport.is_closing():
            self.transport.write(
                b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % (status, len(body))
                + body
            )


async def serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    Server.turn = asyncio.Lock()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    server = await loop.create_server(Server, "127.0.0.1", port)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await stopped.wait()
    server.close()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="An Ollama that answers at once.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--per-request", type=float, default=0.0, help="seconds that a request takes")
    parser.add_argument("--per-text", type=float, default=0.0, help="and each text in it")
    options = parser.parse_args(arguments)
    Server.dimensions = options.dimensions
    Server.per_request, Server.per_text = options.per_request, options.per_text
    Server.pieces = Pieces(options.dimensions)
    asyncio.run(serve(options.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
