"""The keeper: a small process beside each embedded server that starts it and stops it after its last user.

A user holds a shared lock on `users.lock`, which the kernel drops when the user ends, even by SIGKILL. The
last user to leave in order stops the server itself. One that is killed cannot, and the next user may never
come: so there must be a process that outlives all users. The keeper is the server's parent, in a session of
its own (no Ctrl-C reaches it) and without any open file of the user who called it. Once a second it looks
whether `users.lock` is free, and then stops the server and itself. A killed keeper is replaced by the next
user who comes.

Locks are always taken in the order start.lock, users.lock; keeper.lock is held as long as the keeper lives.
This module imports little: a keeper takes some 15 MB and starts in a tenth of a second.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from obsidian_rag import locks
from obsidian_rag.embedded_home import Account, Site, as_account, environment

if TYPE_CHECKING:
    import psutil

POLL_SECONDS = 1.0
STEP_SECONDS = 0.02
STOP_SECONDS = 120
LOG_BYTES = 1_000_000

# Without site-packages (-S) and environment (-I) the child starts fast and finds the same code as its caller.
_BOOT = (
    "import sys; sys.path += sys.argv[5:]; "
    "from obsidian_rag import embedded_keeper as k; k.main(*sys.argv[1:5])"
)


def summon(site: Site) -> bool:
    """Start a keeper for the site, and it the server. True once the server's process is there."""
    import psutil

    packages = [Path(module).resolve().parents[1] for module in (__file__, psutil.__file__)]
    uid, gid = (site.account.uid, site.account.gid) if site.account else (-1, -1)
    command: list[str | Path] = [sys.executable, "-I", "-S", "-c", _BOOT]
    command += [site.folder, site.programs, str(uid), str(gid), *packages]
    log = _open_log(site)
    try:
        done = subprocess.run(
            command,
            cwd=site.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)
    return done.returncode == 0


def main(folder: str, programs: str, uid: str, gid: str) -> None:
    """What `summon` runs: leave a keeper behind, end with 0 when it has a server, else with 1."""
    account = Account(int(uid), int(gid)) if int(uid) >= 0 else None
    site = Site(Path(folder), Path(programs), account)
    reader, writer = os.pipe()
    if os.fork():  # the caller waits for this process only, and the keeper is nobody's child to wait for
        os.close(writer)
        os._exit(0 if os.read(reader, 1) else 1)
    os.close(reader)
    keep(site, writer)


def keep(site: Site, ready: int) -> None:
    """Start or adopt the server, close `ready` (a byte before says that it runs), stay while it is used."""
    lock = locks.try_lock(site.keeper_lock)
    server = (postmaster(site.data) or _launch(site)) if lock is not None else postmaster(site.data)
    if server:
        with contextlib.suppress(BrokenPipeError):  # who wanted to know has been ended: the server is ours
            os.write(ready, b"1")
    os.close(ready)
    if lock is None or server is None:
        return
    while not _is_gone_within(server, POLL_SECONDS):
        try:
            if _stop_unused(site):
                return
        except OSError:  # the folder was removed: nobody can find this server any more
            _signal(server, signal.SIGQUIT)
            return


def stop(site: Site) -> None:
    """Stop the server, if it runs, and wait for it and its keeper to end. The caller holds start.lock."""
    deadline = time.monotonic() + STOP_SECONDS
    server = postmaster(site.data)
    if server:
        _signal(server, signal.SIGINT)  # "fast": sessions are ended, the data is left consistent
        while not _is_gone_within(server, STEP_SECONDS) and time.monotonic() < deadline:
            pass


def wait_for_keeper(site: Site, timeout: float) -> bool:
    """Whether the keeper has ended within `timeout` seconds."""
    with locks.locked(site.keeper_lock, timeout) as has_ended:
        return has_ended


def postmaster(data: Path) -> psutil.Process | None:
    """The living server of this data folder, ready or not.

    Told by its command line, the one thing that root in a container may read of another account's process.
    """
    import psutil

    pid = _pidfile_line(data, 0)
    try:
        process = psutil.Process(pid) if pid else None
        return process if process and str(data) in process.cmdline() and is_alive(process) else None
    except (psutil.Error, OSError):
        return None


