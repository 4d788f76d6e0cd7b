"""Calls of an agent, right and wrong ones, over a vault that is hard to answer from, and what each answer
must keep. Used by the tests in this process and by `benchmarks/inspector_calls.py` over stdio.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import jsonschema

from obsidian_rag.schemas import BUDGET, LARGEST_NOTE, UNTRUSTED
from obsidian_rag.tokens import estimate_tokens

LONG = 500_000  # characters of the longest notes
LONGEST_ERROR = 10_000  # characters; what is longer is cut by clients
MOST = 25_000  # tokens of a whole answer, its Markdown and its object together
SLACK = 150  # tokens around an answer: that it is untrusted, how to go on

Kind = Literal["tool", "resource", "prompt"]


@dataclass(frozen=True)
class AgentCall:
    """A request and what it must bring: an answer, or an error with these words in it. `budget` is what the
    Markdown of an answer may take.
    """

    kind: Kind
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    budget: int = BUDGET

    @property
    def label(self) -> str:
        """The call in few words."""
        shown = json.dumps(self.arguments, ensure_ascii=False)
        return f"{self.name} {shown if len(shown) <= 70 else shown[:70] + '…'}".replace("|", "¦")


def write_hard_vault(write: Callable[[str, str], object]) -> None:
    """Notes of half a megabyte, in one line and in sections; texts that JSON or tokens make long; names that
    a URI or a path must escape; a hub; headings of the same name.
    """
    sentence = "The parity disk holds a checksum of the drives, and a backup is made each night. "
    write(
        "Home/Pool.md",
        "---\naliases: [drive pool]\n---\n# Pool\n\nThe drives.\n\n## Size\n\nFourteen terabytes.\n",
    )
    write("Home/Snapraid.md", "---\ndate: 2025-03-04\n---\n# Snapraid\n\nParity of [[Pool|the pool]].\n")
    write("Long/One line.md", (sentence * (LONG // len(sentence) + 1))[:LONG])
    write("Long/Sections.md", "".join(make_section(n) for n in range(LONG // 500)))
    write(
        "Long/Japanese.md", "# 予定\n\n" + "サーバーのディスクを交換する予定について話し合いました。" * 5_000
    )
    write("Long/Quotes.md", '"\\"\n' * 60_000)
    write("Long/Controls.md", "# Controls\n\n" + "parity of a few words \x01\x02" * 5_000)
    write("Long/Emoji.md", "# Emoji\n\n" + "parity 🧠👨‍👩‍👧 " * 6_000)
    write("Long/Windows.md", "# Windows\r\n\r\nOne parity line.\r\n" * 4_000)
    write("Long/Names.md", f"---\naliases: {json.dumps([f'name {n}' for n in range(3000)])}\n---\n# Names\n")
    write("Odd/100% # of [it]? yes & 'no'.md", "# Odd\n\nA name that must be escaped, about parity.\n")
    write("Odd/Größe – 日本.md", "# Größe\n\nParity of another script.\n")
    write("Empty.md", "")
    write("Golf/index.md", "# Golf\n")
    write(
        "Home/index.md", "# Home\n\n" + "\n".join(f"- [[Linked {n:04}]]: about parity" for n in range(2000))
    )
    for number in range(0, 2000, 10):
        write(
            f"Many/{number:04}/Linked {number:04}.md", f"# Linked\n\nNote {number} about parity disks.\n" * 4
        )
    write("Tasks.md", "# A\n\n## Tasks\n\none\n\n# B\n\n## Tasks\n\ntwo\n\n### Now\n\nthree\n")


def make_section(number: int) -> str:
    """A section of some 500 characters."""
    text = f"Section {number} tells of drive {number} in its own words. " * 8
    return f"{'#' * (1 + number % 3)} Section {number}\n\n{text}\n\n"


def search(error: str | None = None, **arguments: Any) -> AgentCall:
    return AgentCall("tool", "search_notes", arguments, error, arguments.get("max_tokens") or BUDGET)


def graph(error: str | None = None, **arguments: Any) -> AgentCall:
    return AgentCall("tool", "graph_search", arguments, error, arguments.get("max_tokens") or BUDGET)


def note(error: str | None = None, **arguments: Any) -> AgentCall:
    return AgentCall("tool", "get_note", arguments, error, 8_000)


def topics(error: str | None = None, **arguments: Any) -> AgentCall:
    return AgentCall("tool", "list_topics", arguments, error)


def read(uri: str, error: str | None = None) -> AgentCall:
    return AgentCall("resource", uri, {}, error)


CALLS = (
    search(query="How large is the pool of drives?"),
    search(query="parity"),
    search(query="parity", limit=50),
    search(query="parity", limit=50, max_tokens=8000),
    search(query="parity", limit=50, max_tokens=500),
    search(query="parity disk", mode="keyword", limit=30),
    search(query="parity disk", mode="vector"),
    search(query='"parity disk" -windows'),
    search(query="サーバーのディスク", max_tokens=8000),
    search(query="予定" * 2000),
    search(query='"' * 3999),
    search(query="\\\n\t🧠 $(rm) <b> `x` [[y]]"),
    search(query="xyzzyqwert", mode="keyword"),
    search(query="parity", folder="Long", tags=["#none"]),
    search(query="parity", after="2025-01-01", before="2030-01-01"),
    search(query="parity", boosts=[f"F{n}=1.5" for n in range(500)], intent="exact"),
    search(query="parity", include_excluded=True, properties=["date=2025-03-04"]),
    search("Write some words", query=" "),
    search("at most 4000", query="word " * 2_000),
    search("hybrid, vector, keyword", query="parity", mode="fuzzy"),
    search("from 1 to 50", query="parity", limit=0),
    search("from 1 to 50", query="parity", limit=10**9),
    search("from 500 to 8000", query="parity", max_tokens=100_000),
    search("Use one of exact, entity", query="parity", intent="guess"),
    search("2025-09-30", query="parity", after="yesterday"),
    search("Exchange them", query="parity", after="2025-02-01", before="2025-01-01"),
    search("key=value", query="parity", properties=["status"]),
    search("query is missing", limit=5),
    search("not one of its arguments", query="parity", **{"x" * 5_000: "1"}),
    graph(file_path="Home/Snapraid.md"),
    graph(file_path="Home/index", depth=3),
    graph(file_path="Home/index", depth=2, include_content=True, max_tokens=8000),
    graph(file_path="Home/index", direction="out", max_tokens=500),
    graph(file_path="Empty"),
    graph("from 1 to 3", file_path="Empty", depth=9),
    graph("Use both, out, in", file_path="Empty", direction="up"),
    graph("Leave the relation out", file_path="Empty", relation=["invested_in" * 500]),
    graph("Golf/index.md, Home/index.md", file_path="index"),
    topics(),
    topics("list_topics() without arguments", depth="1"),
    note(file_path="Home/Snapraid.md"),
    note(file_path="drive pool"),
    note(file_path="[[Snapraid#Parity|it]]"),
    note(file_path="obsidian://open?vault=vault&file=Home%2FSnapraid"),
    note(file_path="Home/Pool.md > Pool > Size, lines 7-9"),
    note(file_path="Home\\pool"),
    note(file_path="Empty"),
    note(file_path="Long/One line.md"),
    note(file_path="Long/One line.md", offset=LONG - 10),
    note(file_path="Long/Sections.md"),
    note(file_path="Long/Sections.md", offset=100_000),
    note(file_path="Long/Sections.md", heading="section 7"),
    note(file_path="Long/Japanese.md"),
    note(file_path="Long/Quotes.md"),
    note(file_path="Long/Controls.md"),
    note(file_path="Long/Emoji.md"),
    note(file_path="Long/Windows.md"),
    note(file_path="Long/Names.md"),
    note(file_path="Tasks", heading="B > Tasks"),
    note("A > Tasks (line 3", file_path="Tasks", heading="Tasks"),
    note("Nearest headings: Tasks", file_path="Tasks", heading="Taks"),
    note("has no headings", file_path="Long/One line", heading="Any"),
    note("may be any of", file_path="Long/Sections.md", heading="Section"),
    note(f"has {LONG} characters", file_path="Long/One line.md", offset=LONG + 1),
    note("Use the next_offset", file_path="Tasks", offset=-1),
    note("Nearest paths: Home/Snapraid.md", file_path="Home/Snapraids.md"),
    note("Golf/index.md, Home/index.md", file_path="index"),
    note("at most 4096", file_path="../" * 20_000),
    note("Look for it with a search", file_path="/etc/passwd"),
    note("file_path is missing", heading="Tasks"),
    AgentCall("tool", "delete_note", {"file_path": "Empty"}, "'delete_note'"),
    read("vault://status"),
    read("note://Home/Snapraid.md"),
    read("note://Odd/100%25%20%23%20of%20%5Bit%5D%3F%20yes%20%26%20%27no%27.md"),
    read("note://Odd/Gr%C3%B6%C3%9Fe%20%E2%80%93%20%E6%97%A5%E6%9C%AC.md"),
    read("note://Long/One%20line.md"),
    read("note://Home/Snapraids.md", "Nearest paths"),
    read("note://index", "Golf/index.md, Home/index.md"),
    read("note://..%2F..%2Fetc%2Fpasswd", "in the index"),
    read("vault://nothing", "There are vault://status and note://{path}"),
    AgentCall("prompt", "answer_from_notes", {"question": "How large is the pool?"}),
    AgentCall("prompt", "answer_from_notes", {}, 'question="what is to be answered"'),
    AgentCall("prompt", "nothing", {"question": "?"}, "There is answer_from_notes(question)"),
)


def find_faults(call: AgentCall, result: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with an answer (a result as it stands in JSON-RPC, an error as {"error": text})."""
    error = result.get("error")
    if result.get("isError"):
        error = "\n".join(block["text"] for block in result["content"])
    if error is not None:
        if call.error is None:
            yield f"an error: {error[:300]}"
        elif call.error not in error:
            yield f"an error that does not say {call.error!r}: {error[:300]}"
        if len(error) >= LONGEST_ERROR:
            yield f"an error of {len(error)} characters"
        if "Traceback" in error or "validation error" in error:
            yield f"an error in a library's words: {error[:300]}"
    elif call.error is not None:
        yield f"no error, but {str(result)[:300]}"
    elif call.kind == "tool":
        yield from _find_faults_of_answer(call, result, schemas[call.name])


def measure(result: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens of an answer's Markdown, and of its object."""
    texts = "\n".join(block["text"] for block in result.get("content", ()))
    structured = result.get("structuredContent")
    return estimate_tokens(texts), estimate_tokens(
        json.dumps(structured, ensure_ascii=False)
    ) if structured else 0


def _find_faults_of_answer(call: AgentCall, result: Mapping[str, Any], schema: Any) -> Iterator[str]:
    structured = result.get("structuredContent")
    faults = sorted(jsonschema.Draft202012Validator(schema).iter_errors(structured), key=str)
    yield from (f"not of its schema: {fault.message[:300]}" for fault in faults[:3])
    shown, held = measure(result)
    if shown > call.budget + SLACK:
        yield f"Markdown of {shown} tokens"
    if shown + held > MOST:
        yield f"{shown + held} tokens in all"
    if len(json.dumps(structured, ensure_ascii=False)) > LARGEST_NOTE:
        yield "an object longer than its tool says"
    if UNTRUSTED not in result["content"][-1]["text"]:
        yield "not marked as untrusted"
