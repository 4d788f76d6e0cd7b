"""Help that teaches: grouped, with examples that can be run, and never cut short."""

from __future__ import annotations

import re
import shlex

import click
import pytest
from click.testing import CliRunner

from obsidian_rag.cli import cli
from obsidian_rag.command_help import SETTINGS_HEADING

NAMES = sorted(cli.commands)
EXAMPLE = re.compile(r"^ +(obsidian-rag .*?)(?: {2,}\S.*)?$")


def read_help(*arguments: str, width: int = 80) -> str:
    result = CliRunner().invoke(cli, [*arguments, "--help"], prog_name="obsidian-rag", terminal_width=width)
    assert result.exit_code == 0
    return result.stdout


def list_examples(name: str) -> list[str]:
    """The lines below `Examples:`, without what is said of them."""
    lines = read_help(name, width=100).splitlines()
    found = []
    for line in lines[lines.index("  Examples:") + 1 :]:
        match = EXAMPLE.match(line)
        if match is None:
            break
        found.append(match[1])
    return found


def test_the_first_screen_groups_the_commands_in_the_order_of_need() -> None:
    text = read_help()
    headings = [line for line in text.splitlines() if re.fullmatch(r"[A-Z][\w ]+:", line)]
    assert headings == ["Options:", "Start here:", "Ask:", "Look after it:"]
    listed = re.findall(r"^  (\w+)  +\w", text.partition("Start here:")[2], re.MULTILINE)
    assert sorted(listed) == NAMES
    assert listed[:2] == ["init", "index"]


def test_the_first_screen_fits_a_terminal_and_cuts_no_sentence() -> None:
    text = read_help()
    assert "..." not in text.partition("Start here:")[2]
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("name", NAMES)
def test_each_command_has_examples_that_can_be_run(name: str) -> None:
    examples = list_examples(name)
    assert examples
    assert any(example.split()[1] == name for example in examples)
    for example in examples:
        words = shlex.split(example.partition(" > ")[0])[1:]
        command = cli.commands[words[0]]
        context = command.make_context(words[0], words[1:])  # a usage error, where it cannot be read
        context.close()


@pytest.mark.parametrize("name", NAMES)
def test_each_command_and_option_says_what_it_does(name: str) -> None:
    command = cli.commands[name]
    assert command.help
    assert command.get_short_help_str(200).endswith(".")
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


@pytest.mark.parametrize("name", [name for name in NAMES if name != "completion"])
def test_settings_come_after_a_commands_own_options(name: str) -> None:
    own, _, settings = read_help(name).partition(f"{SETTINGS_HEADING}:")
    assert "--database-url" in settings
    assert "--database-url" not in own.partition("Options:")[2]
    assert "--help" in own


def test_what_comes_next_names_commands_that_exist() -> None:
    told = [name for name in NAMES if "\n  Next: " in read_help(name)]
    assert len(told) > len(NAMES) / 2
    for name in told:
        next_step = " ".join(read_help(name).partition("\n  Next: ")[2].partition("\n\n")[0].split())
        mentioned = re.findall(r"obsidian-rag (\w+)", next_step)
        assert mentioned, name
        assert set(mentioned) <= set(NAMES), name