def port(data: Path) -> int | None:
    """The port in the server's pid file."""
    return _pidfile_line(data, 3)


def _pidfile_line(data: Path, number: int) -> int | None:
    try:
        return int((data / "postmaster.pid").read_bytes().split(b"\n")[number])
    except (OSError, IndexError, ValueError):  # not there, or not yet whole
        return None


def _launch(site: Site) -> psutil.Process | None:
    """Start the server; its process once its pid file is there, None if it ended before."""
    import psutil

    name = f"obsidian-rag-{hashlib.sha256(os.fsencode(site.data)).hexdigest()[:12]}"
    _end_orphans(name)
    pid = _pidfile_line(site.data, 0)
    if pid and psutil.pid_exists(pid):
        # After a reboot or in a new container the number is another program's: PostgreSQL would not start.
        (site.data / "postmaster.pid").unlink()
    settings = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",  # a socket's path must be short, ours need not be
        "cluster_name": name,  # shown in the titles of the server's processes
        "shared_buffers": f"{_choose_buffers(psutil.virtual_memory().total)}MB",
    }
    if sys.platform == "linux":
        # Parallel index builds take maintenance_work_mem from here. /dev/shm ("posix") has 64 MB in a
        # container, files in the data folder ("mmap") are written to disk; System V segments do neither.
        settings["dynamic_shared_memory_type"] = "sysv"
    command: list[str | Path] = [site.programs / "postgres", "-D", site.data, "-p", str(_free_port())]
    for key, value in settings.items():
        command += ["-c", f"{key}={value}"]
    child = subprocess.Popen(
        command,
        cwd=site.data,
        env=environment(),
        stdin=subprocess.DEVNULL,
        **as_account(site.account),
    )
    while child.poll() is None:
        if _pidfile_line(site.data, 0) == child.pid:
            return psutil.Process(child.pid)
        time.sleep(STEP_SECONDS)
    return None


def _choose_buffers(memory: int) -> int:
    """MB that the server caches, of a machine with so many bytes of memory: an eighth, from PostgreSQL's own
    default to what the vectors and postings of 50,000 notes need. Only what is used is taken.
    """
    return max(128, min(1024, memory // 8 // 2**20))


def _open_log(site: Site) -> int:
    if site.log.exists() and site.log.stat().st_size > LOG_BYTES:
        site.log.replace(site.log.with_suffix(".log.1"))
    log = os.open(site.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    if site.account:  # where that is a user whose data root works with, the user comes back
        os.fchown(log, site.account.uid, site.account.gid)
    return log


def _end_orphans(name: str) -> None:
    """End processes that a killed server left behind: they hold its shared memory and block its successor."""
    import psutil

    orphans = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if "".join(process.cmdline()[:1]).startswith(f"postgres: {name}:"):
                orphans.append(process)
    for process in orphans:
        _signal(process, signal.SIGQUIT)
    _, stubborn = psutil.wait_procs(orphans, timeout=5)
    for process in stubborn:
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(stubborn, timeout=5)


def _stop_unused(site: Site) -> bool:
    """Stop the server if nobody uses it. Never waits for a lock: whoever holds one is coming or going."""
    start = locks.try_lock(site.start_lock)
    if start is None:
        return False
    try:
        users = locks.try_lock(site.users_lock)
        if users is None:
            return False
        try:
            stop(site)
        finally:
            os.close(users)
        return True
    finally:
        os.close(start)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


def _is_gone_within(process: psutil.Process, seconds: float) -> bool:
    import psutil

    try:
        process.wait(seconds)
    except psutil.TimeoutExpired:
        return not is_alive(process)
    return True


def is_alive(process: psutil.Process) -> bool:
    """Whether the process runs; one that ended and that its parent has not asked after does not."""
    import psutil

    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _signal(process: psutil.Process, number: int) -> None:
    import psutil

    with contextlib.suppress(psutil.Error):
        process.send_signal(number)
