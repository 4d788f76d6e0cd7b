"""A few hundred inputs of benchmarks/fuzz.py, the same ones each time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import Workbench

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))

import fuzz  # noqa: E402


def test_what_nobody_would_write_is_answered_or_refused_in_words(bench: Workbench, tmp_path: Path) -> None:
    outcome = fuzz.feed(300, 11, bench.settings, tmp_path)
    assert outcome.findings.crashes == []
    assert outcome.unclean == 0
    assert outcome.server_memory < fuzz.MOST_MEMORY
    counts = outcome.findings.counts
    assert min(counts[kind] for kind in ("notes", "properties", "queries", "tool calls")) > 25


def test_a_crash_would_be_found(bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(path: str, text: str) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(fuzz, "parse_note", explode)
    monkeypatch.setattr("obsidian_rag.intake.parse_note", explode)
    outcome = fuzz.feed(12, 11, bench.settings, tmp_path)
    crashes = outcome.findings.crashes
    assert any(crash.startswith("notes: ") and "out of order" in crash for crash in crashes)
    assert any(crash.startswith("index: ") and "out of order" in crash for crash in crashes)
    assert not outcome.is_good
    assert "CRASH" in fuzz.render(outcome, 12, 11)
