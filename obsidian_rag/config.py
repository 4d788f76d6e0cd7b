"""Settings: flags, then the environment, then `.env`, then the person's settings file. Read once, in main().

Nothing is read from inside a vault: a note folder that was downloaded must not choose the database.
"""

from __future__ import annotations

import csv
import difflib
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from obsidian_rag.errors import SettingsError

DEFAULT_OLLAMA_URL = "http://localhost:11434"
EMBEDDERS = ("auto", "ollama", "local")
FUSIONS = ("calibrated", "rrf")
DEFAULT_ARCHIVE = 0.8  # the factor of notes in archive folders
HIGHEST_FACTOR = 10.0
NAMES = (
    "VAULT_PATH",
    "DATABASE_URL",
    "OLLAMA_URL",
    "EMBED_MODEL",
    "EMBEDDER",
    "FTS_CONFIG",
    "LINK_RELATIONS",
    "SEARCH_FUSION",
    "SEARCH_BOOSTS",
    "SEARCH_ARCHIVE",
    "SEARCH_EXCLUDES",
    "RERANK_MODEL",
    "EXPAND_MODEL",
    "OBSIDIAN_RAG_DATA",
)


Boost = tuple[str, float]
"""A folder and the factor of the notes in it."""


@dataclass(frozen=True, slots=True)
class Vault:
    """A vault on disk. Its notes' paths start with `prefix`: "" for one vault, "name/" for several."""

    root: Path
    prefix: str = ""

    @property
    def place(self) -> str:
        """The root as text that can be stored and shown, also where its name is not UTF-8."""
        return make_printable(self.root)

    def is_at(self, place: str) -> bool:
        """Whether `place` is this vault's folder, by whatever symbolic link or spelling it is named."""
        if place == self.place:
            return True
        with suppress(OSError, ValueError):
            return self.root.samefile(place)
        return False


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a program needs to know. `None` means: not set, the default of its owner applies.

    `from_environment` names the settings that the environment gives, so that a line for the shell can pass
    them on without showing their values.
    """

    vaults: tuple[Vault, ...] = ()
    database_url: str | None = field(default=None, repr=False)
    data_dir: Path | None = None
    ollama_url: str = field(default=DEFAULT_OLLAMA_URL, repr=False)
    ollama_url_is_set: bool = False
    embed_model: str | None = None
    embedder: str = "auto"
    fts_config: str | None = None
    link_relations: Path | None = None
    search_fusion: str = "calibrated"
    search_boosts: tuple[Boost, ...] = ()
    search_archive: float = DEFAULT_ARCHIVE
    search_excludes: tuple[str, ...] = ()
    rerank_model: str | None = None
    expand_model: str | None = None
    from_environment: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


def settings_file() -> Path:
    """The person's own settings file, lines of NAME=value."""
    import platformdirs

    return Path(platformdirs.user_config_dir("obsidian-rag", appauthor=False)) / "settings.env"


def load_settings(
    environ: Mapping[str, str], flags: Mapping[str, str | None], working_directory: Path
) -> Settings:
    """Merge the four sources; the first that has a value, even an inherited one, wins. Empty means unset.

    Raises SettingsError for a value that cannot be used.
    """
    person = _read_env_file(settings_file())
    outside = [
        v.root for source in (flags, environ, person) for v in parse_vaults(source.get("VAULT_PATH") or "")
    ]
    dotenv, notices = _read_dotenv(working_directory, outside)
    notices += _find_slips(settings_file(), person, every=True)
    notices += _find_slips(working_directory / ".env", dotenv, every=False)
    sources = (flags, environ, dotenv, person)
    values = {name: next((v for s in sources if (v := s.get(name))), None) for name in NAMES}
    embedder = _choose("EMBEDDER", values["EMBEDDER"], EMBEDDERS)
    search_fusion = _choose("SEARCH_FUSION", values["SEARCH_FUSION"], FUSIONS)
    return Settings(
        vaults=parse_vaults(values["VAULT_PATH"] or ""),
        database_url=values["DATABASE_URL"],
        data_dir=_absolute(values["OBSIDIAN_RAG_DATA"]) if values["OBSIDIAN_RAG_DATA"] else None,
        ollama_url=values["OLLAMA_URL"] or DEFAULT_OLLAMA_URL,
        ollama_url_is_set=values["OLLAMA_URL"] is not None,
        embed_model=values["EMBED_MODEL"],
        embedder=embedder,
        fts_config=values["FTS_CONFIG"],
        link_relations=_absolute(values["LINK_RELATIONS"]) if values["LINK_RELATIONS"] else None,
        search_fusion=search_fusion,
        search_boosts=parse_boosts("SEARCH_BOOSTS", _split_list("SEARCH_BOOSTS", values["SEARCH_BOOSTS"])),
        search_archive=_parse_factor("SEARCH_ARCHIVE", values["SEARCH_ARCHIVE"] or str(DEFAULT_ARCHIVE)),
        search_excludes=_parse_excludes(values["SEARCH_EXCLUDES"]),
        rerank_model=_read_model(values["RERANK_MODEL"]),
        expand_model=values["EXPAND_MODEL"],
        from_environment=tuple(name for name in NAMES if environ.get(name)),
        notices=notices,
    )


