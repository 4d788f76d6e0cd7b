"""When the notes on disk were last edited: looked up beside the work of a search, never instead of it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

LOOK_AGAIN = 300.0  # seconds for which an answer holds
PATIENCE = 0.2  # seconds that a search waits for it; a walk of 20,000 notes takes about as long


class EditWatch:
    """Tells the time of the newest edit in some folders. Safe to use from several threads.

    A folder on a network share may hang for ever; the walk is done by a thread that nobody waits for, and
    until it comes back nothing is known.
    """

    def __init__(self, look_again: float = LOOK_AGAIN, patience: float = PATIENCE) -> None:
        self._look_again = look_again
        self._patience = patience
        self._lock = threading.Lock()
        self._walker: threading.Thread | None = None
        self._looked_at = float("-inf")
        self._newest: float | None = None

    def find_newest(self, roots: Sequence[Path]) -> float | None:
        """The time (Unix seconds) of the newest edit of a note; None where that is not known."""
        with self._lock:
            is_old = time.monotonic() - self._looked_at > self._look_again
            if is_old and (self._walker is None or not self._walker.is_alive()):
                self._walker = threading.Thread(
                    target=self._look, args=(tuple(roots),), name="edit-watch", daemon=True
                )
                self._walker.start()
            walker = self._walker
        if is_old and walker is not None:
            walker.join(self._patience)
        with self._lock:
            return self._newest

    def _look(self, roots: Sequence[Path]) -> None:
        try:
            newest = find_newest_edit(roots)
        except (OSError, ValueError):  # a path that is none
            newest = None
        with self._lock:
            self._newest, self._looked_at = newest, time.monotonic()


def find_newest_edit(roots: Sequence[Path], clock: Callable[[], float] = time.time) -> float | None:
    """The newest time at which a note below `roots` was written or put there; None where there is none.

    Times to come are left out: a file from a computer whose clock is wrong would be new for years.
    """
    now = clock()
    edits = (edited for root in roots for edited in _list_edits(root) if edited <= now)
    return max(edits, default=None)


def _list_edits(root: Path) -> Iterator[float]:
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if not name.startswith(".")]
        for name in names:
            if name.lower().endswith(".md") and not name.startswith("."):
                try:
                    status = os.stat(os.path.join(folder, name))  # noqa: PTH116,PTH118 - half the time
                except OSError:
                    continue
                # A note that was moved here or came by a sync keeps the time at which it was written.
                yield max(status.st_mtime, status.st_ctime)
