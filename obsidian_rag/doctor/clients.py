"""Checks of the MCP clients on this machine: whether one starts our server, and with which vault.

Their configuration is read and never written.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from obsidian_rag import config
from obsidian_rag.config import Settings, load_settings, mask_password
from obsidian_rag.demo import connect_line
from obsidian_rag.doctor.examination import Examination, Patient, Surroundings
from obsidian_rag.doctor.report import Finding, fail, ok, skip, warn
from obsidian_rag.drift import find_vaults
from obsidian_rag.errors import SettingsError
from obsidian_rag.program import find_program

CLAUDE_CODE = "Claude Code"
CLAUDE_PATIENCE = 45.0  # seconds; it starts the server to see whether it answers


@dataclass(frozen=True, slots=True)
class Place:
    """A configuration file of a client, the keys under which it holds servers, and its word for the scope."""

    client: str
    file: Path
    keys: tuple[str, ...] = ("mcpServers",)
    scope: str = ""


def list_places(around: Surroundings) -> list[Place]:
    """Where clients keep their servers. Claude Code takes what was set for a folder in those below it too."""
    home, folder = around.home, around.folder
    own = home / "Library/Application Support" if around.platform == "darwin" else home / ".config"
    claude = Path(around.variables.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"
    codex = Path(around.variables.get("CODEX_HOME") or home / ".codex") / "config.toml"
    above = (folder, *folder.parents)
    return [
        *(Place(CLAUDE_CODE, claude, ("projects", str(at), "mcpServers"), "local") for at in above),
        *(Place(CLAUDE_CODE, at / ".mcp.json", scope="project") for at in above),
        Place(CLAUDE_CODE, claude, scope="user"),
        Place("Claude Desktop", own / "Claude/claude_desktop_config.json"),
        Place("Codex", codex, ("mcp_servers",)),
        Place("Cursor", home / ".cursor/mcp.json"),
        Place("Cursor", folder / ".cursor/mcp.json"),
        Place("Gemini CLI", home / ".gemini/settings.json"),
        Place("Gemini CLI", folder / ".gemini/settings.json"),
        Place("VS Code", own / "Code/User/mcp.json", ("servers",)),
        Place("VS Code", folder / ".vscode/mcp.json", ("servers",)),
        Place("Windsurf", home / ".codeium/windsurf/mcp_config.json"),
    ]


@dataclass(frozen=True, slots=True)
class Registration:
    """Our server as a client's configuration names it, its variables filled in."""

    place: Place
    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]

    @property
    def mend(self) -> str:
        """How to take it away, so that it can be registered anew."""
        if self.place.client == CLAUDE_CODE:
            return f"claude mcp remove {shlex.quote(self.name)} -s {self.place.scope}"
        return f"Correct it in {self.place.file}"


def check_registration(patient: Patient) -> list[Finding]:
    """Each client that is to start our server, and whether it starts the right one."""
    around, seen = patient.surroundings, set[Path]()
    found, judged = list[Finding](), list[Finding]()
    for place in list_places(around):
        try:
            registrations = list(find_registrations(place, around.variables))
        except (OSError, ValueError) as exc:
            if place.file not in seen:  # one file may be several places
                text = f"{place.file} of {place.client} cannot be read ({exc})"
                found.append(skip(text, f"Mend it: {place.file}", place.client))
            seen.add(place.file)
            continue
        judged += [judge(registration, patient) for registration in registrations]
    right = {finding.name for finding in judged if finding.status == "ok"}
    # Beside the right one, a server of another vault or database is a wish.
    found += [
        replace(finding, status="ok", mend="")
        if finding.status == "warning" and finding.name in right
        else finding
        for finding in judged
    ]
    if judged:
        return found
    line = connect_line(_settings_to_pass(patient), find_program())
    return [*found, warn("No client of this machine is told to start the server", f"For Claude Code: {line}")]


