"""Copies of the checkout, and programs run in them as a stranger would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from obsidian_rag import config

ROOT = Path(__file__).resolve().parents[1]
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "build", "dist", "node_modules"
)
PATIENCE = 600  # seconds, of which nearly all go into downloads


def copy_checkout(target: Path) -> Path:
    """The checkout as a fresh clone has it."""
    shutil.copytree(ROOT, target, ignore=NOT_COPIED)
    return target


def strange_environment(**given: str) -> dict[str, str]:
    """The environment without anything of this program, of Python or of this virtual environment."""
    ours = {*config.NAMES, "VIRTUAL_ENV", "VAULT", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
    kept = {k: v for k, v in os.environ.items() if k not in ours and not k.startswith(("PYTHON", "PYTEST"))}
    return kept | given


def run(
    command: Sequence[str | Path], cwd: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, successful or not."""
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


@cache
def registry_answers() -> bool:
    """Whether pip can install from its registry."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--no-deps",
        "--ignore-installed",
        "--quiet",
    ]
    asked = subprocess.run(
        [*command, "--retries", "0", "--timeout", "15", "hatchling"], capture_output=True, check=False
    )
    return asked.returncode == 0