def _choose(name: str, value: str | None, choices: Sequence[str]) -> str:
    """A setting's value among the few it can have; the first where it is not set."""
    chosen = (value or choices[0]).lower()
    if chosen not in choices:
        raise SettingsError(f"{name} is {value!r}", f"Set it to one of {', '.join(choices)}.")
    return chosen


def _split_list(name: str, value: str | None) -> list[str]:
    """The parts of a setting between its commas; one in double quotes may hold a comma."""
    try:
        rows = list(csv.reader([value or ""], skipinitialspace=True, strict=True))
    except csv.Error as exc:
        raise SettingsError(
            f"{name} is {value!r}: {exc}", 'Quote the whole of a part that has a comma: "Smith, John=1.3".'
        ) from exc
    return [part.strip() for row in rows for part in row if part.strip()]


def join_list(parts: Sequence[str]) -> str:
    """A setting's value that reads as these parts."""
    quoted = (f'"{part.replace(chr(34), chr(34) * 2)}"' if set(part) & {",", '"'} else part for part in parts)
    return ", ".join(quoted)


def parse_boosts(name: str, entries: Sequence[str]) -> tuple[Boost, ...]:
    """Folders with their factors, from entries like `Projects=1.3`.

    Raises SettingsError, which calls them by `name`, for an entry that is none and for a folder named twice.
    """
    boosts: dict[str, Boost] = {}
    for entry in entries:
        folder, sign, factor = (part.strip() for part in entry.rpartition("="))
        folder = folder.strip("/")
        if not (sign and folder):
            raise SettingsError(
                f"{name} has {entry!r}, which is no folder with a factor", "Write it like Projects=1.3."
            )
        boost = (folder, _parse_factor(f"{name}, {folder}", factor))
        if boosts.setdefault(folder.casefold(), boost) is not boost:
            raise SettingsError(f"{name} names the folder {folder!r} twice", "Leave one of them out.")
    return tuple(boosts.values())


def _parse_factor(name: str, value: str) -> float:
    try:
        factor = float(value)
    except ValueError:
        factor = math.nan
    if not 0 < factor <= HIGHEST_FACTOR:
        raise SettingsError(
            f"The factor of {name} is {value!r}",
            f"Set it to a number above 0 and up to {HIGHEST_FACTOR:g}; 1 changes nothing.",
        )
    return factor


def _parse_excludes(value: str | None) -> tuple[str, ...]:
    excludes = tuple(dict.fromkeys(part.strip("/") for part in _split_list("SEARCH_EXCLUDES", value)))
    if "" in excludes:
        raise SettingsError(
            f"SEARCH_EXCLUDES is {value!r}, where one part is only a slash",
            "Name a folder, like Templates, or a pattern, like private/*.md.",
        )
    return excludes


def _read_model(value: str | None) -> str | None:
    """A model's name as it is, the path of its folder absolute. Only what is written as a path is one: a name
    must not find a folder by chance where the program runs, which may be inside somebody else's vault.
    """
    return str(_absolute(value)) if value and re.match(r"[/~]|\.{1,2}/", value) else value