def find_registrations(place: Place, variables: Mapping[str, str]) -> Iterator[Registration]:
    """Our server in one place, under whatever names. Raises OSError and ValueError for an unreadable file."""
    if not place.file.is_file():
        return
    text = place.file.read_text(encoding="utf-8")
    found: Any = tomllib.loads(text) if place.file.suffix == ".toml" else json.loads(text or "{}")
    for key in place.keys:
        found = found.get(key) if isinstance(found, dict) else None
    for name, entry in found.items() if isinstance(found, dict) else ():
        if not isinstance(entry, dict):
            continue
        given = entry.get("args")
        words = [entry.get("command"), *(given if isinstance(given, list) else [])]
        command = tuple(expand(word, variables) for word in words if isinstance(word, str))
        if is_ours(command):
            env = entry.get("env")
            values = {
                str(k): expand(str(v), variables) for k, v in (env if isinstance(env, dict) else {}).items()
            }
            yield Registration(place, str(name), command, values)


_VARIABLE = re.compile(r"\$\{(?:env:)?(?P<name>\w+)(?::-(?P<default>[^}]*))?\}")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """A value with `${NAME}`, `${NAME:-default}` and `${env:NAME}` filled in as clients do."""
    return _VARIABLE.sub(lambda m: variables.get(m["name"]) or m["default"] or "", text)


def is_ours(command: Sequence[str]) -> bool:
    """Whether a command starts this server: `obsidian-rag serve` by whatever runner, `-m obsidian_rag serve`,
    or a checkout's server.py.
    """
    words: list[str] = []
    for word in command:
        try:
            words += shlex.split(word)  # the line of a shell, given as one word
        except ValueError:
            words.append(word)
    words += command
    names = {Path(word).name.removesuffix(".exe") for word in words}
    if "serve" in words and names & {"obsidian-rag", "obsidian_rag"}:
        return True
    if "obsidian_rag.mcp_server" in words:
        return True
    return any(
        Path(word).name == "server.py" and (Path(word).parent / "obsidian_rag").is_dir() for word in words
    )


def judge(registration: Registration, patient: Patient) -> Finding:
    """Whether a registered server can be started and serves the vault and the database of the settings."""
    place = registration.place
    scope = f", {place.scope} scope" if place.scope else ""
    what = f"{registration.name} in {place.file}{scope}"
    renew = f"{registration.mend}; then {connect_line(_settings_to_pass(patient), find_program())}"
    if place.client != CLAUDE_CODE:
        renew = registration.mend
    program = registration.command[0] if registration.command else ""
    if not program or shutil.which(program, path=patient.surroundings.variables.get("PATH")) is None:
        return fail(f"{what}: there is no program {program!r}", renew, place.client)
    try:
        served = read_served(registration)
    except SettingsError as exc:
        return fail(f"{what}: {exc.message}", f"{exc.mend} {renew}", place.client)
    wrong = compare_settings(served, patient.settings)
    vault = os.pathsep.join(v.place for v in served.vaults) or "none, so the index that was written last"
    if wrong:
        return warn(f"{what}: VAULT_PATH is {vault}; {wrong}", renew, place.client)
    return ok(f"{what}: VAULT_PATH is {vault}", place.client)


def read_served(registration: Registration) -> Settings:
    """The settings that a registered server would have: of its own environment, its flags, the person's file.
    Raises SettingsError.
    """
    flags: dict[str, str | None] = {}
    words = list(registration.command)
    for flag, name in (("--vault", "VAULT_PATH"), ("--database-url", "DATABASE_URL")):
        for place, word in enumerate(words):
            if word == flag and place + 1 < len(words):
                flags[name] = words[place + 1]
            elif word.startswith(f"{flag}="):
                flags[name] = word.partition("=")[2]
    # It is started in a folder that nobody knows, so that no .env there can be counted on.
    served = load_settings(registration.environment, flags, Path(os.devnull))
    for vault in served.vaults:
        if not config.is_folder(vault.root):
            raise SettingsError(f"its vault {vault.place} is not there", "")
    return served


