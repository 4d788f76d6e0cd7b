"""Locks on files that the kernel drops when their holder ends, however it ends.

`flock` locks belong to the open file: two threads exclude each other like two processes, a forked child keeps
its parent's lock alive, and a program started by `subprocess` does not (Python opens files close-on-exec).
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

POLL_SECONDS = 0.02


def try_lock(path: Path, *, shared: bool = False) -> int | None:
    """Take the lock if it is free: a descriptor whose closing frees it, or None. Makes the file (0600)."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            if is_at(descriptor, path):
                return descriptor
            os.close(descriptor)  # the file was removed meanwhile: others would lock another one
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise


def wait_lock(path: Path, timeout: float, *, shared: bool = False) -> int | None:
    """`try_lock` for up to `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while (descriptor := try_lock(path, shared=shared)) is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return descriptor


def is_held(path: Path) -> bool:
    """Whether anybody holds the lock, in whatever mode."""
    descriptor = try_lock(path)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


@contextlib.contextmanager
def locked(path: Path, timeout: float) -> Iterator[bool]:
    """Hold the lock for the block; False is given, and nothing held, if it was not to be had in time."""
    descriptor = wait_lock(path, timeout)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
