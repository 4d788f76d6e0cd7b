"""A stand-in for Ollama: a real HTTP server on loopback with what is used of its API, and faults on demand.

In a test:

    with OllamaDouble() as ollama:                      # 64 dimensions, nomic-embed-text pulled
        ollama.faults.append("busy")                    # the next /api/embed answers 503
        ollama.poison.add("cursed")                     # any batch holding this word fails whole
        ...
        assert ollama.texts == ["search_document: …"]   # what was embedded, in order

As a program: `python tests/ollama_double.py --port 0` prints its URL on the first line of stdout. A test
in another process reads and steers it at `/double`: GET answers `{"calls", "embed_calls", "texts"}`, POST
takes `{"faults": [...], "poison": [...], "always": name or null, "forget": true}`.

The vectors are hashed words, stems and trigrams: the same text gives the same vector in every process, and
texts that share words are near each other.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import numpy as np

TOO_LONG = "the input length exceeds the context length"
EOF = 'do embedding request: Post "http://127.0.0.1:41231/embedding": EOF'
NAN = "failed to encode response: json: unsupported value: NaN"
BUSY = "server busy, please try again.  maximum pending requests exceeded"
HTML = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Gateway</body></html>"

# name -> (status, error text)
ERROR_FAULTS = {
    "busy": (503, BUSY),
    "eof400": (400, EOF),
    "eof500": (500, EOF),
    "nan400": (400, NAN),
    "nan500": (500, NAN),
    "too_long": (400, TOO_LONG),
    "too_long_old": (400, "input length exceeds maximum context length"),
    "too_long_older": (500, "input exceeds maximum context length"),
    "crash": (500, "llama runner process has terminated: signal: killed"),
    "refused": (400, "invalid input"),
    "overloaded": (429, "too many requests"),
    "unauthorized": (401, "unauthorized"),
}
# Faults that change an otherwise good answer, or the connection.
SPOILED = ("nan", "null", "zero", "wrong_dimension", "fewer", "more", "empty")
BROKEN = ("html", "html502", "drop", "drop_mid", "missing")

_PREFIX = re.compile(
    r"^(search_query: |search_document: |query: |passage: |task: search result \| query: |"
    r"title: none \| text: |Represent this sentence for searching relevant passages: |"
    r"Instruct: [^\n]*\nQuery:)"
)
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Model:
    """A model the double has pulled. An `embedding` capability makes it an embedding model."""

    name: str
    dimensions: int = 64
    context: int = 2048
    capabilities: tuple[str, ...] | None = ("embedding",)
    family: str = "nomic-bert"
    stated: bool = True  # whether /api/show tells dimensions and context
    turn: int = 0  # another model's vectors: the coordinates moved round by so many places


@dataclass(frozen=True)
class Call:
    """One request as it came in."""

    method: str
    path: str
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def inputs(self) -> list[str]:
        given = self.body.get("input")
        return [given] if isinstance(given, str) else list(given or [])


@dataclass
class Hold:
    """A fault that keeps an answer back until `release` is set; `entered` is set once the request is in."""

    then: str | None = None
    entered: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)


Fault = str | Hold | Callable[[Call], "str | Hold | None"] | None


def count_tokens(text: str) -> int:
    """What the double takes for tokens: pieces of at most six letters, each CJK character, and two marks."""
    return 2 + sum(
        len(word) if ord(word[0]) >= 0x2E80 else -(-len(word) // 6) for word in _WORD.findall(text)
    )


def embed(text: str, dimensions: int) -> list[float]:
    """A deterministic vector of length 1; texts that share words, stems or trigrams are near each other."""
    text = _PREFIX.sub("", text, count=1).lower()
    vector = np.zeros(dimensions)
    for word in _WORD.findall(text):
        weight = 0.15 if len(word) <= 3 and word.isascii() else 1.0
        vector += weight * _feature("w:" + _stem(word), dimensions)
        padded = f"#{word}#"
        for i in range(min(len(padded) - 2, 40)):
            vector += 0.2 * weight * _feature("t:" + padded[i : i + 3], dimensions)
    norm = float(np.linalg.norm(vector))
    if norm < 1e-9:
        vector = _feature("nothing", dimensions)
        norm = float(np.linalg.norm(vector))
    return [float(x) for x in np.round(vector / norm, 7)]


def turn(vector: list[float], places: int) -> list[float]:
    """A vector as a model with this `turn` gives it."""
    return vector[places:] + vector[:places]


def _stem(word: str) -> str:
    for ending in ("ations", "ation", "ings", "ing", "ies", "ied", "ed", "es", "ly", "s", "y", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


@lru_cache(maxsize=200_000)
def _feature(name: str, dimensions: int) -> Any:
    seed = int.from_bytes(hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).digest(), "big")
    vector = np.random.Generator(np.random.PCG64(seed)).standard_normal(dimensions)
    return vector / np.linalg.norm(vector)


class OllamaDouble:
    """Ollama on loopback. `models` are names (with `dimensions` and `context`) or `Model`s.

    faults   a list; each /api/embed call takes the first one (None = answer well): the names in
             ERROR_FAULTS, SPOILED and BROKEN, a Hold, or a callable of the Call giving one of these
    always   a fault for every /api/embed call that took none from `faults`
    poison   texts containing one of these make their whole batch fail with `poison_fault`
    unwell   a fault for the other paths ("html", "busy", "drop", …)
    writes   the text that /api/generate answers, or a callable of the Call giving it; `writing_faults` are
             for that path what `faults` are for /api/embed, and `writing_calls` its calls with a prompt
    calls    every request; `embed_calls` those to /api/embed
    texts    the inputs that were answered with vectors, in order; `received` all inputs
    """

    def __init__(
        self,
        dimensions: int = 64,
        models: Sequence[str | Model] = ("nomic-embed-text",),
        context: int = 2048,
        port: int = 0,
        password: str | None = None,
    ) -> None:
        self.dimensions = dimensions
        self.context = context
        self.models: dict[str, Model] = {}
        for model in models:
            self.pull(model)
        self.faults: list[Fault] = []
        self.always: Fault = None
        self.unwell: Fault = None
        self.writes: str | Callable[[Call], str] = ""
        self.writing_faults: list[Fault] = []
        self.poison: set[str] = set()
        self.poison_fault = "nan500"
        self.password = password
        self.knows_dimensions = True  # servers before 0.11.11 answer the full length whatever is asked
        self.calls: list[Call] = []
        self.texts: list[str] = []
        self.holds: list[Hold] = []
        self._port = port
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def pull(self, model: str | Model) -> None:
        """Make a model available, as `ollama pull` does."""
        if isinstance(model, str):
            model = Model(model, self.dimensions, self.context)
        self.models[_tagged(model.name)] = model

    def remove(self, name: str) -> None:
        """Take a model away, as `ollama rm` does."""
        del self.models[_tagged(name)]

    @property
    def port(self) -> int:
        assert self._port, "the double has not been started"
        return self._port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def embed_calls(self) -> list[Call]:
        return [call for call in self.calls if call.path == "/api/embed"]

    @property
    def writing_calls(self) -> list[Call]:
        return [call for call in self.calls if call.path == "/api/generate" and call.body.get("prompt")]

    @property
    def received(self) -> list[str]:
        return [text for call in self.embed_calls for text in call.inputs]

    def forget(self) -> None:
        """Forget what was asked so far."""
        with self._lock:
            self.calls.clear()
            self.texts.clear()

    def start(self) -> OllamaDouble:
        """Listen; after `stop` on the same port as before."""
        self._server = _Server(("127.0.0.1", self._port), _Handler)
        self._server.double = self
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop listening and cut every open connection, as a stopped Ollama does."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._thread.join()
        for hold in self.holds:
            hold.release.set()
        self._server.cut_connections()
        self._server.server_close()
        self._server = self._thread = None

    def __enter__(self) -> OllamaDouble:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def find(self, name: str) -> Model | None:
        return self.models.get(_tagged(name))

    def record(self, call: Call) -> None:
        with self._lock:
            self.calls.append(call)

    def keep(self, texts: Iterable[str]) -> None:
        with self._lock:
            self.texts.extend(texts)

    def place(self, texts: Sequence[str]) -> int:
        """The first poisoned text, or the last of all."""
        bad = (i for i, text in enumerate(texts) if any(word in text for word in self.poison))
        return next(bad, len(texts) - 1)

    def next_fault(self, call: Call) -> str | Hold | None:
        """The fault for this /api/embed call."""
        with self._lock:
            fault = self.faults.pop(0) if self.faults else self.always
        if callable(fault):
            fault = fault(call)
        if fault is None and any(word in text for word in self.poison for text in call.inputs):
            return self.poison_fault
        return fault


def _tagged(name: str) -> str:
    return name if ":" in name.rsplit("/", 1)[-1] else f"{name}:latest"


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True  # so that no thread outlives the test
    request_queue_size = 64
    double: OllamaDouble

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(*args, **kwargs)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def cut_connections(self) -> None:
        with self._open_lock:
            for request in self._open:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body go out separately; the second would wait 40 ms
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: stderr belongs to the test."""

    def do_GET(self) -> None:
        self._handle("GET")

    def do_POST(self) -> None:
        self._handle("POST")

    def do_HEAD(self) -> None:
        self._handle("HEAD")

    def _handle(self, method: str) -> None:
        double = self.server.double
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            return self._error(400, "invalid character in request body")
        path = self.path.split("?", 1)[0]
        if path == "/double":
            return self._steer(body if method == "POST" else None)
        call = Call(method, path, body, dict(self.headers.items()))
        double.record(call)
        if double.password is not None and "Authorization" not in self.headers:
            return self._error(401, "unauthorized")
        if path == "/api/embed" and method == "POST":
            return self._embed(call)
        if double.unwell is not None:
            fault = double.unwell(call) if callable(double.unwell) else double.unwell
            if isinstance(fault, Hold):
                fault = self._wait(fault)
            if fault is not None:
                return self._fail(fault)
        if path == "/api/version":
            return self._json(200, {"version": "0.12.6"})
        if path == "/api/tags":
            return self._json(200, {"models": [{"name": name, "model": name} for name in double.models]})
        if path == "/api/show" and method == "POST":
            return self._show(body)
        if path == "/api/generate" and method == "POST":
            return self._generate(call)
        if path == "/":
            return self._send(200, b"Ollama is running", "text/plain; charset=utf-8")
        return self._send(404, b"404 page not found", "text/plain")

    def _steer(self, orders: dict[str, Any] | None) -> None:
        double = self.server.double
        for key, value in (orders or {}).items():
            if key == "faults":
                double.faults.extend(value)
            elif key == "poison":
                double.poison = set(value)
            elif key == "always":
                double.always = value
            elif key == "forget":
                double.forget()
            else:
                return self._error(400, f"unknown order {key}")
        counts = {"calls": len(double.calls), "embed_calls": len(double.embed_calls), "texts": double.texts}
        return self._json(200, counts)

    def _show(self, body: dict[str, Any]) -> None:
        name = body.get("model") or body.get("name") or ""
        model = self.server.double.find(name)
        if model is None:
            return self._error(404, f"model '{name}' not found")
        info = {
            "general.architecture": model.family,
            f"{model.family}.embedding_length": model.dimensions,
            f"{model.family}.context_length": model.context,
        }
        answer: dict[str, Any] = {
            "details": {"family": model.family},
            "model_info": info if model.stated else {},
        }
        if model.capabilities is not None:  # servers before 0.6.4 do not say
            answer["capabilities"] = list(model.capabilities)
        return self._json(200, answer)

    def _embed(self, call: Call) -> None:
        double = self.server.double
        fault = double.next_fault(call)
        if isinstance(fault, Hold):
            fault = self._wait(fault)
        name = call.body.get("model", "")
        model = double.find(name)
        if fault == "missing" or model is None:
            return self._error(404, f'model "{name}" not found, try pulling it first')
        if model.capabilities is not None and "embedding" not in model.capabilities:
            return self._error(400, f'"{name}" does not support embeddings')
        if fault is not None and fault not in SPOILED:
            return self._fail(fault)
        texts = call.inputs
        if isinstance(call.body.get("input"), str) and not texts[0]:
            texts = []
        if not all(isinstance(text, str) for text in texts):
            return self._error(400, "invalid input type")
        context = min(model.context, int((call.body.get("options") or {}).get("num_ctx") or model.context))
        if any(count_tokens(text) > context for text in texts):
            if call.body.get("truncate") is False:
                return self._error(400, TOO_LONG)
            texts = [_truncate(text, context) for text in texts]
        vectors: list[Any] = [turn(embed(text, model.dimensions), model.turn) for text in texts]
        wanted = int(call.body.get("dimensions") or 0)
        if double.knows_dimensions and 0 < wanted < model.dimensions:
            vectors = [_shorten(vector, wanted) for vector in vectors]
        if fault is None:
            double.keep(texts)
        return self._json(
            200,
            {"model": name, "embeddings": _spoil(vectors, fault, double.place(texts)), "total_duration": 1},
        )

    def _generate(self, call: Call) -> None:
        double = self.server.double
        name = call.body.get("model", "")
        model = double.find(name)
        if model is None:
            return self._error(404, f"model '{name}' not found")
        if model.capabilities is not None and "completion" not in model.capabilities:
            return self._error(400, f'"{name}" does not support generate')
        prompt = call.body.get("prompt") or ""  # without one the model is only loaded
        fault = double.writing_faults.pop(0) if prompt and double.writing_faults else None
        if callable(fault):
            fault = fault(call)
        if isinstance(fault, Hold):
            fault = self._wait(fault)
        if fault is not None:
            return self._fail(fault)
        text = (double.writes(call) if callable(double.writes) else double.writes) if prompt else ""
        return self._json(200, {"model": name, "response": text, "done": True})

    def _wait(self, hold: Hold) -> str | None:
        self.server.double.holds.append(hold)
        hold.entered.set()
        hold.release.wait(60)
        return hold.then

    def _fail(self, fault: str) -> None:
        if fault == "html":
            return self._send(200, HTML, "text/html; charset=utf-8")
        if fault == "html502":
            return self._send(502, HTML, "text/html; charset=utf-8")
        if fault in ("drop", "drop_mid"):
            if fault == "drop_mid":
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n"
                self.wfile.write(head + b'{"embed')
                self.wfile.flush()
            self.close_connection = True
            return None
        status, text = ERROR_FAULTS[fault]
        return self._error(status, text)

    def _error(self, status: int, text: str) -> None:
        self._json(status, {"error": text})

    def _json(self, status: int, value: Any) -> None:
        self._send(status, json.dumps(value).encode(), "application/json; charset=utf-8")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _truncate(text: str, context: int) -> str:
    words = text.split()
    while words and count_tokens(" ".join(words)) > context:
        words.pop()
    return " ".join(words)


def _shorten(vector: list[float], dimensions: int) -> list[float]:
    head = np.array(vector[:dimensions])
    return [float(x) for x in head / np.linalg.norm(head)]


def _spoil(vectors: list[Any], fault: str | None, place: int) -> list[Any]:
    """Change an answer as the fault says; where that is one vector, it is the one at `place`."""
    if fault is None or not vectors:
        return vectors
    values = vectors[place]
    match fault:
        case "nan":
            vectors[place] = [float("nan"), *values[1:]]
        case "null":
            vectors[place] = [None, *values[1:]]
        case "zero":
            vectors[place] = [0.0] * len(values)
        case "wrong_dimension":
            return [vector[:-1] for vector in vectors]
        case "fewer":
            return vectors[:-1]
        case "more":
            return [*vectors, values]
        case "empty":
            return []
    return vectors


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(description="A stand-in for Ollama.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--dimensions", type=int, default=64)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--model", action="append", help="may be given more than once")
    options = parser.parse_args(arguments)
    models = tuple(options.model or ("nomic-embed-text",))
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with OllamaDouble(options.dimensions, models, options.context, options.port) as double:
        print(double.url, flush=True)
        stopped.wait()


if __name__ == "__main__":
    main()
