"""Commands with which one begins: init, index, serve, demo, completion."""

from __future__ import annotations

import os
import sys
from typing import Any

import click
from click.core import ParameterSource

from obsidian_rag.cli.completions import PROGRAM, SHELLS, VARIABLE
from obsidian_rag.client_config import CLIENT_NAMES
from obsidian_rag.command_frame import (
    FAILURE,
    failing_as,
    forgive_encoding,
    json_option,
    leave_on_sigterm,
    print_json,
    with_settings,
)
from obsidian_rag.command_help import TaughtCommand
from obsidian_rag.config import Settings
from obsidian_rag.models import RunReport
from obsidian_rag.program import show_message


@click.command(cls=TaughtCommand)
@click.argument("vault_argument", metavar="[VAULT]", required=False)
@click.option("--full", is_flag=True, help="Read and parse every note again; vectors of the same text stay.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; write nothing.")
@click.option("--quiet", is_flag=True, help="Say nothing but errors.")
@click.option("--watch", is_flag=True, help="Stay, and index each change; --json prints a line for each run.")
@click.option(
    "--reembed",
    is_flag=True,
    help="Embed every note again, with the embedder now set, or go on with that; search uses the old vectors"
    " until all are made.",
)
@click.option("--drop-reembedding", is_flag=True, help="Give up a --reembed that is not finished.")
@click.option(
    "--allow-mass-delete",
    is_flag=True,
    help="Accept that most of the indexed notes are gone, or that another vault replaces them.",
)
@json_option
@failing_as(RunReport(None, "failed").to_json())
@with_settings
def index(
    settings: Settings,
    full: bool,
    dry_run: bool,
    quiet: bool,
    watch: bool,
    reembed: bool,
    drop_reembedding: bool,
    allow_mass_delete: bool,
    json_: bool,
) -> None:
    """Make the index equal to the VAULT.

    Only files that changed are read, and only text that changed is embedded. Safe to kill, fit for cron.

    \b
    Examples:
      obsidian-rag index ~/Notes            the first time, and again after edits
      obsidian-rag index --dry-run          what would be done
      obsidian-rag index --watch            stay, and index each change
      obsidian-rag index --quiet            for cron: only errors are said

    Exit code 0: every note is in. 1: some failed, each is named. 2: it could not run; nothing is lost.

    Next: obsidian-rag search "a question"; obsidian-rag status
    """
    from obsidian_rag.indexing import Options, run_indexer
    from obsidian_rag.progress import open_progress
    from obsidian_rag.render import render_report

    def keep(report: RunReport) -> None:
        click.get_current_context().meta[FAILURE] = report.to_json()

    leave_on_sigterm()
    options = Options(full, dry_run, allow_mass_delete, reembed, drop_reembedding)
    if watch:
        from obsidian_rag.index_watch import index_and_watch

        index_and_watch(settings, options, quiet=quiet, as_json=json_)
    with open_progress(quiet) as progress:
        report = run_indexer(settings, options, progress, keep)
    if json_:
        print_json(report.to_json())
    if not quiet or report.failures:
        click.echo(show_message(render_report(report, dry_run)), err=True)
    sys.exit(1 if report.failures else 0)


@click.command(cls=TaughtCommand)
@with_settings
def serve(settings: Settings) -> None:
    """Serve the index to an agent over MCP (stdio).

    An agent's client starts this by itself; started by hand it says nothing and waits for Ctrl-C. It only
    reads: bring in edits with obsidian-rag index.

    \b
    Examples:
      obsidian-rag serve
      obsidian-rag init --client cursor     the configuration of a client

    Next: obsidian-rag doctor, which looks whether your clients start it rightly
    """
    from obsidian_rag.mcp_server import serve as serve_stdio

    leave_on_sigterm()
    serve_stdio(settings)


@click.command(cls=TaughtCommand)
@click.argument("vault_argument", metavar="[VAULT]", required=False)
@with_settings
def demo(settings: Settings, **_: Any) -> None:
    """Index the example vault, or VAULT, and show what can be asked.

    \b
    Examples:
      obsidian-rag demo
      obsidian-rag demo ~/Notes

    Exit code 0: every note is in. 1: some failed. 2: it could not run.

    Next: obsidian-rag init, with your own vault
    """
    from obsidian_rag.demo import run_demo

    leave_on_sigterm()
    forgive_encoding()
    sys.exit(run_demo(settings))


@click.command(cls=TaughtCommand)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what lets a shell complete commands and note paths.

    \b
    Examples:
      obsidian-rag completion bash > ~/.local/share/bash-completion/completions/obsidian-rag
      obsidian-rag completion zsh > ~/.zfunc/_obsidian-rag
      obsidian-rag completion fish > ~/.config/fish/completions/obsidian-rag.fish

    Bash 4.4 or later. For zsh, ~/.zfunc must be in fpath before compinit: fpath+=~/.zfunc
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # one of the choices
    click.echo(kind(context.find_root().command, {}, PROGRAM, VARIABLE).source())


@click.command(cls=TaughtCommand)
@click.option("--yes", is_flag=True, help="Ask nothing: take what is given and found, and index.")
@click.option("--index/--no-index", "index_", default=None, help="Index the vault at the end, or do not.")
@click.option(
    "--client",
    "clients",
    multiple=True,
    type=click.Choice(CLIENT_NAMES),
    help="Connect this client; may be repeated. Else those found on this machine.",
)
@click.option("--no-client", is_flag=True, help="Say nothing of clients.")
@with_settings
def init(
    settings: Settings, yes: bool, index_: bool | None, clients: tuple[str, ...], no_client: bool
) -> None:
    """Set it up: vault, database, embedder, index, client.

    Asks for what it is not told, shows what it would write before it writes, and may be run again. Settings
    go to your own settings file, never into the vault.

    \b
    Examples:
      obsidian-rag init
      obsidian-rag init --vault ~/Notes --yes
      obsidian-rag init --client cursor --no-index
      obsidian-rag init --vault ~/Notes --database-url postgresql://me@localhost/notes

    Exit code 0: it is set up. 1: it is, but some notes failed, each is named. 2: it could not be done.
    130: you stopped it.

    Next: obsidian-rag search "a question"; obsidian-rag web
    """
    from obsidian_rag.doctor import look_around
    from obsidian_rag.setup import Wishes, run_setup

    leave_on_sigterm()
    forgive_encoding()
    source = click.get_current_context().get_parameter_source("vault_path")
    is_told = source is ParameterSource.COMMANDLINE or "VAULT_PATH" in settings.from_environment
    wishes = Wishes(yes, index_, clients, no_client, is_told)
    sys.exit(run_setup(settings, wishes, look_around(os.environ)))
