"""Changes in vaults as the operating system tells them."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from obsidian_rag.config import Vault

if TYPE_CHECKING:
    from watchfiles import Change

QUIET_MS = 300  # changes are told once there have been none for so long: an editor writes in several steps
MOST_MS = 1500  # or after so long, where they do not stop
POLL_MS = 1000  # where the library is told to look by itself, as on a network share
SETTINGS_FILE = "app.json"  # in .obsidian, by whatever name with a dot: which files the vault excludes


class VaultChanges:
    """Watches folders in a thread from entering to leaving. From entering on every change is seen, unless
    `failure` says why not. A folder that vanishes is not told of.
    """

    def __init__(self, vaults: Sequence[Vault]) -> None:
        # The system may tell real paths where a vault is named by a symbolic link.
        self._roots = [path for v in vaults for path in (v.root, Path(os.path.realpath(v.root)))]
        self._watched = [v.root for v in vaults]
        self._changed = threading.Event()
        self._watching = threading.Event()
        self._stop = threading.Event()
        self.failure: Exception | None = None
        # Not in the main thread: there the library would turn every signal into a KeyboardInterrupt.
        self._thread = threading.Thread(target=self._run, name="vault-changes", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._watching.wait()
        except BaseException:
            self._stop.set()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def wait(self, seconds: float) -> bool:
        """Whether something has changed since `forget`, at the latest after `seconds`."""
        return self._changed.wait(seconds)

    def forget(self) -> None:
        """Forget the changes so far: who comes after this call looks at what they led to."""
        self._changed.clear()

    def _run(self) -> None:
        from watchfiles import watch

        try:
            for found in watch(
                *self._watched,
                watch_filter=None,
                step=QUIET_MS,
                debounce=MOST_MS,
                rust_timeout=QUIET_MS,
                yield_on_timeout=True,
                stop_event=self._stop,
                poll_delay_ms=POLL_MS,
            ):
                self._watching.set()
                if any(concerns(change, path, self._roots) for change, path in found):
                    self._changed.set()
        except Exception as exc:  # the library's own, and whatever the system says
            self.failure = exc
        finally:
            self._watching.set()


def concerns(change: Change, path: str, roots: Sequence[Path]) -> bool:
    """Whether a change in one of the folders `roots` may change what the index holds.

    Any of a note; of all else only that it came or went, since it may be a folder of notes, or a file that
    links lead to. Nothing in folders with a dot, save which files the vault excludes.
    """
    from watchfiles import Change

    parts = _split(path, roots)
    if len(parts) == 2 and parts[0].startswith(".") and parts[1] == SETTINGS_FILE:
        return True
    if len(parts) == 1 and parts[0].startswith(".") and change is Change.added:
        return Path(path).is_dir()  # what was in it before it was watched is not told of
    if any(part.startswith(".") for part in parts):
        return False
    return path.lower().endswith(".md") or change is not Change.modified


def _split(path: str, roots: Sequence[Path]) -> tuple[str, ...]:
    """The path below its root, as parts; only the name where it has none."""
    file = Path(path)
    root = next((root for root in roots if file.is_relative_to(root)), file.parent)
    return file.relative_to(root).parts
