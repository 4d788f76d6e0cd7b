"""A program on a terminal of its own, as a person sees and uses it."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE = 120  # seconds until a test gives up
# Takes the terminal as its own, so that Ctrl-C reaches it, then becomes the program.
TAKE_TERMINAL = (
    "import fcntl,os,sys,termios;fcntl.ioctl(0,termios.TIOCSCTTY,0);os.execv(sys.argv[1],sys.argv[1:])"
)
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\]8;[^\x1b]*\x1b\\")


class Terminal:
    """`obsidian-rag` with these arguments, on a terminal `width` columns wide."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, width: int = 80
    ) -> None:
        self._own, other = os.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        command = [sys.executable, "-m", "obsidian_rag", *arguments]
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, *command],
            env={"TERM": "xterm-256color", **environment},
            cwd=folder,
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        os.close(other)
        self._read = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._own)

    @property
    def raw(self) -> str:
        """All that was printed, with escape sequences."""
        return self._read.decode("utf-8", "replace").replace("\r\n", "\n")

    @property
    def text(self) -> str:
        """All that was printed, as it is read."""
        return ESCAPES.sub("", self.raw)

    def wait_for(self, words: str) -> None:
        """Read until the words are on the screen."""
        end = time.monotonic() + PATIENCE
        while words not in self.text:
            assert time.monotonic() < end and self._read_some(), f"{words!r} never came: {self.text}"

    def type(self, text: str) -> None:
        os.write(self._own, text.encode())

    def finish(self) -> int:
        """Wait for the end; the exit code."""
        end = time.monotonic() + PATIENCE
        while self._read_some():
            assert time.monotonic() < end, f"it does not end: {self.text}"
        return self.process.wait(PATIENCE)

    def _read_some(self) -> bool:
        """Whether there is more to come."""
        if not select.select([self._own], [], [], PATIENCE)[0]:
            return False
        try:
            some = os.read(self._own, 65536)
        except OSError:  # Linux: nobody holds the other end any more
            return False
        self._read += some
        return bool(some)


def run_on_terminal(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path, width: int = 80
) -> Terminal:
    """Run to the end; the terminal with what was printed. The exit code must be 0."""
    with Terminal(arguments, environment, folder, width) as terminal:
        assert terminal.finish() == 0, terminal.text
    return terminal
