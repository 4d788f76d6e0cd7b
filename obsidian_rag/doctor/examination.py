"""Runs checks one after another: each alone, bounded in time, and only where what it needs is there."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from obsidian_rag.catalog import load_status
from obsidian_rag.config import Settings
from obsidian_rag.doctor.report import Check, Finding, fail, make_check, skip
from obsidian_rag.embedding import Embedder
from obsidian_rag.errors import ObsidianRagError
from obsidian_rag.ledger import IndexSettings, Reembedding
from obsidian_rag.masking import hide_passwords
from obsidian_rag.postgres import Connection, mapped_errors
from obsidian_rag.vaults import VaultReader

PATIENCE = 30.0  # seconds for one check
REPORT = "This is a fault of obsidian-rag; please report it."


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where the doctor was called: for the configuration files of MCP clients."""

    home: Path
    folder: Path
    variables: Mapping[str, str] = field(repr=False)
    platform: str = sys.platform


@dataclass(slots=True)
class Patient:
    """What is looked at, and what earlier checks opened for later ones.

    `row` is what the index was made with, `begun` a change of the embedder that is not finished; None where
    that is not known or not recorded.
    """

    settings: Settings
    surroundings: Surroundings
    conninfo: str = field(default="", repr=False)
    conn: Connection | None = None
    row: IndexSettings | None = None
    begun: Reembedding | None = None
    status: dict[str, Any] | None = None
    reader: VaultReader | None = None
    embedder: Embedder | None = None

    @property
    def database(self) -> Connection:
        """The connection; checks that use it need "connection"."""
        assert self.conn is not None
        return self.conn

    @property
    def vectors(self) -> Embedder:
        """The embedder; checks that use it need "embedder"."""
        assert self.embedder is not None
        return self.embedder

    @property
    def standing(self) -> dict[str, Any]:
        """How the index stands, asked once; checks that use it need "connection" and "schema"."""
        if self.status is None:
            self.status = load_status(self.database)
        return self.status

    def close(self) -> None:
        """Give back the connection and the embedder."""
        if self.conn is not None:
            self.conn.close()
        if self.embedder is not None:
            self.embedder.close()


@dataclass(frozen=True, slots=True)
class Examination:
    """A check to be made. It runs where no check named in `needs` failed; `patience` is in seconds."""

    group: str
    name: str
    look: Callable[[Patient], Finding | Sequence[Finding]]
    needs: tuple[str, ...] = ()
    patience: float = PATIENCE


def examine(patient: Patient, examinations: Sequence[Examination]) -> Iterator[Check]:
    """Make the checks in their order and give each line as it is known. Raises nothing that a check raises.

    A check that does not end in time is left behind; what it used is then not used any more, and the patient
    is not closed, since something may still wait inside it.
    """
    causes: dict[str, Check] = {}  # by the name of a check that gave nothing to build on, the line at fault
    is_abandoned = False
    try:
        for examination in examinations:
            cause = next((causes[need] for need in examination.needs if need in causes), None)
            findings = _look_in_time(examination, patient) if cause is None else [_wait_for(cause)]
            is_late = findings is None
            is_abandoned |= is_late
            for finding in [_give_up(examination)] if findings is None else findings:
                check = make_check(examination.group, examination.name, finding)
                if check.status in ("error", "skipped"):
                    causes.setdefault(examination.name, cause or check)
                if is_late:  # what it was busy with is not to be touched
                    causes |= dict.fromkeys(examination.needs, check)
                yield check
    finally:
        if not is_abandoned:
            patient.close()


def _wait_for(cause: Check) -> Finding:
    return skip(f'the check "{cause.name}" did not pass', cause.mend, waits=True)


def _give_up(examination: Examination) -> Finding:
    return skip(f"it took longer than {examination.patience:.0f} s", "Run the doctor again.")


def _look_in_time(examination: Examination, patient: Patient) -> Sequence[Finding] | None:
    """What a check found, None where it did not end in time."""
    found: list[Sequence[Finding]] = []

    def work() -> None:
        found.append(_look(examination, patient))

    worker = threading.Thread(target=work, name=f"doctor: {examination.name}", daemon=True)
    worker.start()
    worker.join(examination.patience)
    return found[0] if found else None


def _look(examination: Examination, patient: Patient) -> Sequence[Finding]:
    try:
        with mapped_errors(patient.conninfo):
            seen = examination.look(patient)
    except ObsidianRagError as exc:
        if isinstance(exc.__cause__, psycopg.errors.QueryCanceled):
            return [skip("the database did not answer in time", "Run the doctor again when it is less busy.")]
        return [fail(exc.message, exc.mend)]
    except Exception as exc:
        words = hide_passwords(f"{type(exc).__name__}: {exc}", patient.settings, patient.conninfo)
        return [fail(f"The check itself failed: {words}", REPORT)]
    return [seen] if isinstance(seen, Finding) else seen
