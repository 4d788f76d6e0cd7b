"""Kinds of fault that users of other programs report: each of them, against the index or the real server."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, LiteralString

import psutil
import pytest
from conftest import Workbench
from fault_bench import (
    NewBench,
    assert_as_undisturbed,
    error_of,
    find_notes,
    open_server,
    paths_of,
    read_status,
    wait_until,
    write_notes,
)
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from raw_server import ROOT

from obsidian_rag.catalog import load_note
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.render import render_status
from obsidian_rag.search.pipeline import search
from obsidian_rag.search.query import make_request, read_operators

# --- names -------------------------------------------------------------------------------------------

ALIKE = ["Road map.md", "Road_map.md", "road map.md", "road_map.md", "ROAD MAP.md", "Road-map.md",
         "Roadmap.md", "Road  map.md", "x/Road map.md", "x/road_map.md"]  # fmt: skip


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS takes names that differ in case for one")
def test_names_that_differ_in_case_space_or_underscore_alone_do_not_evict_each_other(
    bench: Workbench, new_bench: NewBench, tmp_path: Path
) -> None:
    for number, path in enumerate(ALIKE):
        bench.vault.write(path, f"# Plan\n\nThis one is about subject{number}.\n")
    bench.index()
    assert bench.index().notes_unchanged == len(ALIKE)
    assert find_notes(bench) == sorted(ALIKE)
    with open_server(bench, tmp_path / "server") as server:
        for number, path in enumerate(ALIKE):
            note = server.call("get_note", file_path=path)["structuredContent"]
            assert (note["file_path"], f"subject{number}." in note["content"]) == (path, True)
            assert paths_of(server.call("search_notes", query=f"subject{number}"))[0] == path
        # A name that fits several notes is not answered by one of them.
        for tool in ("get_note", "graph_search"):
            said = error_of(server.call(tool, file_path="ROAD_map"))
            assert "may be any of" in said and "Road_map.md" in said and "road_map.md" in said
        server.end_input()
    bench.vault.write(ALIKE[1], "# Plan\n\nThis one is about something else.\n")
    bench.vault.delete(ALIKE[3])
    bench.vault.move(ALIKE[4], "Road Map.md")
    report = bench.index()
    assert (report.notes_indexed, report.notes_deleted, report.notes_renamed) == (1, 1, 1)
    assert_as_undisturbed(bench, new_bench)


# --- text --------------------------------------------------------------------------------------------

PILE = (
    "\N{FAMILY}\N{ZERO WIDTH JOINER}\N{GIRL}\N{EMOJI MODIFIER FITZPATRICK TYPE-5}e\N{COMBINING ACUTE ACCENT}"
)


def test_an_emoji_at_the_edge_of_a_chunk_fails_no_note(bench: Workbench) -> None:
    """Texts of different lengths before it, so that each part of it stands at an edge once."""
    for number in range(24):
        bench.vault.write(f"Note {number}.md", "x" * number + f"{PILE} and so on. " * 400)
    # Halves of an emoji, as programs write them that take UTF-16 for UTF-8; and UTF-16 with half of one.
    cut = b"# Cut\n\nIts one half: \xed\xa0\xbd and the other: \xed\xb8\x80.\n"
    bench.vault.write("Cut.md", cut + b"And so on.\n" * 200)
    bench.vault.write("Wide.md", "# Wide\n\nA lone one: \ud83d here.\n".encode("utf-16", "surrogatepass"))

    report = bench.index()

    assert (report.status, report.notes_indexed) == ("ok", 26), report.failures
    assert {warning.split(":")[0] for warning in report.warnings} == {"Cut.md", "Wide.md"}
    chunks = bench.rows("SELECT file_path, content FROM documents WHERE file_path LIKE 'Note%%'")
    assert len(chunks) > 24
    assert all(PILE in content and "\N{REPLACEMENT CHARACTER}" not in content for _, content in chunks)
    assert bench.index().notes_unchanged == 26


LONG = "The quick brown fox jumps over the lazy dog and goes on. "


@pytest.mark.parametrize(
    "filling",
    [
        pytest.param((LONG * 4 + "\n\n") * 4600, id="a megabyte of paragraphs"),
        pytest.param(LONG * 5000, id="one line"),
        pytest.param("# One\n\n" + (LONG + "\n") * 5000, id="one section"),
        pytest.param("x" * 300_000, id="one word"),
        pytest.param("```\n" + (LONG + "\n") * 5000 + "```\n", id="one fence"),
    ],
)
def test_the_last_words_of_a_very_long_note_are_found(bench: Workbench, filling: str) -> None:
    bench.vault.write(
        "Long.md", f"{filling} Here the walrus sleeps.\n\n## End\n\nA zebra meets a xylophone.\n"
    )
    bench.vault.write("Other.md", "Something else.\n")
    assert bench.index().status == "ok"
    for query, mode in (
        ("walrus sleeps", "keyword"), ("zebra meets xylophone", "keyword"),
        ("zebra meets a xylophone", "vector"), ("zebra meets xylophone", "hybrid"),
    ):  # fmt: skip
        hit = bench.search(query, mode).results[0]
        assert hit.file_path == "Long.md", (query, mode)
        assert query.split()[0] in hit.content, (query, mode)


@pytest.mark.parametrize("text", ["[" * 40_000, "[[" * 40_000, "![" * 40_000, "[](" * 40_000, "[^" * 40_000])
def test_brackets_without_end_are_indexed_like_any_other_text(bench: Workbench, text: str) -> None:
    """Where links are matched by a quadratic expression, a run does not come to its end."""
    bench.vault.write("Brackets.md", f"# Brackets\n\n{text}\n\nThe end of it.\n")
    bench.vault.write("Link.md", "[[Brackets]]\n")
    before = psutil.Process().cpu_times().user
    report = bench.index()
    spent = psutil.Process().cpu_times().user - before
    assert (report.status, report.links_resolved) == ("ok", 1)
    assert spent < 20, "linear: a quadratic one takes minutes"
    assert bench.found("end of it", "keyword") == ["Brackets.md"]


# --- findability -------------------------------------------------------------------------------------

# What a file system takes as a name; a leading dot hides a file from Obsidian, too.
TITLES = st.text(
    st.characters(exclude_characters="/", exclude_categories=("Cs", "Cc")), min_size=1, max_size=40
).filter(lambda title: title.strip() and not title.startswith("."))
ODD_TITLES = [
    "The", "and", "not", "OR", "a", "I", "---", "!!!", "\N{PILE OF POO}", "1", "2024-01-01", "C++", "C#", "?",
    '"quoted"', "\N{COPYRIGHT SIGN}", "日記", "Ünïcödé", "x" * 120, "what is it?", "100%", "_", "%", "100 %",
    "a b c d e f g", "\N{ZERO WIDTH SPACE}", "[[link]]", "folder:x", "tag:#x", "Über-uns (2)", "e\u0301tude",
    " a blank before", "a blank after ",
]  # fmt: skip


@settings(
    max_examples=2,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(TITLES, min_size=5, max_size=15), st.booleans())
def test_every_note_that_the_status_counts_is_found_by_its_title_and_by_its_words(
    bench: Workbench, titles: list[str], with_empty: bool
) -> None:
    for file in bench.vault.root.iterdir():
        file.unlink()
    for number, title in enumerate(sorted({*titles, *ODD_TITLES})):
        is_empty = with_empty and number % 5 == 0
        bench.vault.write(f"{title}.md", "" if is_empty else f"# Heading\n\nIt tells of subject{number}x.\n")
    report = bench.index(allow_mass_delete=True)
    paths = find_notes(bench)
    assert read_status(bench)["notes"] == len(paths) == report.notes_seen

    reader = IndexReader(bench.settings, lambda text: None)

    def find(query: str, mode: str) -> list[str]:
        return [hit.file_path for hit in search(reader, make_request(query, mode)).results]

    try:
        for path in paths:
            title = path.removesuffix(".md")
            assert reader.run(partial(load_note, file_path=path)).file_path == path
            if not read_operators(title):  # a minus before a word asks for notes without it
                assert path in find(title, "hybrid"), title
        for path, content in bench.rows("SELECT file_path, content FROM documents"):
            assert find(content.split("tells of ")[1].split(".")[0], "keyword") == [path]
    finally:
        reader.close()


# What four of eleven notes may lack, so that some search does not find them. `harm` has their paths.
LACKS: dict[str, LiteralString] = {
    "all": "DELETE FROM notes WHERE file_path = ANY(%s)",
    "text": "DELETE FROM documents WHERE file_path = ANY(%s)",
    "a chunk": "DELETE FROM documents WHERE file_path = ANY(%s) AND chunk_index = 1",
    "words": "DELETE FROM postings WHERE note_id IN (SELECT id FROM notes WHERE file_path = ANY(%s))",
    "phrases": "UPDATE documents SET search_tsv = NULL WHERE file_path = ANY(%s)",
    "names": "DELETE FROM note_names WHERE note_id IN (SELECT id FROM notes WHERE file_path = ANY(%s))",
    "a place among the vectors": "UPDATE documents SET repeated = TRUE WHERE file_path = ANY(%s)",
    "their last edit": "UPDATE documents SET file_hash = repeat('0', 64) WHERE file_path = ANY(%s)",
    "targets of their links": "UPDATE note_links SET target_type = NULL WHERE source_path = ANY(%s)",
}


@pytest.mark.parametrize("lack", LACKS)
def test_the_status_never_says_that_all_is_well_while_four_of_eleven_notes_cannot_be_found(
    bench: Workbench, new_bench: NewBench, lack: str
) -> None:
    write_notes(bench.vault, 11)
    bench.index()
    assert is_all_well(read_status(bench, full=True))

    bench.execute(LACKS[lack], [f"Note {number:02}.md" for number in (2, 3, 5, 7)])

    assert not is_all_well(read_status(bench, full=True))
    bench.index(full=True)
    assert is_all_well(read_status(bench, full=True))
    assert_as_undisturbed(bench, new_bench)


def test_the_status_never_says_that_all_is_well_while_four_of_eleven_notes_were_left_out(
    bench: Workbench, new_bench: NewBench
) -> None:
    write_notes(bench.vault, 7)
    bench.index()
    for number in range(4):
        bench.vault.write(f"Left out {number}.md", f"Poison {number}.\n")
    assert not is_all_well(read_status(bench, full=True))  # no run has seen them
    bench.ollama.poison.add("Poison")
    assert bench.index().status == "partial"
    assert not is_all_well(read_status(bench, full=True))  # one has, in vain
    bench.ollama.poison.clear()
    bench.index()
    assert is_all_well(read_status(bench, full=True))
    assert_as_undisturbed(bench, new_bench)


def is_all_well(status: dict[str, Any]) -> bool:
    """Whether a person is told that every note is in the index, and no note failed."""
    text = render_status(status)
    return (
        "all are in the index as they are" in text
        and "agree with one another" in text
        and "FAILED" not in text
        and status["disk"]["missing"] == status["disk"]["failed"] == len(status["drift"]) == 0
    )


def test_edits_on_disk_reach_every_index_at_once(
    bench: Workbench, new_bench: NewBench, tmp_path: Path
) -> None:
    """Words, meaning, names, aliases, tags, links, topics and the note's text: of each, the new and not the
    old."""

    def write(path: str, what: str, link: str) -> None:
        bench.vault.write(
            path,
            f"---\naliases: [{what} alias]\ntags: [{what}tag]\n---\n# {what} heading\n\nAll about {what}.\n\n"
            f"It founded [[{link}]].\n",
        )

    write("one/Note.md", "garden", "First")
    bench.vault.write("First.md", "One.\n")
    bench.vault.write("Second.md", "Two.\n")
    bench.index()
    with open_server(bench, tmp_path / "server") as server:

        def find(query: str, mode: str) -> list[str]:
            return paths_of(server.call("search_notes", query=query, mode=mode))

        assert find("garden", "keyword") == ["one/Note.md"]
        write("one/Note.md", "kitchen", "Second")
        bench.index()
        for mode in ("keyword", "vector", "hybrid"):
            assert find("all about kitchen", mode)[0] == "one/Note.md", mode
        assert find("garden", "keyword") == find('"garden heading"', "keyword") == []
        for asked in ("kitchen alias", "Note", "one/note"):
            assert "kitchen" in server.call("get_note", file_path=asked)["structuredContent"]["content"]
        assert "No note" in error_of(server.call("get_note", file_path="garden alias"))
        assert paths_of(server.call("search_notes", query="kitchen", tags=["kitchentag"])) == ["one/Note.md"]
        assert paths_of(server.call("search_notes", query="kitchen", tags=["gardentag"])) == []
        assert server.call("graph_search", file_path="Second")["structuredContent"]["total"] == 1
        assert server.call("graph_search", file_path="First")["structuredContent"]["total"] == 0
        bench.vault.move("one/Note.md", "two/Other name.md")
        bench.index()
        topics = server.call("list_topics")["structuredContent"]["topics"]
        assert [topic["name"] for topic in topics] == ["", "two"]
        assert find("Other name", "hybrid")[0] == "two/Other name.md"
        assert "No note" in error_of(server.call("get_note", file_path="one/Note"))
        bench.vault.delete("two/Other name.md")
        bench.index()
        assert find("kitchen", "keyword") == []
        assert server.call("graph_search", file_path="Second")["structuredContent"]["total"] == 0
        server.end_input()
    assert_as_undisturbed(bench, new_bench)


# --- the server's life -------------------------------------------------------------------------------

CLIENT = """
import subprocess, sys
server = subprocess.Popen([sys.executable, {server!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
server.stdin.write(b'{{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {{"protocolVersion":'
    b' "2025-06-18", "capabilities": {{}}, "clientInfo": {{"name": "c", "version": "1"}}}}}}\\n')
server.stdin.flush()
assert server.stdout.readline()
print(server.pid, flush=True)
sys.stdin.read()
"""


def test_a_server_ends_when_its_client_is_killed(bench: Workbench, tmp_path: Path) -> None:
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT.format(server=str(ROOT / "server.py"))],
        env=bench.environment,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert client.stdin and client.stdout
    server = psutil.Process(int(client.stdout.readline()))
    client.kill()
    client.wait()
    # Nobody has asked after the orphan where a container has no init: it stays as a zombie.
    wait_until(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE, "the server ends")
    client.stdin.close()
    client.stdout.close()
