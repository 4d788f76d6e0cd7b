"""The web server itself: a socket on the loopback interface, uvicorn on it, and a browser to look at it."""

from __future__ import annotations

import errno
import socket
import threading
import webbrowser

import uvicorn
from starlette.types import ASGIApp

from obsidian_rag.errors import SettingsError

HOST = "127.0.0.1"
HIGHEST_PORT = 65535
WAITING = 128  # connections that the system keeps until they are taken
ENDING_SECONDS = 3  # that answers under way have when the server is ended


def listen(port: int) -> socket.socket:
    """A socket that takes connections from this machine only. Raises SettingsError where it cannot be had."""
    if not 0 <= port <= HIGHEST_PORT:
        raise SettingsError(
            f"The port is {port}", f"Use a number from 1024 to {HIGHEST_PORT}, or 0 for any that is free."
        )
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(WAITING)
    except OSError as exc:
        listening.close()
        taken = exc.errno == errno.EADDRINUSE
        raise SettingsError(
            f"Port {port} of {HOST} is taken" if taken else f"Port {port} cannot be used: {exc.strerror}",
            "Another page may run already: open it there. Or choose another port: obsidian-rag web --port 0"
            if taken
            else "Choose another port: obsidian-rag web --port 0",
        ) from exc
    return listening


def make_server(app: ASGIApp) -> uvicorn.Server:
    """A server that is not running yet. It takes nothing from the environment and writes no access log."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=ENDING_SECONDS,
        )
    )


def run_server(app: ASGIApp, listening: socket.socket) -> None:
    """Serve until a signal ends it; that is raised again at the end, KeyboardInterrupt for Ctrl-C."""
    make_server(app).run(sockets=[listening])


def show_page(url: str) -> None:
    """Open the page in the person's browser, where there is one with windows. Does not wait for it."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return
    if type(browser) is webbrowser.GenericBrowser:
        return  # a browser of the terminal, which this program holds
    threading.Thread(target=browser.open, args=(url,), name="show-page", daemon=True).start()
