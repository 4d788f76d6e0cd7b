"""A PostgreSQL of a test's own, which can be stopped, ended as by a crash and started again at its port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psycopg
from psycopg import pq, sql

from obsidian_rag import embedded, embedded_home

PATIENCE = 120  # seconds until a test gives up
# Nothing in it must outlive the machine; no socket file, whose path may be too long.
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
}
if sys.platform == "linux":
    SETTINGS["dynamic_shared_memory_type"] = "sysv"  # a container's /dev/shm is small


class OwnPostgres:
    """The server of a folder that any account may enter (PostgreSQL does not run as root)."""

    def __init__(self, folder: Path) -> None:
        embedded.acquire(folder)
        embedded.release(folder)
        self._site = embedded_home.locate(embedded_home.canonical(folder))
        self._log = (folder / "postgres.log").open("ab")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.stop()
        self._log.close()

    def url(self, database: str = "postgres") -> str:
        password = quote(self._site.password.read_text("ascii"), safe="")
        return f"postgresql://postgres:{password}@127.0.0.1:{self.port}/{database}"

    @property
    def account(self) -> embedded_home.Account | None:
        """Whom a folder must belong to that the server is to write into; None for this process's own."""
        return self._site.account

    def create_database(self, name: str, *, tablespace: str | None = None) -> str:
        """Make an empty database; its URL."""
        where = sql.SQL(" TABLESPACE {}").format(sql.Identifier(tablespace)) if tablespace else sql.SQL("")
        with psycopg.connect(self.url(), autocommit=True) as conn:
            conn.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)) + where
            )
        return self.url(name)

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        command: list[str | Path] = [self._site.programs / "postgres", "-D", self._site.data]
        command += ["-p", str(self.port), *(f"--{name}={value}" for name, value in SETTINGS.items())]
        self._process = subprocess.Popen(
            command,
            cwd=self._site.data,
            env=embedded_home.environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            **embedded_home.as_account(self._site.account),
        )
        question = f"host=127.0.0.1 port={self.port} sslmode=disable connect_timeout=3".encode()
        deadline = time.monotonic() + PATIENCE
        pause = threading.Event()
        while pq.PGconn.ping(question) != pq.Ping.OK:
            assert self._process.poll() is None, "the server does not start; see postgres.log"
            assert time.monotonic() < deadline, "the server does not answer"
            pause.wait(0.02)

    def stop(self, signal_name: str = "SIGINT") -> None:
        """End it: SIGINT ends all sessions in order, SIGQUIT at once, so that it has to recover."""
        if self._process is not None:
            os.kill(self._process.pid, getattr(signal, signal_name))
            self._process.wait(PATIENCE)
            self._process = None

    def restart(self, signal_name: str = "SIGINT") -> None:
        self.stop(signal_name)
        self.start()
