"""A user of the embedded server, led by its standard input.

    python user.py HOME [--system FOLDER] [--lost]

Prints the conninfo once it holds the server. Then `again` acquires and prints it again, `leave` releases and
prints "left", and the end of the input ends the program. `--system` stands in for /var/lib/obsidian-rag,
`--lost` removes the working directory first.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from obsidian_rag import embedded, embedded_home
from obsidian_rag.errors import ObsidianRagError


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("home", type=Path)
    parser.add_argument("--system", type=Path)
    parser.add_argument("--lost", action="store_true")
    options = parser.parse_args()
    if options.system:
        embedded_home.SYSTEM_HOME = options.system
    if options.lost:
        folder = tempfile.mkdtemp(dir=options.home.parent)
        os.chdir(folder)
        Path(folder).rmdir()
    embedded.leave_on_sigterm()
    try:
        print(embedded.acquire(options.home), flush=True)
    except ObsidianRagError as exc:
        sys.exit(f"{type(exc).__name__}: {exc}")
    for line in sys.stdin:
        if line.strip() == "again":
            print(embedded.acquire(options.home), flush=True)
        else:
            embedded.release(options.home)
            print("left", flush=True)


if __name__ == "__main__":
    main()
