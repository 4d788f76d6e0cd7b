"""Killed at any moment, the next run finishes the work, and nobody can tell from the index."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from conftest import VaultFolder, Workbench

KILLS = 20
SEED = 20240229


def write_vault(vault: VaultFolder, chance: random.Random, count: int = 60) -> None:
    """Notes that link to one another, with aliases, of very different length."""
    for number in range(count):
        links = " ".join(
            f"[[Note {chance.randrange(count)}]] [[Alias {chance.randrange(count)}]]" for _ in "ab"
        )
        sections = "".join(
            f"\n## Part {part}\n\nNote {number} tells of {chance.randrange(10**6)}.\n"
            for part in range(chance.randrange(1, 7))
        )
        text = f"---\naliases: [Alias {number}]\n---\n# Note {number}\n\n{links}\n{sections}"
        vault.write(f"{'abc'[number % 3]}/Note {number}.md", text)


def start(bench: Workbench) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "obsidian_rag", "index", "--quiet"],
        env=bench.environment,
        cwd=bench.vault.root.parent,
        stderr=subprocess.PIPE,
    )


def edit(vault: VaultFolder, chance: random.Random, turn: int) -> None:
    """Every note is edited, so that there is work in every turn; some are renamed and a few deleted."""
    notes = sorted(vault.root.rglob("*.md"))
    for file in notes:
        file.write_text(file.read_text("utf-8") + f"\nTurn {turn} says {chance.randrange(10**6)}.\n", "utf-8")
    for file in chance.sample(notes, 2):
        file.rename(file.with_name(f"{file.stem}x.md"))
    if turn % 5 == 4:
        chance.choice(sorted(vault.root.rglob("*.md"))).unlink()


@pytest.mark.slow
def test_twenty_kills_at_random_moments_leave_no_trace(
    bench: Workbench, new_bench: Callable[[VaultFolder], Workbench]
) -> None:
    chance = random.Random(SEED)
    write_vault(bench.vault, chance)
    started = time.monotonic()
    with start(bench) as process:
        process.wait()
    usual = time.monotonic() - started  # only to choose moments by; nothing is asserted of it
    killed = turn = 0
    while killed < KILLS and turn < 3 * KILLS:
        edit(bench.vault, chance, turn)
        with start(bench) as process:
            try:
                process.communicate(timeout=chance.uniform(0.3, 1.0) * usual)
                usual *= 0.9  # it was done before its moment came: the machine has become faster
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                killed += 1
        if turn % 7 == 6:
            assert bench.index().status == "ok"  # a run between completes
        turn += 1
    assert killed == KILLS, "too few runs were still at work when they were to be killed"

    report = bench.index()

    assert report.status == "ok"
    undisturbed = new_bench(bench.vault)
    undisturbed.index()
    assert bench.tables() == undisturbed.tables()
    assert bench.index().notes_unchanged == report.notes_seen
    assert bench.rows("SELECT count(*) FROM index_runs WHERE status = 'running'") == [(0,)]
