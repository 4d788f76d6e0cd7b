"""Ask one hard vault of obsidian-rag and of the programs that people use today; print what each answers.

usage: python benchmarks/compare_tools.py --peers FOLDER [--only obsidian-rag --only qmd …] [--keep FOLDER]

The peers are expected where these commands put them:

    npm install --prefix FOLDER/qmd --ignore-scripts @tobilu/qmd@2.8.3
    npm install --prefix FOLDER/mcpvault @bitbonsai/mcpvault@0.16.0
    npm install --prefix FOLDER/node node@22
    python3.12 -m venv FOLDER/basic-memory && FOLDER/basic-memory/bin/pip install basic-memory==0.24.1
    python3.13 -m venv FOLDER/markdown-vault-mcp
    FOLDER/markdown-vault-mcp/bin/pip install 'markdown-vault-mcp[embeddings-api]==5.1.0'

One that is not there is left out, and said. Each is used through its MCP server over stdio, and indexes with
its own command where it has one. Each gets a copy of the vault, a home of its own and no model from a hub, so
that words are asked of all. The row of the stopped model server is asked of those that can use Ollama, with
the tests' stand-in for it.

Prints one row of Markdown for each question; with `--keep` the vaults, the homes and every answer whole
(`answers.jsonl`) stay in that folder.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from compare_peers import PROGRAMS, Answer, Client, ModelServer, Program  # noqa: E402
from compare_vault import LINKING, MOVED, OUTSIDE, PERSON, PUMP, write_vault  # noqa: E402


@dataclass
class Seen:
    """What one program showed: a short fact for each row, and every answer whole."""

    facts: dict[str, str] = field(default_factory=dict)
    answers: list[dict[str, str]] = field(default_factory=list)

    def keep(self, row: str, answer: Answer) -> Answer:
        self.answers.append({"row": row, "failed": str(answer.failed), "text": answer.text[:4000]})
        return answer


def list_notes(vault: Path) -> list[str]:
    return [str(path.relative_to(vault)) for path in vault.rglob("*.md") if path.is_file()]


def find_hits(answer: Answer, notes: Sequence[str]) -> list[str]:
    """The notes that an answer names, in its order."""
    if answer.failed:
        return []
    places = {note: answer.text.find(note) for note in notes}
    return sorted((note for note in notes if places[note] >= 0), key=lambda note: places[note])


def tell_rank(answer: Answer, notes: Sequence[str], wanted: str) -> str:
    if answer.failed:
        return f"error: {shorten(answer.text)}"
    hits = find_hits(answer, notes)
    if wanted in hits:
        return f"found, {hits.index(wanted) + 1} of {len(hits)}"
    return f"not found ({len(hits)} others)" if hits else "no hits"


def shorten(text: str, most: int = 160) -> str:
    text = " ".join(text.replace("|", "/").split())
    return text if len(text) <= most else text[:most] + " …"


def ask_words(program: Program, seen: Seen, client: Client) -> None:
    notes = list_notes(program.vault)
    for row, query, wanted in QUERIES:
        answer = seen.keep(row, program.search(client, query))
        seen.facts[row] = tell_rank(answer, notes, wanted)
    nothing = seen.keep("nothing found", program.search(client, "flurbelwump"))
    seen.facts["nothing found, said"] = shorten(nothing.text, 300) or "(empty)"


QUERIES = (
    ("natural question", "when did I change the filter of the pump?", PUMP),
    ("two words", "pump filter", PUMP),
    ("part of a Chinese sentence", "水温不能超过", "厨房/茶.md"),
    ("đường by duong", "duong", "Travel/Hội An.md"),
    ("Dvořák by dvorak", "dvorak", "Music/Concerts.md"),
    ("word of a note by its alias", "Hannchen", PERSON),
    ("word at the end of the 500 KB note", "zwieback", "Log/Long.md"),
    ("word of the note with broken YAML", "quillwort", "Projects/Kiln.md"),
    ("word of the Latin-1 note", "gluckstein", "Old/Latin.md"),
    ("word with an umlaut of the Latin-1 note", "küche", "Old/Latin.md"),
    ("word of the UTF-16 note", "quincejam", "Old/Wide.md"),
)


def read_notes(program: Program, seen: Seen, client: Client) -> None:
    for row, path, right in (
        ("read the note with broken YAML", "Projects/Kiln.md", "quillwort"),
        ("read the Latin-1 note", "Old/Latin.md", "Küche"),
        ("read the UTF-16 note", "Old/Wide.md", "quincejam"),
    ):
        answer = seen.keep(row, program.read(client, path))
        whole = "right" if answer.holds(right) else "garbled"
        seen.facts[row] = shorten(answer.text) if answer.failed or "Not Found" in answer.text else whole
    answer = seen.keep("read 500 KB", program.read(client, "Log/Long.md"))
    ending = ", with its end" if answer.holds("zwieback") else f", ends: {shorten(answer.text[-300:], 300)}"
    seen.facts["read 500 KB"] = f"{len(answer.text):,} characters{ending}"


def leave_vault(program: Program, seen: Seen, client: Client) -> None:
    """What stands outside the vault, by symlinks, by `..` and by its absolute path."""
    found = seen.keep("outside, searched", program.search(client, OUTSIDE))
    texts = found.text.replace(f'"{OUTSIDE}"', "").replace(f"'{OUTSIDE}'", "")
    seen.facts["outside, by search"] = (
        "text shown" if texts.count(OUTSIDE) and "third stone" in texts else "not shown"
    )
    secret = program.folder / "outside/secret.md"
    ways = (
        "Linked.md",
        "Shared/inner.md",
        "../outside/secret.md",
        "Notes/../../outside/secret.md",
        str(secret),
    )
    shown = []
    for way in ways:
        answer = seen.keep(f"outside, read {way}", program.read(client, way))
        if answer.holds("third stone") or answer.holds("again, in a folder"):
            shown.append(way)
    seen.facts["outside, by reading"] = f"shown by {', '.join(shown)}" if shown else "refused, all five ways"


def ask_links(program: Program, seen: Seen, client: Client) -> None:
    answer = program.list_backlinks(client, PERSON)
    if answer is None:
        seen.facts["backlinks"] = "no tool for it"
        return
    seen.keep("backlinks", answer)
    found = LINKING.intersection(find_hits(answer, list_notes(program.vault)))
    seen.facts["backlinks"] = f"{len(found)} of 3"


def rename_note(program: Program, seen: Seen, calls: Callable[[], int]) -> None:
    """Moves a note, indexes, and asks for it by its words, by both paths and by its links."""
    (program.vault / MOVED).parent.mkdir(parents=True)
    (program.vault / PUMP).rename(program.vault / MOVED)
    before = calls()
    seen.keep("rename, index", program.index())
    seen.facts["texts embedded after a rename"] = str(calls() - before)
    with program.open() as client:
        notes = [*list_notes(program.vault), PUMP]
        hits = find_hits(seen.keep("rename, search", wait_for_hit(program, client, "goldfish", MOVED)), notes)
        seen.facts["renamed: search answers"] = ", ".join(hits) or "nothing"
        old = seen.keep("rename, old path", program.read(client, PUMP))
        seen.facts["renamed: old path read"] = (
            "still answered" if old.holds("duckweed") else shorten(old.text, 220)
        )


def wait_for_hit(program: Program, client: Client, query: str, path: str, mode: str = "keyword") -> Answer:
    """The answer that names `path`, else the last one: some servers look at the vault after their start."""
    for _ in range(20):
        answer = program.search(client, query, mode)
        if path in answer.text:
            break
        time.sleep(0.5)
    return answer


def kill_index(program: Program, seen: Seen, usual: float, expected: int) -> None:
    """Kills the first index half way; then what a search says, and what is there after another run."""
    command = program.index_command()
    if command is None:
        seen.facts["killed in the first index"] = "no index to kill"
        return
    started = subprocess.Popen(
        command,
        env=program.environment,
        cwd=program.home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(usual / 2)
    alive = started.poll() is None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    again = seen.keep("killed, index again", program.index())
    found = count_found(program)
    seen.facts["killed in the first index"] = (
        f"{'killed' if alive else 'had ended'} after {usual / 2:.1f} s; again: "
        f"{shorten(again.text, 60)}; {found} words found, {expected} without the kill"
    )


def count_found(program: Program) -> int:
    """How many of the words are found that stand in one note each."""
    with program.open() as client:
        wait_for_hit(program, client, "pump filter", PUMP)
        return sum(
            wanted in find_hits(program.search(client, query), [wanted]) for _, query, wanted in QUERIES
        )


def search_while_indexing(program: Program, seen: Seen) -> None:
    """Every ordinary note is changed and indexed; meanwhile a server is asked again and again."""
    command = program.index_command()
    if command is None:
        seen.facts["search while indexing"] = "no index"
        return
    for path in sorted((program.vault / "Notes").glob("*.md")):
        path.write_text(path.read_text() + "\nA line more.\n")
    took, failed, missed = [], [], 0
    with program.open() as client:
        run = subprocess.Popen(
            command,
            env=program.environment,
            cwd=program.home,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while run.poll() is None:
            started = time.perf_counter()
            answer = program.search(client, "cello")
            took.append(time.perf_counter() - started)
            if answer.failed:
                failed.append(seen.keep("search while indexing", answer).text)
            missed += "Music/Concerts.md" not in answer.text
    seen.facts["search while indexing"] = (
        f"{len(took)} asked, {len(failed)} errors, {missed} without the hit, "
        f"slowest {max(took, default=0):.2f} s"
        f"{' ' + shorten(failed[0]) if failed else ''}; index exit {run.returncode}"
    )


def stop_model_server(program: Program, seen: Seen, server: ModelServer, wanted: str) -> None:
    """Indexed with Ollama's stand-in; it stops; hybrid is asked."""
    with program.open() as client:
        up = seen.keep("Ollama up", wait_for_hit(program, client, ANY_WORDS, wanted, "hybrid"))
        seen.facts["hybrid, Ollama up"] = tell_rank(up, list_notes(program.vault), wanted)
        server.stop()
        down = seen.keep("Ollama stopped", program.search(client, STOPPED_WORDS, "hybrid"))
        hits = tell_rank(down, list_notes(program.vault), wanted)
        seen.facts["hybrid, Ollama stopped"] = f"{hits}; begins: {shorten(down.text, 260)}"


