"""The index kept equal to the vaults while notes are edited: `index --watch`.

Each change leads to an ordinary run of the indexer, which holds its lock only while it works: runs by hand or
from cron go on beside it. What may pass, it sits out: a vault that is not mounted, a database that restarts.
"""

from __future__ import annotations

import stat
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from obsidian_rag.config import Settings, Vault
from obsidian_rag.errors import (
    DatabaseError,
    DatabaseUnsuitable,
    EmbedderUnavailable,
    IndexerBusy,
    ObsidianRagError,
    SchemaError,
    SettingsError,
    VaultError,
)
from obsidian_rag.vault_changes import VaultChanges

TICK_SECONDS = 1.0  # how often it is looked whether the vaults are still there, and the clock has not jumped
FULL_SECONDS = 3600.0  # a change that the system did not tell of is found at the latest after so long
BLIND_SECONDS = 30.0  # the same, where the system tells of no change at all
JUMP_SECONDS = 10.0  # clocks that part by more: the machine slept, and what it missed is unknown
FIRST_PAUSE = 0.5  # seconds until a failed run is tried again; doubled each time
MOST_PAUSE = 60.0
MOST_BUSY_PAUSE = 4.0  # another indexer is soon done, most often

BLIND = (
    f"The system does not tell of changes: {{}}. So the vault is compared every {BLIND_SECONDS:g} s. Let its"
    " folders be readable; on Linux raise fs.inotify.max_user_watches."
)

Say = Callable[[str], None]


def watch_vaults(settings: Settings, work: Callable[[], None], say: Say) -> NoReturn:
    """Do `work` at once, after each change in the settings' vaults, every hour, and after the machine slept.

    An error that may pass is said once, and the work is tried again until it is done. Raises the errors that
    need a person.
    """
    if not settings.vaults:
        raise SettingsError("No vault is named", "Run: obsidian-rag index --watch /path/to/vault")
    attempts = Attempts(work, say)
    while True:
        folders = _await_folders(settings.vaults, say)
        with VaultChanges(settings.vaults) as changes:
            _follow(changes, settings.vaults, folders, attempts)


def may_pass(exc: ObsidianRagError) -> bool:
    """Whether what failed may work later without anybody's doing."""
    return isinstance(exc, VaultError | DatabaseError | EmbedderUnavailable | IndexerBusy) and not isinstance(
        exc, DatabaseUnsuitable | SchemaError
    )


@dataclass
class Attempts:
    """Tries `work` until it is done. `pause` is how many seconds to wait until it is tried again, None where
    it was done.
    """

    work: Callable[[], None]
    say: Say
    pause: float | None = None
    _told: str = ""

    def make(self) -> None:
        """Try once. Raises errors that do not pass by themselves."""
        try:
            self.work()
        except ObsidianRagError as exc:
            if not may_pass(exc):
                raise
            most = MOST_BUSY_PAUSE if isinstance(exc, IndexerBusy) else MOST_PAUSE
            self.pause = min(self.pause * 2, most) if self.pause else FIRST_PAUSE
            self._tell(exc)
        else:
            if self._told:
                self.say("The index is up to date again.")
            self.pause, self._told = None, ""

    def _tell(self, exc: ObsidianRagError) -> None:
        if str(exc) != self._told:
            self._told = str(exc)
            self.say(f"{exc} This is tried again until it succeeds.")


@dataclass
class Rhythm:
    """When everything was last compared, by two clocks in seconds: `wall` goes on while the machine sleeps,
    `steady` does not.
    """

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    _compared: float = field(init=False)
    _offset: float = field(init=False)

    def __post_init__(self) -> None:
        self.start_anew()

    def start_anew(self) -> None:
        """Everything is compared from now on."""
        self._compared = self.steady()
        self._offset = self.wall() - self._compared

    def is_due(self, seconds: float) -> bool:
        """Whether `seconds` have gone by since then."""
        return self.steady() - self._compared >= seconds

    def has_jumped(self) -> bool:
        """Whether the clocks have parted since then."""
        return abs(self.wall() - self.steady() - self._offset) > JUMP_SECONDS


def _follow(
    changes: VaultChanges, vaults: Sequence[Vault], folders: Sequence[object], attempts: Attempts
) -> None:
    """Make attempts until it is better to watch anew: a vault's folder is gone or another, as when a share is
    mounted or unmounted, or the machine has slept.
    """
    rhythm = Rhythm()
    is_due = True
    is_blind = False
    while _identify(vaults) == folders and not rhythm.has_jumped():
        if changes.failure and not is_blind:
            is_blind = True
            attempts.say(BLIND.format(changes.failure))
        if is_due:
            changes.forget()
            rhythm.start_anew()
            attempts.make()
        pause = attempts.pause or (BLIND_SECONDS if is_blind else FULL_SECONDS)
        is_due = changes.wait(min(TICK_SECONDS, pause)) or rhythm.is_due(pause)


def _await_folders(vaults: Sequence[Vault], say: Say) -> list[object]:
    """What tells the vaults' folders from others, once they are all there."""
    missing: list[str] = []
    pause = threading.Event()
    while None in (folders := _identify(vaults)):
        gone = [vault.place for vault, folder in zip(vaults, folders, strict=True) if folder is None]
        if gone != missing:
            say(f"{', '.join(gone)} is not there: the index stays as it is until it comes back.")
            missing = gone
        pause.wait(TICK_SECONDS)
    if missing:
        say(f"{', '.join(missing)} is there again.")
    return folders


def _identify(vaults: Sequence[Vault]) -> list[object]:
    """For each vault what its folder is to the system, None where it is not there."""
    return [_identify_folder(vault) for vault in vaults]


def _identify_folder(vault: Vault) -> tuple[int, int] | None:
    try:
        found = vault.root.stat()
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None
