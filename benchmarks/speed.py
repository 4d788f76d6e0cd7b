"""How long a person waits for obsidian-rag, and how that grows with the vault.

usage: python benchmarks/speed.py PART… [--notes N]… [--hub] [--cache FOLDER] [--json FILE] [--peer FOLDER]

Parts, done in this order for each vault:

  index    a first index with an embedder that answers at once: notes and chunks a second, memory, size
  again    a run without a change; after one changed note; after one renamed folder
  watch    seconds until an edit is found while `index --watch` runs
  space    bytes for each chunk, by table and index
  tools    tool calls over MCP, and how well the vector index finds what an exact search finds
  profile  where the time of a first index, of a run without a change and of hybrid searches goes
  bound    a first index with an embedder that takes its time, against that time alone
  peer     qmd, by words alone, and `rg -il`, on the same files; --peer is where npm installs it
  start    from starting `serve` to its answer to `initialize`, against a bare FastMCP server
  all      all of these

Vaults and databases stay in the cache folder (default: obsidian-rag-speed in the system's temporary
folder); `index` makes the database anew, the other parts use the one that is there. The server is
TEST_DATABASE_URL, or an embedded one of its own, set up as a person's is. Prints tables in which what misses
its bar is bold; exit code 0 either way. speed_picture.py draws the growth.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from made_vaults import Plan, plan_hub, plan_notes
from speed_calls import measure_start, measure_tools
from speed_lab import Lab, embedded, open_embedder, open_server
from speed_peer import measure_peer
from speed_picture import write_tables
from speed_runs import (
    measure_again,
    measure_bound,
    measure_first_index,
    measure_profile,
    measure_space,
    measure_watch,
)

PARTS = ("index", "again", "watch", "space", "tools", "profile", "bound", "peer", "start")


def measure(lab: Lab, parts: set[str], plans: list[Plan], peer: Path) -> None:
    """All parts for each vault, then what depends on none."""
    with open_embedder() as instant:
        for plan in plans:
            url = lab.database(plan)
            if "index" in parts or (
                parts & {"again", "watch", "space", "tools", "peer"} and not lab.has_index(url)
            ):
                measure_first_index(lab, plan, instant)
            if "again" in parts:
                measure_again(lab, plan, instant)
            if "watch" in parts:
                measure_watch(lab, plan, instant)
            if "space" in parts:
                measure_space(lab, plan)
            if "tools" in parts:
                measure_tools(lab, plan, instant)
            if "profile" in parts:
                measure_profile(lab, plan, instant)
            if "bound" in parts:
                measure_bound(lab, plan)
            if "peer" in parts:
                measure_peer(lab, plan, instant, peer)
        if "start" in parts:
            small = plans[0] if plans else plan_notes(250)
            if not lab.has_index(lab.database(small)):
                measure_first_index(lab, small, instant)
            measure_start(lab, small, instant)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure how long a person waits.")
    parser.add_argument("parts", nargs="+", choices=(*PARTS, "all"))
    parser.add_argument("--notes", type=int, action="append", default=[])
    parser.add_argument("--hub", action="store_true")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "obsidian-rag-speed")
    parser.add_argument("--peer", type=Path, help="where npm installs qmd; default: in the cache folder")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args(arguments)
    parts = set(PARTS) if "all" in options.parts else set(options.parts)
    plans = [plan_notes(count) for count in options.notes] + ([plan_hub()] if options.hub else [])
    cache = options.cache.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    embedded.leave_on_sigterm()  # so that the embedder and the server end too
    with open_server(cache) as server:
        lab = Lab(cache, server)
        try:
            measure(lab, parts, plans, options.peer or cache / "peer")
        finally:
            print(write_tables(lab.figures))
            if options.json:
                facts = {"machine": platform.platform(), "seconds": time.monotonic() - started}
                options.json.write_text(
                    json.dumps(facts | {"figures": [asdict(f) for f in lab.figures]}, indent=1) + "\n"
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
