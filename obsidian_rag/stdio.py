"""The standard streams of a server whose stdout is a protocol: nothing else may be written there.

Descriptor 1 leads to stderr from the first moment to the last, so that neither a print, nor native code, nor
a child, nor a function run at exit can spoil the protocol. Only while the MCP library takes hold of the
stream, or gives it back, does it lead to the client; meanwhile the library keeps it to itself.

Input passes through a pipe of ours: a signal can then end it as the client would, and what is at work ends
in order. A thread that waits in read() for the client's next line cannot be ended otherwise.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType

ENDING_SIGNALS = ("SIGTERM", "SIGHUP", "SIGINT")
PIECE = 65536
# An escaped backslash, a whole pair, or half of one.
_ESCAPES = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
HUNG_UP = select.POLLERR | select.POLLHUP  # not POLLNVAL, which macOS gives for a terminal


class Stdio:
    """Standard input and output while they are guarded."""

    def __init__(self, wire: int, feed: int) -> None:
        self.wire = wire
        self.feed = feed
        self.ended_by: int | None = None

    @asynccontextmanager
    async def lend(self, _server: object = None) -> AsyncIterator[None]:
        """Let descriptor 1 lead to the client. A FastMCP lifespan: entered last before the library takes the
        stream, left first after it gave it back.
        """
        sys.stdout.flush()
        os.dup2(self.wire, 1)
        try:
            yield
        finally:
            os.dup2(2, 1)

    def end_input(self) -> None:
        """Make the reader of standard input see its end."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.feed)  # in one step: the thread that copies input may be writing
        os.close(nowhere)


@contextmanager
def guarded_stdio() -> Iterator[Stdio]:
    """Guard the streams until the process ends. SIGTERM, SIGHUP and Ctrl-C then end the input; a second one
    ends the process on the spot.
    """
    wire = os.dup(1)
    os.dup2(2, 1)
    # Only now: what an earlier print left in the buffer does not belong on the wire either.
    sys.stdout.flush()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    source = os.dup(0)
    reader, feed = os.pipe()
    os.dup2(reader, 0)
    os.close(reader)
    stdio = Stdio(wire, feed)
    threading.Thread(target=_copy, args=(source, stdio), name="stdin", daemon=True).start()
    previous = {number: signal.signal(number, _ender(stdio)) for number in _ending_signals()}
    try:
        yield stdio
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        os.dup2(2, 1)


def _copy(source: int, stdio: Stdio) -> None:
    """Copy input until its end, or until the client stops listening: an answer could not reach it."""
    events = select.poll()
    events.register(source, select.POLLIN)
    events.register(stdio.wire, 0)  # errors only
    rest: list[bytes] = []  # of a line that goes on; joined but once, however long it is
    with contextlib.suppress(OSError):
        while not dict(events.poll()).get(stdio.wire, 0) & HUNG_UP and (piece := os.read(source, PIECE)):
            lines, end, after = piece.rpartition(b"\n")
            if end:
                _write(stdio.feed, mend_surrogates(b"".join((*rest, lines, end))))
                rest = []
            rest.append(after)
        _write(stdio.feed, b"".join(rest))
    stdio.end_input()


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def mend_surrogates(lines: bytes) -> bytes:
    """JSON lines in which half an emoji (`\\ud83d` alone, as a client cuts a text) is U+FFFD.

    The MCP library drops a request that holds one, and the client would wait for its answer for ever.
    """
    return _ESCAPES.sub(lambda match: b"\\ufffd" if match["lone"] else match[0], lines)


def _ending_signals() -> list[signal.Signals]:
    """Those there are here, without the ignored ones (`nohup`)."""
    numbers = [getattr(signal, name) for name in ENDING_SIGNALS if hasattr(signal, name)]
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


def _ender(stdio: Stdio) -> signal._HANDLER:
    def end(number: int, _frame: FrameType | None) -> None:
        stdio.ended_by = number
        signal.signal(number, signal.SIG_DFL)
        stdio.end_input()

    return end
