"""How the commands explain themselves: in groups, with settings apart from a command's own options.

A command says what it does, gives examples, and names the command that comes next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from obsidian_rag.command_frame import SettingOption, print_json

SETTINGS_HEADING = "Settings (also from the environment or the settings file, by the name in brackets)"
COLUMN = 11  # characters of the longest command's name


class TaughtCommand(click.Command):
    """A command whose help ends with the options that all commands share."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own, settings = list[tuple[str, str]](), list[tuple[str, str]]()
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                (settings if isinstance(parameter, SettingOption) else own).append(record)
        for heading, records in (("Options", own), (SETTINGS_HEADING, settings)):
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


class TaughtGroup(click.Group):
    """A group whose commands stand in sections, each in the order in which one needs them, and which answers
    `--json` with a document even where the arguments cannot be read.
    """

    command_class = TaughtCommand

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.sections: list[tuple[str, tuple[click.Command, ...]]] = []

    def add_section(self, heading: str, commands: Sequence[click.Command]) -> None:
        """Add commands below a heading of their own."""
        self.sections.append((heading, tuple(commands)))
        for command in commands:
            self.add_command(command)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [command.name or "" for _, commands in self.sections for command in commands]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, commands in self.sections:
            with formatter.section(heading):
                formatter.write_dl(
                    [(f"{command.name:<{COLUMN}}", command.get_short_help_str(200)) for command in commands]
                )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["obsidian_rag.json"] = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as exc:
            if ctx.meta["obsidian_rag.json"]:
                print_json({"status": "failed", "error": exc.format_message(), "mend": "See --help."})
            raise
