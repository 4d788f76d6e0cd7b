"""One private PostgreSQL with pgvector for all processes of a user, there while one of them uses it.

    <home>/pg18/data          the database, 0700
    <home>/pg18/password      of its superuser, 0600
    <home>/pg18/server.log    what the server and its keeper said
    <home>/pg18/start.lock    held while somebody comes or goes
    <home>/pg18/users.lock    held shared by every user
    <home>/pg18/keeper.lock   held by the keeper (see embedded_keeper)

It listens on the loopback address only, on a free port, behind the password.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from obsidian_rag import embedded_keeper, locks
from obsidian_rag.embedded_home import (
    NO_ACCESS,
    OWN_DATABASE,
    Site,
    as_account,
    binary,
    canonical,
    default_home,
    environment,
    is_installed,
    locate,
)
from obsidian_rag.errors import DatabaseUnavailable

__all__ = ["acquire", "binary", "default_home", "is_installed", "leave_on_sigterm", "release"]

START_SECONDS = 600  # recovery after a crash may take minutes
UNSEEN_SECONDS = 60
LEAVE_SECONDS = 5
STEP_SECONDS = 0.05
ATTEMPTS = 3  # the free port may be taken by another program between its choice and its use
LOG_LINES = 15
REASONS = 2
FULL_DISK = (b"No space left on device", b"Disk quota exceeded")
FULL = (errno.ENOSPC, errno.EDQUOT)
LEAST_FREE = 1_000_000  # bytes; a server cannot even write its pid file and log with much less


@dataclass(frozen=True, slots=True)
class _Hold:
    site: Site
    users: int


# What this process holds. It cannot be passed around: the holder is the process, and its end lets go.
_held: dict[Path, _Hold] = {}
_guard = threading.RLock()


def acquire(home: Path) -> str:
    """Start the server of `home` if nobody has, hold it until `release` or the end of this process.

    Returns the conninfo of its superuser, for psycopg. Called again, it returns the present address and
    starts a server that was killed. Removes PG* variables from this process's environment: libpq would mix
    them in.
    Raises DatabaseUnavailable where the server cannot be started, SettingsError where `home` cannot be used.
    """
    from psycopg.conninfo import make_conninfo

    if os.name == "nt":
        raise DatabaseUnavailable("The embedded PostgreSQL needs Linux or macOS", f"Use WSL, {OWN_DATABASE}.")
    for name in [name for name in os.environ if name.startswith("PG")]:
        del os.environ[name]
    home = canonical(home)
    with _guard:
        if home in _held and not locks.is_at(_held[home].users, _held[home].site.users_lock):
            os.close(_held.pop(home).users)  # the folder was removed, and with it all that was held
        site = _held[home].site if home in _held else locate(home)
        with _file_errors(site), locks.locked(site.start_lock, START_SECONDS) as is_mine:
            if not is_mine:
                raise DatabaseUnavailable(
                    f"Another process has been starting the embedded PostgreSQL for {START_SECONDS} s",
                    f"End the process that holds {site.start_lock}.",
                )
            is_new = _join(home, site)
            try:
                password = _make_database(site)
                port = _start(site)
            except BaseException:
                if is_new:
                    os.close(_held.pop(home).users)
                raise
    return make_conninfo(
        host="127.0.0.1",
        port=port,
        user="postgres",
        password=password,
        dbname="postgres",
        sslmode="disable",
        gssencmode="disable",
        connect_timeout=10,
    )


def release(home: Path) -> None:
    """Let go of the server; the last to do so stops it and waits for its end. Nothing if it is not held."""
    home = canonical(home)
    with _guard:
        hold = _held.pop(home, None)
        if hold is None:
            return
        os.close(hold.users)
        # Who holds start.lock for longer is coming, or is the keeper: the server is theirs to stop.
        with contextlib.suppress(OSError), locks.locked(hold.site.start_lock, LEAVE_SECONDS) as mine:
            users = locks.try_lock(hold.site.users_lock) if mine else None
            if users is None:
                return
            try:
                embedded_keeper.stop(hold.site)
                embedded_keeper.wait_for_keeper(hold.site, LEAVE_SECONDS)
            finally:
                os.close(users)


def leave_on_sigterm() -> None:
    """Make SIGTERM and SIGHUP end this program in order (SystemExit, 128 + number), for `main()` to call.

    By default they end it on the spot, and the keeper stops the server up to a second later. A second signal
    does that. An ignored signal (`nohup`) stays ignored.
    """
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise SystemExit(128 + number)


def _join(home: Path, site: Site) -> bool:
    """Become a user, unless we are; whether that is new. Before anything is started: the keeper then covers
    whatever becomes of us.
    """
    if home in _held:
        return False
    # Held exclusively only together with start.lock, which is ours: at most while the kernel frees both.
    users = locks.wait_lock(site.users_lock, LEAVE_SECONDS, shared=True)
    if users is None:
        raise DatabaseUnavailable(f"{site.users_lock} is locked", "End the process that holds it.")
    _held[home] = _Hold(site, users)
    atexit.register(release, home)
    return True


def _make_database(site: Site) -> str:
    """Make the data folder unless it is there; the superuser's password. The caller holds start.lock."""
    # An initdb goes on when the process that called it is killed, perhaps longer than the next one needs, so
    # each attempt has a folder of its own, and every start removes what is left of the others.
    for rest in site.folder.glob("new-*"):
        shutil.rmtree(rest, ignore_errors=True)
    if (site.data / "PG_VERSION").exists():
        try:
            return site.password.read_text("ascii")
        except FileNotFoundError:
            raise DatabaseUnavailable(
                f"The password of the embedded PostgreSQL is missing: {site.password}",
                f"Put the file back, or remove {site.folder} and run `obsidian-rag index` to build it anew.",
            ) from None
    # The folder gets its name when it is whole.
    scratch = Path(tempfile.mkdtemp(prefix="new-", dir=site.folder))
    data, password = scratch / "data", scratch / "password"
    try:
        data.mkdir(0o700)
        password.touch(0o600)
        password.write_text(secrets.token_urlsafe(24), "ascii")
        if site.account:
            scratch.chmod(0o711)
            os.chown(data, site.account.uid, site.account.gid)
            os.chown(password, site.account.uid, site.account.gid)
        _initdb(site, data, password)
        if site.account:
            owner = site.folder.stat()
            os.chown(password, owner.st_uid, owner.st_gid)
        password.replace(site.password)
        data.rename(site.data)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return site.password.read_text("ascii")


