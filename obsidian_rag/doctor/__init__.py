"""The doctor: looks at all that an index needs, says what is wrong and what mends it. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from obsidian_rag.config import Settings
from obsidian_rag.doctor import clients, database, embedder, index, surroundings
from obsidian_rag.doctor.examination import Patient, Surroundings, examine
from obsidian_rag.doctor.report import Check, Report, open_console, print_checks

__all__ = ["Check", "Report", "look_around", "open_console", "print_checks", "run_doctor"]

EXAMINATIONS = (
    *surroundings.CHECKS,
    *database.CHECKS,
    *embedder.CHECKS,
    *index.CHECKS,
    *clients.CHECKS,
)


def look_around(variables: Mapping[str, str]) -> Surroundings:
    """Where the doctor is called: the home and the working folder, and these environment variables."""
    try:
        home = Path.home()
    except RuntimeError:  # a container's user without a name
        home = Path("/")
    return Surroundings(home, Path.cwd(), variables)


def run_doctor(settings: Settings, around: Surroundings) -> Iterator[Check]:
    """Make every check and give each line as it is known. Writes nothing to the index, the vault or the
    settings; an embedded server that exists is started.
    """
    return examine(Patient(settings, around), EXAMINATIONS)
