"""Run a command of obsidian-rag and look every few milliseconds where each of its threads is.

usage: python benchmarks/sampled.py OUT.json index --quiet [more of the command]

Writes {"samples": all, "places": {place: samples}}. A place is the innermost function of obsidian_rag that
the thread is in, and the library in which it works or waits below it: `store.write_chunks → psycopg`. What is
being imported counts as `import`. Threads that are not in obsidian_rag at all are not counted. Unlike a
profiler it costs hardly anything, and it sees waiting too.
"""

from __future__ import annotations

import atexit
import json
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

EVERY = 0.004  # seconds
PACKAGE = f"{ROOT / 'obsidian_rag'}/"


class Sampler(threading.Thread):
    """Counts places until the program ends."""

    def __init__(self, file: Path) -> None:
        super().__init__(daemon=True)
        self._file = file
        self._places: Counter[str] = Counter()
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(EVERY):
            for number, frame in sys._current_frames().items():
                place = None if number == self.ident else find_place(frame)
                if place is not None:
                    self._places[place] += 1

    def write(self) -> None:
        self._ended.set()
        self.join()
        counts = {"samples": self._places.total(), "places": dict(self._places.most_common())}
        self._file.write_text(json.dumps(counts, indent=1))


def find_place(frame: FrameType | None) -> str | None:
    """Where a thread is; None outside the package."""
    library = ""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib"):
            return "import"
        if name.startswith(PACKAGE):
            module = name.removeprefix(PACKAGE).removesuffix(".py").replace("/", ".")
            function = f"{module}.{frame.f_code.co_qualname}"
            return f"{function} → {library}" if library else function
        library = library or name_library(name)
        frame = frame.f_back
    return None


def name_library(file: str) -> str:
    """The package or module of the standard library that a file belongs to."""
    parts = Path(file).parts
    if "site-packages" in parts:
        return parts[parts.index("site-packages") + 1].removesuffix(".py")
    folders = [place for place, part in enumerate(parts) if part.startswith("python3")]
    return (
        parts[folders[-1] + 1].removesuffix(".py") if folders and folders[-1] + 1 < len(parts) else "python"
    )


def main() -> None:
    sampler = Sampler(Path(sys.argv[1]))
    atexit.register(sampler.write)
    sampler.start()
    from obsidian_rag.cli import cli

    cli(sys.argv[2:], prog_name="obsidian-rag")


if __name__ == "__main__":
    main()