def _initdb(site: Site, data: Path, password: Path) -> None:
    """Run initdb. Text sorts by code point and is cased by Unicode, without the system's locales."""
    command: list[str | Path] = [site.programs / "initdb", "-D", data, "-U", "postgres", "--pwfile", password]
    command += ["--auth=scram-sha-256", "--encoding=UTF8", "--no-instructions"]
    command += ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    command += ["-c", "max_wal_size=2GB"]
    with tempfile.TemporaryFile(dir=site.folder) as output:  # a pipe would stay open as long as any child
        done = subprocess.run(
            command,
            cwd=data.parent,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **as_account(site.account),
        )
        output.seek(0)
        said = output.read()
    if done.returncode:
        raise DatabaseUnavailable(
            f"The embedded PostgreSQL cannot make a database in {site.folder}: {_find_reasons(said)}",
            _mend_full_disk(site, said) or f"Mend what it says, {OWN_DATABASE}.",
        )


def _start(site: Site) -> int:
    """The port of the server, once it answers; it and its keeper are started where they are missing."""
    said = site.log.stat().st_size if site.log.exists() else 0
    began = seen = time.monotonic()
    attempts = 0
    while True:
        server = embedded_keeper.postmaster(site.data)
        if not locks.is_held(site.keeper_lock):
            if server is None:  # else the keeper alone was killed, and the server gets a new one
                _give_up_after(attempts, site, said)
                attempts += 1
            embedded_keeper.summon(site)
        elif server:
            seen = time.monotonic()
            port = embedded_keeper.port(site.data)
            if port and _answers(port):
                return port
        _give_up_waiting(site, time.monotonic() - began, time.monotonic() - seen)
        time.sleep(STEP_SECONDS)


def _give_up_after(attempts: int, site: Site, said: int) -> None:
    if attempts < ATTEMPTS:
        return
    log = site.log.read_bytes()
    raise DatabaseUnavailable(
        f"The embedded PostgreSQL does not start: {_tail(log[said:] or log)}",
        _mend_full_disk(site, log[said:])
        or f"See {site.log}. The index can be built anew: remove {site.folder} and run `obsidian-rag index`.",
    )


def _give_up_waiting(site: Site, seconds: float, unseen_seconds: float) -> None:
    if unseen_seconds > UNSEEN_SECONDS:
        raise DatabaseUnavailable(
            f"The embedded PostgreSQL in {site.folder} is run by a process that cannot be seen from here",
            "A second container cannot share it: set DATABASE_URL to one PostgreSQL for both.",
        )
    if seconds > START_SECONDS:
        raise DatabaseUnavailable(
            f"The embedded PostgreSQL has not become ready in {START_SECONDS} s",
            f"It may still be recovering from a crash: see {site.log} and try again.",
        )


def _answers(port: int) -> bool:
    """Whether a server there takes connections; one that is starting or stopping says no."""
    from psycopg import pq

    ping = pq.PGconn.ping(f"host=127.0.0.1 port={port} sslmode=disable connect_timeout=3".encode())
    return ping == pq.Ping.OK


def _tail(output: bytes) -> str:
    return "\n".join(output.decode(errors="replace").strip().splitlines()[-LOG_LINES:]) or "it said nothing"


def _find_reasons(output: bytes) -> str:
    """The lines of a program's output that say why it failed, without what it was about and the time."""
    lines = output.decode(errors="replace").splitlines()
    found = (
        re.search(r"(?:FATAL|PANIC|ERROR|error|DETAIL|HINT|hint|detail):\s*(.+)", line) for line in lines
    )
    reasons = list(dict.fromkeys(match[1].strip() for match in found if match))
    return "; ".join(reasons[:REASONS]) or _tail(output)


def _mend_full_disk(site: Site, output: bytes) -> str:
    """How to go on where the disk is full, "" where it is not: then the data must on no account be removed.

    A log on a full disk may not say so: the disk is looked at too.
    """
    if not any(sign in output for sign in FULL_DISK) and shutil.disk_usage(site.folder).free > LEAST_FREE:
        return ""
    return f"Free space on the disk of {site.folder.parent} and run the command again; nothing is lost."


@contextlib.contextmanager
def _file_errors(site: Site) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise DatabaseUnavailable(
            f"The embedded PostgreSQL in {site.folder} cannot be used: {exc}",
            (_mend_full_disk(site, os.fsencode(str(exc))) if exc.errno in FULL else "") or NO_ACCESS,
        ) from exc
