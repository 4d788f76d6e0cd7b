"""Every setting and every command is in the documentation, as it is, and nothing that does not exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkout import ROOT

from obsidian_rag.cli import cli
from obsidian_rag.command_frame import SETTING_OPTIONS
from obsidian_rag.config import DEFAULT_ARCHIVE, DEFAULT_OLLAMA_URL, NAMES, Settings, load_settings

PAGES = {page.name: page.read_text("utf-8") for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))}
ROW = re.compile(
    r"^\| `(?P<name>[A-Z_]+)` \| (?P<flag>.*?) \| (?P<default>.*?) \| (?P<meaning>.+) \|$", re.MULTILINE
)
ROWS = {row["name"]: row for row in ROW.finditer(PAGES["configuration.md"])}
FENCE = re.compile(r"^```[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
CALL = re.compile(r"(?:^|[\s/])obsidian-rag (?P<arguments>[a-z].*)$")
# Defaults that are a value, and not another program's matter or nothing.
DEFAULTS = {
    "OLLAMA_URL": DEFAULT_OLLAMA_URL,
    "EMBEDDER": Settings().embedder,
    "SEARCH_FUSION": Settings().search_fusion,
    "SEARCH_ARCHIVE": str(DEFAULT_ARCHIVE),
}


def list_calls() -> Iterator[tuple[str, str]]:
    """(Page, what stands after `obsidian-rag`) for each call of a command in code on a page."""
    for page, text in PAGES.items():
        lines = [line for block in FENCE.findall(text) for line in block.splitlines()]
        for code in [*lines, *SPAN.findall(FENCE.sub("", text))]:
            for part in re.split(r"\||;|&&|\$\(", code):
                if call := CALL.search(part.split(" # ")[0].rstrip(") ")):
                    yield page, call["arguments"]


CALLS = sorted(set(list_calls()))


def test_each_setting_has_its_row_and_no_row_is_of_none() -> None:
    assert list(ROWS) == list(dict.fromkeys(ROWS))
    assert sorted(ROWS) == sorted(NAMES)


@pytest.mark.parametrize("flag, name", [(flag, name) for flag, name, _ in SETTING_OPTIONS])
def test_a_setting_is_documented_with_its_flag(flag: str, name: str) -> None:
    assert f"`{flag}`" in ROWS[name]["flag"]


def test_each_setting_has_a_flag() -> None:
    assert sorted(name for _, name, _ in SETTING_OPTIONS) == sorted(NAMES)


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_setting_is_documented_with_its_default(name: str) -> None:
    assert ROWS[name]["default"] == f"`{DEFAULTS[name]}`"


def test_a_documented_default_that_is_written_out_changes_nothing(tmp_path: Path) -> None:
    written = {name: DEFAULTS[name] for name in DEFAULTS}
    given, none = load_settings(written, {}, tmp_path), load_settings({}, {}, tmp_path)
    for setting in ("ollama_url", "embedder", "search_fusion", "search_archive"):
        assert getattr(given, setting) == getattr(none, setting)


def test_the_example_for_claude_code_hands_on_every_setting_and_sets_none() -> None:
    """A default written there would win over the person's settings file; an empty value does not."""
    entry = json.loads((ROOT / ".mcp.json.example").read_text("utf-8"))["mcpServers"]["obsidian-rag"]
    assert entry["env"] == {name: f"${{{name}:-}}" for name in entry["env"]}
    assert sorted(entry["env"]) == sorted(NAMES)


def test_the_page_of_commands_has_each_once_and_sends_to_a_page_that_tells_of_it() -> None:
    rows = re.findall(
        r"^\| `obsidian-rag (\w+)` \| .+ \| (?:\[(\S+)\]\(\2\))? ?\|$", PAGES["commands.md"], re.MULTILINE
    )
    assert sorted(name for name, _ in rows) == sorted(cli.commands)
    for name, page in rows:
        assert not page or f"obsidian-rag {name}" in PAGES[page] or f"`{name}`" in PAGES[page], page


@pytest.mark.parametrize("page, call", CALLS)
def test_a_command_on_a_page_exists_with_its_options(page: str, call: str) -> None:
    name, *rest = call.split()
    assert name in cli.commands, f"{page}: obsidian-rag {call}"
    options = {option for parameter in cli.commands[name].params for option in parameter.opts}
    options |= {"--help", "-h"}
    own = f" {' '.join(rest)}".split(" -- ")[0]
    for option in re.findall(r"(?:^| )(--[a-z-]+)", own):
        assert option in options, f"{page}: obsidian-rag {call}"


def test_the_page_for_contributors_names_what_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    named = re.findall(r"make ([a-z-]+)", text)
    assert named
    assert set(named) <= set(targets)
    paths = [
        path for path in re.findall(r"\]\(([^)#]+)\)|`((?:docs|tests|benchmarks)/[^`]*)`", text) if any(path)
    ]
    assert [path for pair in paths for path in pair if path and not (ROOT / path).exists()] == []


def test_links_between_pages_lead_to_pages_and_headings_that_exist() -> None:
    broken = []
    for page, text in PAGES.items():
        folder = ROOT if page == "README.md" else ROOT / "docs"
        for path, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", SPAN.sub("", FENCE.sub("", text))):
            target = folder / path if path else folder / page
            if not target.exists():
                broken.append((page, path))
            elif anchor and anchor not in list_anchors(target.read_text("utf-8")):
                broken.append((page, f"{path}#{anchor}"))
    assert broken == []


def list_anchors(text: str) -> set[str]:
    """The headings of a page as the last part of a link, as on GitHub."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