ANY_WORDS, STOPPED_WORDS = "filter of the pump", "the pump and its filter"


def measure(program: Program, seen: Seen) -> None:
    """The first index, and what is asked of it."""
    before = hash_vault(program.vault)
    started = time.perf_counter()
    said = seen.keep("first index", program.index())
    took = time.perf_counter() - started
    seen.facts["first index, seconds"] = f"{took:.1f}"
    seen.facts["first index, said"] = said.text.splitlines()[0]
    lost = [name for name in ("Kiln.md", "Latin.md", "Wide.md") if name in said.text]
    seen.facts["first index, names"] = ", ".join(lost) or "none of the odd notes"
    with program.open() as client:
        seen.facts["start of the server, seconds"] = f"{client.start_seconds:.2f}"
        tools = client.list_tools()
        seen.facts["tools"] = f"{len(tools)}"
        seen.answers.append({"row": "tools", "failed": "", "text": " ".join(tools)})
        wait_for_hit(program, client, "pump filter", PUMP)
        for check in (ask_words, read_notes, leave_vault, ask_links):
            check(program, seen, client)
    seen.facts["written into the vault"] = tell_changes(before, hash_vault(program.vault))


def hash_vault(vault: Path) -> dict[str, str]:
    files = [path for path in vault.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(vault)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def tell_changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    changed = sum(before[path] != after.get(path) for path in before)
    added = sorted(set(after) - set(before))
    return f"{changed} of {len(before)} files changed, added: {', '.join(added) or 'none'}"


def compare(kind: type[Program], peers: Path, folder: Path) -> Seen:
    """Everything that is asked of one program; each part begins with a vault of its own."""
    seen = Seen()
    first = make_program(kind, peers, folder / "asked")
    measure(first, seen)
    search_while_indexing(first, seen)
    started = time.perf_counter()
    whole = make_program(kind, peers, folder / "short", long=False)
    whole.index()
    usual = time.perf_counter() - started
    seen.facts["first index without the 500 KB note, seconds"] = f"{usual:.1f}"
    kill_index(make_program(kind, peers, folder / "killed", long=False), seen, usual, count_found(whole))
    server = ModelServer()
    linked = make_program(kind, peers, folder / "ollama", long=False)
    able = linked.ask_ollama(server)
    seen.keep("index before the rename", linked.index())
    rename_note(linked, seen, server.count_texts)
    if able:
        stop_model_server(linked, seen, server, MOVED)
    else:
        server.stop()
    return seen


def make_program(kind: type[Program], peers: Path, folder: Path, long: bool = True) -> Program:
    write_vault(folder / "vault")
    if not long:
        (folder / "vault/Log/Long.md").unlink()
    return kind(peers, folder)


def print_rows(seen: Mapping[str, Seen]) -> None:
    rows = list(dict.fromkeys(row for one in seen.values() for row in one.facts))
    print("| | " + " | ".join(seen) + " |\n|---|" + "---|" * len(seen))
    for row in rows:
        cells = (one.facts.get(row, "–").replace("|", "/") for one in seen.values())
        print(f"| {row} | " + " | ".join(cells) + " |")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", type=Path, required=True)
    parser.add_argument("--only", action="append", choices=[kind.name for kind in PROGRAMS])
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    seen: dict[str, Seen] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.keep or Path(temporary)).resolve()
        for kind in PROGRAMS:
            program = kind(given.peers.resolve(), folder / kind.name)
            if given.only and kind.name not in given.only:
                continue
            if not program.find().exists():
                print(f"{kind.name} is left out: {program.find()} is not there", file=sys.stderr)
                continue
            seen[kind.name] = compare(kind, given.peers.resolve(), folder / kind.name)
            if given.keep:
                lines = [json.dumps(answer, ensure_ascii=False) for answer in seen[kind.name].answers]
                (folder / kind.name / "answers.jsonl").write_text("\n".join(lines) + "\n")
        print_rows(seen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
