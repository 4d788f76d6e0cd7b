"""Settings: flags, then the environment, then `.env`, then the person's settings file. Read once, in main().

Nothing is read from inside a vault: a note folder that was downloaded must not choose the database.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from obsidian_rag.errors import SettingsError

DEFAULT_OLLAMA_URL = "http://localhost:11434"
EMBEDDERS = ("auto", "ollama", "local")
NAMES = (
    "VAULT_PATH",
    "DATABASE_URL",
    "OLLAMA_URL",
    "EMBED_MODEL",
    "EMBEDDER",
    "FTS_CONFIG",
    "OBSIDIAN_RAG_DATA",
)


@dataclass(frozen=True, slots=True)
class Vault:
    """A vault on disk. Its notes' paths start with `prefix`: "" for one vault, "name/" for several."""

    root: Path
    prefix: str = ""


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
    outside = parse_vaults(flags.get("VAULT_PATH") or environ.get("VAULT_PATH") or "")
    dotenv, notices = _read_dotenv(working_directory, outside)
    sources = (flags, environ, dotenv, _read_env_file(settings_file()))
    values = {name: next((v for s in sources if (v := s.get(name))), None) for name in NAMES}
    embedder = (values["EMBEDDER"] or "auto").lower()
    if embedder not in EMBEDDERS:
        raise SettingsError(
            f"EMBEDDER is {values['EMBEDDER']!r}", f"Set it to one of {', '.join(EMBEDDERS)}."
        )
    return Settings(
        vaults=parse_vaults(values["VAULT_PATH"] or ""),
        database_url=values["DATABASE_URL"],
        data_dir=_absolute(values["OBSIDIAN_RAG_DATA"]) if values["OBSIDIAN_RAG_DATA"] else None,
        ollama_url=values["OLLAMA_URL"] or DEFAULT_OLLAMA_URL,
        ollama_url_is_set=values["OLLAMA_URL"] is not None,
        embed_model=values["EMBED_MODEL"],
        embedder=embedder,
        fts_config=values["FTS_CONFIG"],
        from_environment=tuple(name for name in NAMES if environ.get(name)),
        notices=notices,
    )


def parse_vaults(value: str) -> tuple[Vault, ...]:
    """`VAULT_PATH` as vaults. A path that exists as a whole is one vault, whatever it contains.

    Raises SettingsError where two vaults have the same name, since paths would collide.
    """
    if not value:
        return ()
    whole = _absolute(value)
    if whole.is_dir() or os.pathsep not in value:
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
    return tuple(Vault(root, f"{root.name}/") for root in roots)


def mask_password(url: str) -> str:
    """A URL or conninfo with its password as `***`, fit for a message."""
    if "://" not in url:
        return " ".join("password=***" if p.startswith("password=") else p for p in url.split())
    try:
        parts = urlsplit(url)
        has_password = parts.password is not None
    except ValueError:
        return "***"
    query = "&".join("password=***" if p.startswith("password=") else p for p in parts.query.split("&"))
    netloc = parts.netloc
    if has_password:
        userinfo, _, host = netloc.rpartition("@")
        netloc = f"{userinfo.split(':', 1)[0]}:***@{host}"
    return urlunsplit(parts._replace(netloc=netloc, query=query))


def _absolute(value: str) -> Path:
    return Path(os.path.abspath(Path(value).expanduser()))  # noqa: PTH100 - resolve() would follow symlinks


def _read_dotenv(folder: Path, vaults: tuple[Vault, ...]) -> tuple[Mapping[str, str | None], tuple[str, ...]]:
    file = folder / ".env"
    if not file.is_file():
        return {}, ()
    roots = {vault.root for vault in vaults}
    vault = next((p for p in (folder, *folder.parents) if p in roots or (p / ".obsidian").is_dir()), None)
    if vault is not None:
        return {}, (f"{file} is not read: it lies inside the vault {vault}.",)
    return _read_env_file(file), ()


def _read_env_file(file: Path) -> Mapping[str, str | None]:
    from dotenv import dotenv_values

    if not file.is_file():
        return {}
    try:
        return dotenv_values(file, interpolate=False)
    except (OSError, UnicodeDecodeError) as exc:
        raise SettingsError(f"{file} cannot be read: {exc}", f"Mend or remove it: {file}") from exc
