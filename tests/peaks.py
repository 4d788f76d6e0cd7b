"""The most memory that a process has had."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import resource


def read_peak(pid: int) -> float:
    """That of a process, in MB; what it has now where the system does not say."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        lines = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(lines[0].split()[1]) / 1024
    import psutil

    return float(psutil.Process(pid).memory_info().rss) / 1e6


def own_peak() -> float:
    """That of this process, in MB.

    On Linux not by getrusage: what it tells of a started program is at least what the starting one had.
    """
    if sys.platform == "linux":
        return read_peak(os.getpid())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
