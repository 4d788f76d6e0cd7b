"""The page of `obsidian-rag web` on a port of its own, as tests ask it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from starlette.types import ASGIApp

from obsidian_rag.config import Settings
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.web.app import make_app
from obsidian_rag.web.server import listen, make_server


class Site:
    """A running page. `said` is what the program said on its terminal."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.said: list[str] = []
        self.client = httpx.Client(base_url=self.url, trust_env=False, timeout=30)

    def get(self, path: str, /, **parameters: Any) -> httpx.Response:
        return self.client.get(path, params=parameters or None)

    def ask(self, name: str, **parameters: Any) -> Any:
        """The JSON of an answer that is none of an error."""
        answer = self.get(f"/api/{name}", **parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def error(self, name: str, **parameters: Any) -> tuple[int, str, str]:
        """Status, message and mend of an answer that is an error."""
        answer = self.get(f"/api/{name}", **parameters)
        error = answer.json()["error"]
        return answer.status_code, error["message"], error["mend"]


@contextmanager
def serving(app: ASGIApp, site: Site, socket: Any) -> Iterator[Site]:
    """Serve an app in a thread until the block ends."""
    server = make_server(app)
    thread = threading.Thread(target=server.run, args=([socket],), name="site")
    thread.start()
    try:
        yield site
    finally:
        site.client.close()
        server.should_exit = True
        thread.join()
        socket.close()


@contextmanager
def open_site(settings: Settings) -> Iterator[Site]:
    """The page over the index of these settings."""
    socket = listen(0)
    site = Site(socket.getsockname()[1])
    reader = IndexReader(settings, site.said.append)
    try:
        with serving(make_app(reader, site.said.append), site, socket):
            yield site
    finally:
        reader.close()