def parse_vaults(value: str) -> tuple[Vault, ...]:
    """`VAULT_PATH` as vaults. A path that exists as a whole is one vault, whatever it contains.

    Raises SettingsError where two vaults have the same name, since paths would collide.
    """
    if not value:
        return ()
    whole = _absolute(value)
    if is_folder(whole) or os.pathsep not in value:
        return (Vault(whole),)
    roots = list(dict.fromkeys(_absolute(part) for part in value.split(os.pathsep) if part))
    if len(roots) == 1:
        return (Vault(roots[0]),)
    names = [root.name for root in roots]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SettingsError(
            f"VAULT_PATH names two vaults called {twice[0]!r}: {value}",
            "Rename one of the folders; notes of several vaults are told apart by the vault's name.",
        )
    return tuple(Vault(root, f"{make_printable(Path(root.name))}/") for root in roots)


_USERINFO = re.compile(r"(?<=://)(?P<user>[^:/?@]*):.*@", re.DOTALL)
# Where the host was forgotten, what should be a password stands in the place of a port.
_NO_PORT = re.compile(
    r"""(?<=://)(?P<user>[^:/?@\[\s]*):(?!\d*(?:[/?,\s]|['")\]]{0,2}(?:[\s,.;]|$)))[^@]*?(?=[/?\s]|$)"""
)
_PASSWORD = re.compile(
    r"(?P<name>\w*password\s*=\s*)(?:'(?:[^'\\]|\\.)*'?|[^\s&]*)", re.IGNORECASE | re.DOTALL
)


def mask_password(url: str) -> str:
    """A URL or conninfo with its password as `***`, fit for a message.

    Also where it cannot be parsed: a password with unescaped signs is the likeliest reason for that.
    """
    shown = _USERINFO.sub(r"\g<user>:***@", url)
    return _PASSWORD.sub(r"\g<name>***", _NO_PORT.sub(r"\g<user>:***", shown))


def make_printable(path: Path) -> str:
    """A path as text that is valid UTF-8; other bytes appear as `\\xff`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def is_folder(path: Path) -> bool:
    """Whether a folder is there, as far as one may see."""
    try:
        return path.is_dir()
    except OSError:
        return False


def is_inside(folder: Path, root: Path) -> bool:
    """Whether a folder is `root` or below it, whatever symbolic links either is reached by."""
    return Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(root))


def _absolute(value: str) -> Path:
    try:
        expanded = Path(value).expanduser()
    except RuntimeError as exc:
        raise SettingsError(f"The folder {value!r} cannot be found: {exc}", "Write its full path.") from exc
    return Path(os.path.abspath(expanded))  # noqa: PTH100 - resolve() would follow symlinks


def _read_dotenv(folder: Path, outside: Sequence[Path]) -> tuple[Mapping[str, str | None], tuple[str, ...]]:
    file = folder / ".env"
    if not os.path.lexists(file):
        return {}, ()
    marked = [above for above in (folder, *folder.parents) if is_folder(above / ".obsidian")]
    vault = next((root for root in (*marked, *outside) if is_inside(folder, root)), None)
    if vault is None:
        values = _read_env_file(file)
        named = [v.root for v in parse_vaults(values.get("VAULT_PATH") or "")]
        vault = next((root for root in named if is_inside(folder, root)), None)
        if vault is None:
            return values, ()
    return {}, (f"{file} is not read: it lies inside the vault {vault}.",)


def _find_slips(file: Path, values: Mapping[str, str | None], *, every: bool) -> tuple[str, ...]:
    """Names of an env file that look like settings and are none; `every` unknown one in a file of our own."""
    notices = []
    for name in values:
        if name in NAMES:
            continue
        near = difflib.get_close_matches(name.upper(), NAMES, 1, 0.85)
        if near:
            notices.append(f"{file}: {name} is not a setting. Did you mean {near[0]}?")
        elif every:
            notices.append(f"{file}: {name} is not a setting. There are {', '.join(NAMES)}.")
    return tuple(notices)


def _read_env_file(file: Path) -> Mapping[str, str | None]:
    from dotenv import dotenv_values

    try:
        if not file.is_file():
            return {}
        return dotenv_values(file, interpolate=False)
    except (OSError, UnicodeDecodeError) as exc:
        raise SettingsError(f"{file} cannot be read: {exc}", f"Mend or remove it: {file}") from exc
