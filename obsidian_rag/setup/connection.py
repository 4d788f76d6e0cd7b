"""Telling MCP clients of the server, and the machine when to index."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from obsidian_rag.client_config import CLAUDE_CODE, CLIENTS, Client, find_client, render_configuration
from obsidian_rag.doctor.clients import Place, find_registrations, list_places, run_claude
from obsidian_rag.doctor.examination import Surroundings
from obsidian_rag.errors import SettingsError
from obsidian_rag.setup.talk import Talk

EVERY = "*/30 * * * *"
USUAL_PATH = ("/usr/local/bin", "/usr/bin", "/bin")  # cron's own is shorter


def connect_clients(names: Sequence[str], program: Sequence[str], around: Surroundings, talk: Talk) -> None:
    """Show or do what connects each client; without names, those that are found on this machine.

    Only Claude Code's own command changes anything, where the person agrees or named the client.
    Raises SettingsError where that command fails for a client that was named.
    """
    chosen = [find_client(name) for name in names] or find_installed(around)
    for client in chosen:
        registered = find_registered(client, around)
        if registered is not None:
            talk.say(f"{client.title} already starts it: {registered.file}")
        elif client is CLAUDE_CODE:
            _connect_claude(program, around, talk, is_named=bool(names))
        else:
            talk.say(f"{client.title}: put this into {_usual_place(client, around).file}")
            talk.say(render_configuration(client, program, list_variables(around)))
    if not chosen:
        talk.say("No MCP client was found here. Later: obsidian-rag init --client NAME (see --help)")


def find_installed(around: Surroundings) -> list[Client]:
    """Clients of which something is on this machine: the command, or the folder of the configuration."""
    return [
        client
        for client in CLIENTS
        if (
            _find_claude(around) is not None
            if client is CLAUDE_CODE
            else _usual_place(client, around).file.parent.is_dir()
        )
    ]


def find_registered(client: Client, around: Surroundings) -> Place | None:
    """Where a client is already told to start this server."""
    for place in list_places(around):
        if place.client == client.title:
            with suppress(OSError, ValueError):
                if any(find_registrations(place, around.variables)):
                    return place
    return None


def list_variables(around: Surroundings) -> dict[str, str]:
    """What a server needs of the shell's environment to find the settings file; clients have little of it."""
    moved = around.variables.get("XDG_CONFIG_HOME")
    is_usual = not moved or Path(moved) == around.home / ".config"
    return {} if is_usual or around.platform == "darwin" or moved is None else {"XDG_CONFIG_HOME": moved}


def make_cron_line(program: Sequence[str], variables: Mapping[str, str]) -> str:
    """The line for `crontab -e` that indexes every half hour and says nothing but errors. The vault and all
    else come from the settings file.
    """
    path = ":".join(dict.fromkeys((str(Path(program[0]).parent), *USUAL_PATH)))
    given = [f"{name}={shlex.quote(value)}" for name, value in {"PATH": path, **variables}.items()]
    line = " ".join([*given, shlex.join(program), "index --quiet"])
    return f"{EVERY} {line.replace('%', chr(92) + '%')}"  # cron takes a bare % for a line end


def _usual_place(client: Client, around: Surroundings) -> Place:
    return next(place for place in list_places(around) if place.client == client.title)


def _find_claude(around: Surroundings) -> str | None:
    return shutil.which("claude", path=around.variables.get("PATH"))


def _connect_claude(program: Sequence[str], around: Surroundings, talk: Talk, *, is_named: bool) -> None:
    line = render_configuration(CLAUDE_CODE, program, list_variables(around))
    talk.say(f"Claude Code: {line}")
    claude = _find_claude(around)
    if claude is None:
        talk.say("The command claude is not on the PATH; run the line where it is.")
        return
    # Nobody agreed to have it run where nobody was asked, unless the client was named.
    if not (talk.confirm("Run this now?") if talk.asks else is_named):
        return
    try:
        done = run_claude(claude, shlex.split(line)[1:], around)
        failed = (
            f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()}" if done.returncode else ""
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        failed = f"{type(exc).__name__}: {exc}"
    if not failed:
        talk.say("Claude Code starts it from its next session on. Look: claude mcp list")
    elif is_named:
        raise SettingsError(f"Claude Code could not be connected ({failed})", f"Run it by hand: {line}")
    else:
        talk.say(f"That failed ({failed}). Run it by hand later.")
