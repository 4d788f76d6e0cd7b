"""Results on a terminal: marked, clickable, as wide as it is, and safe from what notes hold."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest
from conftest import Workbench
from rich.cells import cell_len
from rich.console import Console
from terminals import run_on_terminal

from obsidian_rag.catalog import StoredText, Topic, Topics
from obsidian_rag.config import Vault
from obsidian_rag.graph import Graph, GraphEdge
from obsidian_rag.models import Hit, LinkStep
from obsidian_rag.screen.answer import MOST_LINES, print_answer
from obsidian_rag.screen.index import print_graph, print_note, print_status, print_topics
from obsidian_rag.screen.places import Places
from obsidian_rag.screen.safety import show_text
from obsidian_rag.search.pipeline import Answer

EVIL = "\x1b[31mred\x1b]0;title\x07 \x9b2J [bold]no markup[/bold] :smile: \u202eturned"
SHOWN = "\\x1b[31mred\\x1b]0;title\\x07 \\x9b2J [bold]no markup[/bold] :smile: \\u202eturned"
WORDS = "The pump in the cellar drives the water up. " * 8


def open_console(width: int = 80, colours: str | None = "standard") -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    console = Console(
        file=file, width=width, force_terminal=True, color_system=colours, highlight=False, markup=False,
        emoji=False, legacy_windows=False,
    )  # fmt: skip
    return console, file


def make_hit(file_path: str = "Home/Pump.md", content: str = WORDS, **more: object) -> Hit:
    values = {"title": "Pump", "heading_path": "Pump > Parts", "evidence": "keyword", "ranks": {"keyword": 1}}
    return Hit(
        file_path=file_path, chunk_index=0, start_line=3, end_line=9, score=1.0, content=content,
        **{**values, **more},  # type: ignore[arg-type]
    )  # fmt: skip


def make_answer(*hits: Hit, query: str = "driving the pump", notices: tuple[str, ...] = ()) -> Answer:
    return Answer(query, "hybrid", "general", hits, notices, "unknown")


def make_note(content: str, **more: object) -> StoredText:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    values = {
        "file_path": "A.md",
        "title": "A",
        "aliases": (),
        "tags": (),
        "modified_at": now,
        "indexed_at": now,
    }
    return StoredText(content=content, **{**values, **more})  # type: ignore[arg-type]


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\", "", text)


def squeeze(text: str) -> str:
    return re.sub(r"\s+", "", text)


def test_a_search_on_a_terminal_marks_words_and_opens_notes_by_a_click(
    bench: Workbench, tmp_path: Path
) -> None:
    file = bench.vault.write("Home/Pump ü.md", "# Parts\n\nThe pump drives the water up.\n")
    bench.index()
    seen = run_on_terminal(["search", "driving pump"], bench.environment, tmp_path)
    url = f"obsidian://open?vault=vault&file={quote('Home/Pump ü.md', safe='')}"
    assert re.search(rf"\x1b\]8;id=\d+;{re.escape(url)}\x1b\\[^\n]*Pump", seen.raw)
    assert re.search(rf"\x1b\]8;id=\d+;{re.escape(file.as_uri())}\x1b\\\x1b\[36mHome/Pump ü.md", seen.raw)
    assert re.search(r"\x1b\[1;35mpump\x1b\[0m", seen.raw)
    assert "Home/Pump ü.md:" in seen.text
    assert "#" not in seen.text.splitlines()[0]


def test_what_goes_into_a_pipe_stays_markdown(bench: Workbench, tmp_path: Path) -> None:
    bench.vault.write("Pump.md", "# Parts\n\nThe pump.\n")
    bench.index()
    for arguments in (["search", "pump"], ["note", "Pump"], ["graph", "Pump"], ["topics"]):
        done = subprocess.run(
            [sys.executable, "-m", "obsidian_rag", *arguments],
            env=bench.environment | {"FORCE_COLOR": "1", "TERM": "xterm-256color"},
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.startswith("# "), arguments
        assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("extra", "forbidden"),
    [({"NO_COLOR": "1"}, r"\x1b\[[0-9;]*3[0-7]"), ({"TERM": "dumb"}, r"\x1b")],
    ids=["NO_COLOR", "dumb"],
)
def test_a_terminal_without_colours_gets_none(
    bench: Workbench, tmp_path: Path, extra: Mapping[str, str], forbidden: str
) -> None:
    bench.vault.write("Pump.md", "# Parts\n\nThe pump.\n")
    bench.index()
    seen = run_on_terminal(["search", "pump"], {**bench.environment, **extra}, tmp_path)
    assert "Pump.md" in seen.text
    assert not re.search(forbidden, seen.raw)


def test_the_other_commands_have_screens_of_their_own(bench: Workbench, tmp_path: Path) -> None:
    bench.vault.write("Home/Pump.md", "# Pump\n\nIt feeds the [[Garden]].\n")
    bench.vault.write("Garden.md", "Green.\n")
    bench.index()
    for arguments, words in (
        (["note", "Pump"], "It feeds the [[Garden]]."),
        (["graph", "Pump"], "→ Garden.md"),
        (["topics"], "Home/"),
        (["status"], "Tables:"),
    ):
        seen = run_on_terminal(arguments, bench.environment, tmp_path)
        assert words in seen.text, arguments
        assert "\x1b[" in seen.raw, arguments


@pytest.mark.parametrize("width", [30, 80, 160])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    console, file = open_console(width)
    long = "Projects/" + "A long name of a folder/" * 5 + "note.md"
    step = LinkStep("A.md", long, "out", "wrote", WORDS, "A.md", 3)
    content = f"# Head\n\n- [ ] {WORDS}\n    - {WORDS}\n> {WORDS}\n{'x' * 200}\n日本語{'文字' * 90}\n"
    print_answer(
        console,
        make_answer(
            make_hit(long, content, heading_path=f"{WORDS} > {WORDS}", linked_by=(step,)),
            make_hit(long, content, evidence="same_note"),
            notices=(WORDS,),
        ),
        Places((Vault(Path("/vault")),)),
    )
    print_note(console, make_note(f"---\na: {WORDS}\n---\n{content}", aliases=(WORDS,)), Places())
    edge = GraphEdge(long, 1, "out", "A.md", "[[x]]", WORDS, "wrote", WORDS)
    print_graph(console, Graph("A.md", 1, (edge,), (1,)), Places())
    print_topics(console, Topics((Topic(long, 1, 2),)))
    lines = plain(file.getvalue()).splitlines()
    assert len(lines) > 20
    assert max(map(cell_len, lines)) <= width


def test_nothing_in_a_note_reaches_the_terminal_but_its_signs() -> None:
    """A note is data: a downloaded one must not clear the screen, set a title or be taken for markup."""
    console, file = open_console(200, None)
    places = Places((Vault(Path("/vault")),))
    hit = make_hit(f"{EVIL}.md", EVIL, title=EVIL, heading_path=EVIL)
    print_answer(console, make_answer(hit, query=EVIL, notices=(EVIL,)), places)
    print_note(console, make_note(f"# {EVIL}\n", title=EVIL, tags=(EVIL,), aliases=(EVIL,)), places)
    print_note(console, make_note(f"---\na: {EVIL}\n---\n"), places)
    edge = GraphEdge(f"{EVIL}.md", 1, "out", "A.md", EVIL, EVIL, EVIL, EVIL)
    print_graph(console, Graph(f"{EVIL}.md", 1, (edge,), (1,), (EVIL,)), places)
    print_topics(console, Topics((Topic(EVIL, 1, 2),), (EVIL,)))
    said = file.getvalue()
    assert said.count(SHOWN) >= 16
    assert set(re.findall(r"[^\n -~]", said)) <= set("→├─└│·…›")


def test_what_would_be_a_line_of_the_screen_stays_inside_of_its_own() -> None:
    console, file = open_console(80, None)
    print_graph(console, Graph("A\nTotal: 9.md", 1, (), ()), Places())
    assert "A Total: 9.md" in file.getvalue()


def test_links_hold_no_sign_that_ends_them(tmp_path: Path) -> None:
    console, file = open_console(80)
    root = tmp_path / "v\x07ault"
    (root / "a\x1bb.md").parent.mkdir()
    (root / "a\x1bb.md").write_text("x")
    print_note(console, make_note("x", file_path="a\x1bb.md"), Places((Vault(root),)))
    said = file.getvalue()
    assert "file://" in said
    assert "obsidian://" in said
    assert "\x07" not in said
    assert "\x1bb" not in said


def test_a_note_is_shown_whole() -> None:
    content = (
        "---\ntags: [a]\n---\n# Title\n\n<div>html</div>\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
        "```py\n# no heading **x**\n```\n\n1. one\n2. two\n\n![[picture.png]] and [a](https://b.example)\n"
        f"{WORDS}\n~~~\nnever closed\n"
    )
    console, file = open_console(60)
    print_note(console, make_note(content), Places())
    shown = plain(file.getvalue())
    assert squeeze(content) in squeeze(shown)


def test_an_empty_note_says_so() -> None:
    console, file = open_console()
    print_note(console, make_note("  \n"), Places())
    assert "(this note is empty)" in file.getvalue()


def test_a_passage_is_the_few_lines_with_most_matches() -> None:
    content = "\n\n".join(["# Parts", *(f"Line {n}." for n in range(20)), "The pump.", "Drives.", "Last."])
    console, file = open_console(80)
    print_answer(console, make_answer(make_hit(content=content)), Places())
    shown = plain(file.getvalue())
    assert "The pump.\n" in shown
    assert "Drives.\n" in shown
    assert "Line 0." not in shown
    assert shown.count("    Line ") + 2 <= MOST_LINES


def test_chunks_beside_a_hit_are_left_to_the_note() -> None:
    console, file = open_console(80)
    neighbor = make_hit(content="Beside it.", neighbor=True)
    print_answer(console, make_answer(make_hit(), neighbor, make_hit(evidence="same_note")), Places())
    shown = plain(file.getvalue())
    assert "Beside it." not in shown
    assert "also lines 3-9" in shown
    assert shown.startswith("1 note for: driving the pump\n")


def test_an_answer_without_notes_says_why() -> None:
    console, file = open_console(80)
    print_answer(console, make_answer(notices=("The index is empty.",)), Places())
    assert plain(file.getvalue()) == "Nothing found for: driving the pump\n! The index is empty.\n"


def test_the_graph_is_a_tree_with_each_note_below_the_one_it_was_reached_from() -> None:
    edges = (
        GraphEdge("B.md", 1, "out", "A.md", "[[B]]", relation="wrote", sentence="A wrote B."),
        GraphEdge("C.md", 2, "in", "B.md", "[[C]]"),
    )
    console, file = open_console(80)
    print_graph(console, Graph("A.md", 2, edges, (1, 1)), Places())
    assert plain(file.getvalue()).splitlines() == [
        "A.md",
        "└── → B.md  wrote  [[B]]",
        "    A wrote B.",
        "    └── ← C.md  [[C]]",
        "2 links across 2 hops",
    ]


def test_of_several_vaults_each_note_opens_in_its_own(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "A.md").write_text("x")
    places = Places((Vault(tmp_path / "one", "one/"), Vault(tmp_path / "two", "two/")))
    assert places.find_app_url("two/A.md") == "obsidian://open?vault=two&file=A.md"
    assert places.find_file_url("two/A.md") == (tmp_path / "two" / "A.md").as_uri()
    assert places.find_file_url("two/B.md") is None
    assert Places().find_app_url("A.md") is None


def test_the_status_tells_failures_apart(bench: Workbench) -> None:
    from obsidian_rag.drift import load_full_status
    from obsidian_rag.postgres import connect

    bench.vault.write("A.md", "x\n")
    bench.vault.write("Bad.md", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)
    bench.index()
    console, file = open_console(80)
    with connect(bench.database_url) as conn:
        print_status(console, load_full_status(conn, bench.settings))
    assert re.search(r"\x1b\[1;31mFAILED\x1b\[0m Bad.md", file.getvalue())
    shown = plain(file.getvalue())
    assert re.search(r"Last run:\s+partial, started \d{4}-\d\d-\d\d \d\d:\d\d, \d+ seconds ago\n", shown)


def test_an_error_shows_no_control_character_of_a_name(bench: Workbench, tmp_path: Path) -> None:
    bench.vault.write("a\x1b[31mb.md", "x\n")
    bench.index()
    done = subprocess.run(
        [sys.executable, "-m", "obsidian_rag", "note", "a[31mc"],
        env=bench.environment, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "\x1b" not in done.stderr


def test_text_keeps_its_lines_and_scripts() -> None:
    assert show_text("a\r\nb\tc\rd") == "a\nb\tc\\x0dd"
    assert show_text("שלום مرحبا 日本 👩‍💻") == "שלום مرحبا 日本 👩‍💻"