def compare_settings(served: Settings, own: Settings) -> str:
    """What a registered server does otherwise than the commands do here, as words; empty where nothing."""
    places = [vault.place for vault in own.vaults]
    if places and served.vaults and not _same_vaults(served, own):
        return f"the settings here name {', '.join(places)}"
    if places and not served.vaults and not served.database_url:
        return f"the settings here name {', '.join(places)}, which it is not told"
    if served.database_url != own.database_url:
        theirs, ours = (
            mask_password(url) if url else "the embedded server"
            for url in (served.database_url, own.database_url)
        )
        return f"its database is {theirs}, that of the settings here {ours}"
    if own.data_dir and not own.database_url and served.data_dir != own.data_dir:
        return f"its data lie in {served.data_dir or 'the usual folder'}, here in {own.data_dir}"
    return ""


def _same_vaults(one: Settings, other: Settings) -> bool:
    return len(one.vaults) == len(other.vaults) and all(
        any(vault.is_at(known.place) for known in other.vaults) for vault in one.vaults
    )


def _settings_to_pass(patient: Patient) -> Settings:
    """What a line that registers the server must hold; the index knows the vault if the settings do not."""
    with suppress(SettingsError):
        return replace(patient.settings, vaults=find_vaults(patient.settings, patient.row))
    return replace(patient.settings, vaults=config.parse_vaults("/path/to/vault"))


_STATUS = re.compile(r"^\s*Status:\s*(.+?)\s*$", re.MULTILINE)


def check_claude(patient: Patient) -> list[Finding]:
    """What Claude Code itself says of the server; it starts it for that, as at the beginning of a session."""
    around = patient.surroundings
    claude = shutil.which("claude", path=around.variables.get("PATH"))
    names = {
        registration.name: registration
        for place in list_places(around)
        if place.client == CLAUDE_CODE
        for registration in _find_readable(place, around.variables)
    }
    if claude is None or not names:
        return []
    return [_ask_claude(claude, registration, around) for registration in names.values()]


def _find_readable(place: Place, variables: Mapping[str, str]) -> list[Registration]:
    with suppress(OSError, ValueError):
        return list(find_registrations(place, variables))
    return []


def run_claude(
    claude: str, arguments: Sequence[str], around: Surroundings
) -> subprocess.CompletedProcess[str]:
    """Run Claude Code's program to its end. Raises OSError, subprocess.TimeoutExpired."""
    return subprocess.run(
        [claude, *arguments],
        cwd=around.folder,
        env=dict(around.variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=CLAUDE_PATIENCE,
        check=False,
    )


def _ask_claude(claude: str, registration: Registration, around: Surroundings) -> Finding:
    name = registration.name
    asked = f"claude mcp get {shlex.quote(name)}"
    try:
        answer = run_claude(claude, ["mcp", "get", name], around)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return skip(f"{asked} gave no answer ({type(exc).__name__})", f"Run it by hand: {asked}")
    found = _STATUS.search(answer.stdout)
    if found is None:  # what else it prints may hold a password
        return skip(f"{asked} tells no status (exit code {answer.returncode})", f"Run it by hand: {asked}")
    status = found[1]
    if "Connected" in status:
        return ok(f"{name}: {status}")
    if "Pending" in status:
        return warn(f"{name}: {status}", "Start claude in this folder and approve the server.")
    by_hand = " ".join(map(shlex.quote, registration.command))
    return fail(
        f"{name}: {status}", f"See what the server says when started by hand: {by_hand} (docs/clients.md)"
    )


CHECKS: Sequence[Examination] = (
    Examination("mcp", "registration", check_registration),
    Examination("mcp", "Claude Code", check_claude, patience=3 * CLAUDE_PATIENCE),
)
