"""A change of the person's settings file: what it is now, what it would be, and the writing of it at once."""

from __future__ import annotations

import difflib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dotenv import dotenv_values, set_key

from obsidian_rag.config import Vault, is_inside
from obsidian_rag.errors import SettingsError
from obsidian_rag.masking import mask_words

OWNER_ONLY = 0o600


@dataclass(frozen=True, slots=True)
class SettingsEdit:
    """A settings file with its text before and after; `mode` is that of the file as it will be."""

    file: Path
    before: str
    after: str
    mode: int

    @property
    def changes_nothing(self) -> bool:
        return self.before == self.after

    def show(self) -> list[str]:
        """The lines that go and come, `-` and `+` before them, without passwords."""
        lines = difflib.ndiff(self.before.splitlines(), self.after.splitlines())
        return [mask_words(line) for line in lines if line[0] in "+-"]


def plan_edit(file: Path, values: Mapping[str, str], vaults: tuple[Vault, ...]) -> SettingsEdit:
    """The change that gives the settings these values. All other lines, comments too, stay as they are; what
    a symbolic link points to is changed, not the link.

    Raises SettingsError for a file inside a vault, where it is never read, and for one that cannot be read or
    a value that cannot be written.
    """
    file = Path(os.path.realpath(file))
    inside = next((vault.place for vault in vaults if is_inside(file.parent, vault.root)), None)
    if inside is not None:
        raise SettingsError(
            f"The settings file {file} lies inside the vault {inside}",
            "Point XDG_CONFIG_HOME to a folder outside of the vault.",
        )
    before, mode = _read(file)
    after = _apply(before, values)
    private = any(mask_words(line) != line for line in after.splitlines())
    return SettingsEdit(file, before, after, mode & OWNER_ONLY if private else mode)


def write_edit(edit: SettingsEdit) -> None:
    """Put the new text in place, all of it or nothing. Raises SettingsError."""
    with _file_errors(edit.file):
        edit.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".settings-", dir=edit.file.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as made:
                made.write(edit.after)
                made.flush()
                os.fsync(made.fileno())
            Path(name).chmod(edit.mode)
            Path(name).replace(edit.file)
        finally:
            with suppress(FileNotFoundError):
                Path(name).unlink()


def _read(file: Path) -> tuple[str, int]:
    with _file_errors(file):
        if not file.exists():
            return "", OWNER_ONLY
        with file.open(encoding="utf-8", newline="") as opened:
            return opened.read(), stat.S_IMODE(file.stat().st_mode)


def _apply(before: str, values: Mapping[str, str]) -> str:
    """The text with the values set, worked out on a copy in a folder that only the owner enters."""
    folder = Path(tempfile.mkdtemp(prefix="obsidian-rag-"))
    try:
        copy = folder / "settings.env"
        copy.write_text(before, encoding="utf-8", newline="")
        for name, value in values.items():
            set_key(copy, name, value)
            if dotenv_values(copy, interpolate=False, encoding="utf-8").get(name) != value:
                raise SettingsError(
                    f"{name}={mask_words(value)} cannot be written to a settings file",
                    "Set it in the environment instead.",
                )
        with copy.open(encoding="utf-8", newline="") as opened:
            return opened.read()
    finally:
        shutil.rmtree(folder)


@contextmanager
def _file_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, UnicodeDecodeError) as exc:
        raise SettingsError(
            f"The settings file {file} cannot be used: {exc}", f"Mend or move it: {file}"
        ) from exc
