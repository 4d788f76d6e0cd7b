"""The command obsidian-rag: thin adapters from flags to work and from results to text or JSON.

Exit codes: 0 done; 1 done, but some notes failed; 2 could not be done. Heavy imports wait for their command.
"""

from __future__ import annotations

import click

from obsidian_rag import __version__
from obsidian_rag.cli.asking import diagnose, graph, note, search, topics, web
from obsidian_rag.cli.care import doctor, evaluate, psql, status
from obsidian_rag.cli.completions import VARIABLE
from obsidian_rag.cli.start import completion, demo, index, init, serve
from obsidian_rag.command_help import TaughtGroup
from obsidian_rag.program import name_program


@click.group(
    cls=TaughtGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="obsidian-rag")
def cli() -> None:
    """Make an Obsidian vault searchable by the agent you work with.

    \b
    obsidian-rag init                   set it up: it asks, then indexes
    obsidian-rag search "a question"    ask your notes
    obsidian-rag COMMAND --help         what a command does, with examples

    Settings are taken from flags, then the environment, then .env, then the settings file.
    """


cli.add_section("Start here", (init, index, serve, demo, completion))
cli.add_section("Ask", (search, note, graph, topics, web))
cli.add_section("Look after it", (status, doctor, diagnose, evaluate, psql))


def main() -> None:
    """The program obsidian-rag."""
    cli(prog_name=name_program(), complete_var=VARIABLE)
