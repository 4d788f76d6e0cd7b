"""The page of `obsidian-rag web` over HTTP: who may ask, what it tells, how it fails."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from importlib import resources
from typing import Any, LiteralString

import httpx
import pytest
from conftest import Workbench, make_url
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from test_picture import contrast
from web_site import Site, open_site, serving

from obsidian_rag.errors import FIRST_RUN, SettingsError
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.web import serve_web
from obsidian_rag.web.app import AT_ONCE, Desk
from obsidian_rag.web.server import listen

HOSTILE = """---
title: "</script><script>alert(1)</script>"
---
# <img src=x onerror=alert(1)>

<script>alert("stored")</script>

[click](javascript:alert(1)) [data](data:text/html,<script>alert(1)</script>) [file](file:///etc/passwd)
![pixel](http://tracker.example/p.png) [scheme](//evil.example) <javascript:alert(1)> [ok](https://example.org/?a=1&b="2")
[entity](java&#115;cript:alert(1)) [upper](JaVaScRiPt:alert(1)) [tab](java\tscript:alert(1))

| a | b |
|:--|--:|
| "><svg onload=alert(1)> | `</code><script>` |

```js
</code></pre><script>alert(2)</script>
```

[[other|"><b onmouseover=alert(1)>]] $x<script>$ \u202egpj.exe ك مرحبا
"""


@pytest.fixture
def site(bench: Workbench) -> Iterator[Site]:
    """A page over a few notes."""
    bench.vault.write(
        "Garden/Pump.md",
        "---\ntags: [garden/water]\naliases: [The pump]\nstatus: done\n---\n# Pump\n\nIntro.\n\n## Winter\n\n"
        "The pump freezes below zero.\n\n- drain the pump\n- see [[Shed#Shelf|the shed]] and [[Nowhere]]\n",
    )
    bench.vault.write("Shed.md", "# Shed\n\nThe shelf holds frost covers. See [pump](Garden/Pump.md).\n")
    bench.vault.write("Garden/2024-05-01.md", "# Day\n\nPlanted beans.\n")
    bench.index()
    with open_site(bench.settings) as running:
        yield running


# Who may ask


def test_every_answer_comes_with_a_policy_that_runs_the_page_s_own_files_alone(site: Site) -> None:
    for path in ("/", "/static/page.js", "/static/none.js", "/api/status", "/none"):
        headers = site.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';"), path
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"


STRANGERS = (
    "evil.example",
    "evil.example:8722",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "localhost@evil.example",
    "0.0.0.0",
    "",
)


def test_a_name_that_a_stranger_had_resolved_to_this_machine_is_refused(site: Site) -> None:
    for host in STRANGERS:
        for path in ("/", "/api/search?q=pump"):
            answer = site.client.get(path, headers={"Host": host})
            assert answer.status_code in (400, 421), host  # 400 of the HTTP library, for what is no host
            assert "pump" not in answer.text.lower()
    for host in ("localhost", "LOCALHOST:9000", "127.0.0.1:1"):  # of any port: it may be forwarded
        assert site.client.get("/api/status", headers={"Host": host}).status_code == 200


def test_nothing_but_reading_is_answered(site: Site) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        for path in ("/", "/api/note?path=Shed.md", "/picture?path=Shed.md"):
            answer = site.client.request(method, path, headers={"Origin": "http://evil.example"})
            assert answer.status_code == 405, method
            assert not [name for name in answer.headers if name.startswith("access-control")]


def test_another_site_s_page_may_link_here_but_not_ask(site: Site) -> None:
    for origin in ("cross-site", "same-site"):
        asked = {"Sec-Fetch-Site": origin, "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
        assert site.client.get("/api/search?q=pump", headers=asked).status_code == 403
        framed = {"Sec-Fetch-Site": origin, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
        assert site.client.get("/picture?path=Shed.md", headers=framed).status_code == 403
        visited = {"Sec-Fetch-Site": origin, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        assert site.client.get("/?q=pump", headers=visited).status_code == 200


def test_only_this_machine_can_connect() -> None:
    with listen(0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"


def test_no_file_beside_the_page_s_own_is_served(site: Site) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd"):
        with socket.create_connection(("127.0.0.1", site.port)) as raw:  # as it is written
            raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            with raw.makefile("rb") as answer:
                assert answer.readline().split()[1] == b"404", path


def test_the_page_needs_no_network_and_has_no_script_or_style_of_its_own() -> None:
    folder = resources.files("obsidian_rag.web").joinpath("static")
    files = {file.name: file.read_text("utf-8") for file in folder.iterdir()}
    assert {"index.html", "page.js", "page.css"} <= set(files)
    for name, text in files.items():
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), name
        assert len(text.splitlines()) < 400, name
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?! type=\"module\" src=)", files["index.html"])


def test_the_page_s_colours_can_be_read_in_light_and_dark() -> None:
    css = resources.files("obsidian_rag.web").joinpath("static", "page.css").read_text("utf-8")
    schemes = [
        dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in css.split("prefers-color-scheme")[:2]
    ]
    assert all(len(scheme) > 12 for scheme in schemes)
    for colours in schemes:
        for text in ("text", "faint", "accent"):
            for back in ("back", "card", "soft"):
                assert contrast(colours[text], colours[back]) >= 4.5, (text, back)
        pairs = (("mark-text", "mark"), ("bad", "bad-back"), ("text", "note-back"), ("unwell", "card"))
        for text, back in pairs:
            assert contrast(colours[text], colours[back]) >= 4.5, (text, back)
        assert contrast(colours["edge"], colours["card"]) >= 3  # of what is written into


# What it tells


def test_a_search_tells_where_why_and_what_is_marked(site: Site) -> None:
    answer = site.ask("search", q="pump freezes", mode="keyword")
    assert set(answer) == {"query", "mode", "intent", "notices", "results", "seconds"}
    first = answer["results"][0]
    assert (first["path"], first["folder"]) == ("Garden/Pump.md", "Garden")
    assert first["title"] == [["Pump", True]]
    assert first["why"] == "holds all the words"
    assert first["ranks"]["keyword"] == 1
    assert first["url"] == "obsidian://open?vault=vault&file=Garden%2FPump.md"
    passage = first["passages"][0]
    assert (passage["first"], passage["last"]) == (10, 15)
    marked = [text for text, is_marked in passage["text"] if is_marked]
    assert marked[:2] == ["pump", "freezes"]
    assert "".join(text for text, _ in passage["text"]).startswith("The pump freezes below zero.")


def test_filters_leave_what_they_say(site: Site) -> None:
    def found(**filters: str) -> list[str]:
        answer = site.ask("search", q="pump shed beans", mode="keyword", **filters)
        return sorted(result["path"] for result in answer["results"])

    assert found() == ["Garden/2024-05-01.md", "Garden/Pump.md", "Shed.md"]
    assert found(folder="Garden") == ["Garden/2024-05-01.md", "Garden/Pump.md"]
    assert found(tag="garden, garden/water") == ["Garden/Pump.md"]
    assert found(after="2024-04-30", before="2024-05-01") == ["Garden/2024-05-01.md"]


def test_without_words_the_notes_of_a_folder_are_listed_newest_first(site: Site) -> None:
    listed = site.ask("notes", folder="Garden")
    assert listed["total"] == 2
    assert [note["path"] for note in listed["notes"]] == ["Garden/Pump.md", "Garden/2024-05-01.md"]
    assert listed["notes"][1]["date"] == "2024-05-01"


def test_a_note_comes_with_its_passage_marked_and_its_links_resolved(site: Site) -> None:
    note = site.ask("note", path="Garden/Pump.md", first=10, last=12, q="freezes")
    assert note["properties"]["status"] == "done"
    assert note["tags"] == ["garden/water"]
    assert (note["first"], note["last"], note["lines"]) == (6, 16, 16)
    assert '<h2 class="passage" id="passage">Winter</h2>' in note["html"]
    assert '<p class="passage">The pump <mark>freezes</mark> below zero.</p>' in note["html"]
    assert "<ul>" in note["html"]
    assert '<a class="note-link" href="/?note=Shed.md" data-note="Shed.md">the shed</a>' in note["html"]
    assert re.search(r'<span class="nowhere"[^>]*>Nowhere</span>', note["html"])
    assert 'data-note="Garden/Pump.md">pump</a>' in site.ask("note", path="shed")["html"]


def test_the_links_of_a_note_come_as_words_and_as_a_picture(site: Site) -> None:
    links = site.ask("links", path="Shed.md")
    assert links["total"] == 1
    assert links["links"][0]["path"] == "Garden/Pump.md"
    picture = site.get("/picture", path="Shed.md")
    assert picture.status_code == 200
    assert picture.text.count('<g class="note') == 2
    policy = picture.headers["content-security-policy"]
    assert "frame-ancestors 'self'" in policy
    assert "unsafe" not in policy
    # Where both the header and the page say what may run, only what both allow does.
    named = re.search(r'Policy" content="([^"]*)"', picture.text)
    assert named is not None
    assert policy.startswith(named[1].replace("&#x27;", "'"))


def test_topics_and_filters_to_choose_from_are_told(site: Site) -> None:
    told = site.ask("topics")
    assert [(topic["name"], topic["notes"]) for topic in told["topics"]] == [("", 1), ("Garden", 2)]
    assert told["folders"] == ["Garden"]
    assert told["tags"] == ["garden/water"]


def test_the_status_tells_how_fresh_the_index_is(site: Site, bench: Workbench) -> None:
    assert site.ask("status")["notices"] == []
    assert site.ask("status")["notes"] == 3
    bench.execute("UPDATE index_runs SET finished_at = now() - interval '9 days'")
    told = site.ask("status")
    assert told["age_seconds"] >= 9 * 86400
    assert told["notices"] == ["The index is 9 days old. Run: obsidian-rag index"]
    assert told["notices"][0] in site.ask("search", q="pump")["notices"]


# Hostile notes


class Elements(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


# What the page makes of Markdown.
OURS = re.compile("h[1-6]|p|em|strong|s|ul|ol|li|code|pre|table|thead|tbody|tr|th|td|a|span|br|mark")
ATTRIBUTES = re.compile("class|id|href|data-note|target|rel|title|tabindex|start")


def test_nothing_of_a_note_becomes_markup_a_script_or_a_request(bench: Workbench) -> None:
    bench.vault.write("hostile.md", HOSTILE)
    bench.vault.write("other.md", "# Other\n")
    bench.index()
    with open_site(bench.settings) as site:
        page = Elements(site.ask("note", path="hostile.md", first=1, last=40, q="alert script")["html"])
        assert [tag for tag, _ in page.found if not OURS.fullmatch(tag)] == []
        names = {name for _, attributes in page.found for name in attributes}
        assert [name for name in names if not ATTRIBUTES.fullmatch(name)] == []
        links = [attributes["href"] for _, attributes in page.found if "href" in attributes]
        assert links == ["https://example.org/?a=1&b=%222%22", "/?note=other.md"]
        assert '<script>alert("stored")</script>' in page.text
        assert "</code></pre><script>alert(2)</script>" in page.text
        assert "javascript:alert(1)" in page.text
        for path in ("/api/note?path=hostile.md", "/api/search?q=alert&mode=keyword"):
            assert site.get(path).headers["content-type"] == "application/json"
        picture = Elements(site.get("/picture", path="hostile.md").text)
        assert not [a for _, attributes in picture.found for a in attributes if a.startswith("on")]
        assert [tag for tag, _ in picture.found].count("script") == 2


def test_a_huge_note_is_shown_in_parts(bench: Workbench) -> None:
    fill = "Water under the bridge. " * 8
    lines = [
        f"Line {number} of a long note, with words enough to fill it. {fill}" for number in range(1, 1_001)
    ]
    bench.vault.write("huge.md", "\n\n".join(lines))
    bench.index()
    with open_site(bench.settings) as site:
        answer = site.get("/api/note", path="huge.md", first=1_001, last=1_001)
        note = answer.json()
        assert len(answer.content) < 200_000
        assert '<p class="passage" id="passage">Line 501 of' in note["html"]
        assert note["earlier"]
        assert note["later"]
        following = site.ask("note", path="huge.md", at=note["last"] + 1)
        assert following["first"] <= note["last"] + 1 <= following["last"]


# Errors


UNASKABLE = (
    ("search?q=", 400, "The query is empty", "Write some words to look for."),
    ("search?q=x&mode=fuzzy", 400, "mode is 'fuzzy'", "Use one of hybrid, vector, keyword."),
    (
        "search?q=x&after=yesterday",
        400,
        "after is 'yesterday'",
        "Write a day as year-month-day: 2025-09-30.",
    ),
    ("search?q=x&limit=many", 400, "limit is 'many'", "Use a whole number."),
    ("note?path=Shid.md", 404, "No note 'Shid.md' in the index", "Nearest paths: Shed.md"),
    ("note?path=", 400, "file_path is empty", "Name a note by its path, as a search result gives it."),
    ("note?path=Shed.md&first=-1", 400, "first is '-1'", "Use a whole number."),
    ("links?path=Shed.md&depth=9", 400, "depth is 9", "Use a number from 1 to 3."),
)


def test_what_cannot_be_asked_is_said_with_what_to_ask(site: Site) -> None:
    for question, status, message, mend in UNASKABLE:
        answer = site.get(f"/api/{question}")
        told = answer.json()["error"]
        assert (answer.status_code, told["message"], told["mend"]) == (status, message, mend)


def test_the_picture_of_an_unknown_note_says_so_as_text(site: Site) -> None:
    answer = site.get("/picture", path="<script>alert(1)</script>.md")
    assert answer.status_code == 404
    assert "&lt;script&gt;" in answer.text
    assert "<script" not in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none';")


def test_without_the_embedder_words_answer_and_the_mend_is_told(site: Site, bench: Workbench) -> None:
    bench.ollama.stop()
    answer = site.ask("search", q="pump")
    assert answer["results"][0]["path"] == "Garden/Pump.md"
    assert "without the embedder" in answer["notices"][0]
    status, message, mend = site.error("search", q="pump", mode="vector")
    assert status == 503
    assert bench.ollama.url.removeprefix("http://") in message
    assert mend


def test_an_empty_index_is_said_with_its_mend(bench: Workbench) -> None:
    empty = f"The index is empty. {FIRST_RUN}"
    with open_site(bench.settings) as site:
        assert site.ask("status")["notices"] == [empty]
        assert site.ask("topics")["topics"] == []
        notices = site.ask("search", q="pump", mode="keyword")["notices"]
        assert empty in notices


def test_a_database_that_is_down_is_said_without_its_password(bench: Workbench) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        url = make_url(bench.database_url, host="127.0.0.1", port=str(port), password="hidden-word")
        with open_site(replace(bench.settings, database_url=url)) as site:
            for name, question in (("search", {"q": "pump"}), ("status", {}), ("note", {"path": "Shed.md"})):
                status, message, mend = site.error(name, **question)
                assert status == 503
                assert "cannot be reached" in message
                assert mend == "Start PostgreSQL there, or correct host and port in DATABASE_URL."
                assert "hidden-word" not in message
            assert "Start PostgreSQL" in site.get("/picture", path="Shed.md").text


def test_a_fault_of_the_program_is_said_without_a_password(bench: Workbench) -> None:
    url = make_url(bench.database_url, password="hidden-word")
    said: list[str] = []
    desk = Desk(IndexReader(replace(bench.settings, database_url=url), print), said.append)

    def fail(reader: Any, parameters: Any) -> Any:
        raise RuntimeError(f"broken at {url}")

    listening = listen(0)
    app = Starlette(routes=[Route("/api/fail", partial(desk.answer_json, fail))])
    with serving(app, Site(listening.getsockname()[1]), listening) as site:
        status, message, _ = site.error("fail")
    assert status == 500
    assert "its own fault: RuntimeError: broken at" in message
    assert "hidden-word" not in message + "".join(said)
    assert "Traceback" in said[0]


def test_questions_that_nobody_waits_for_are_not_answered(bench: Workbench) -> None:
    gate = threading.Event()
    begun = threading.Semaphore(0)
    asked: list[str] = []

    def answer(reader: Any, parameters: Any) -> str:
        asked.append(parameters["n"])
        begun.release()
        gate.wait(30)
        return "done"

    desk = Desk(IndexReader(bench.settings, print), print)
    listening = listen(0)
    app = Starlette(routes=[Route("/slow", partial(desk.answer_json, answer))])
    arrived = threading.Semaphore(0)

    async def count(scope: Scope, receive: Receive, send: Send) -> None:
        arrived.release()
        await app(scope, receive, send)

    with serving(count, Site(listening.getsockname()[1]), listening) as site:
        threads = [
            threading.Thread(target=site.get, args=("/slow",), kwargs={"n": n}) for n in range(AT_ONCE)
        ]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert begun.acquire(timeout=30)
        gone = socket.create_connection(("127.0.0.1", site.port))
        gone.sendall(b"GET /slow?n=gone HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for _ in range(AT_ONCE + 1):
            assert arrived.acquire(timeout=30)
        gone.close()
        site.get("/none")  # the server has seen the connection end when it answers a later one
        gate.set()
        for thread in threads:
            thread.join()
        assert site.get("/slow", n="last").json() == "done"
    assert sorted(asked) == sorted([*map(str, range(AT_ONCE)), "last"])


# The program


def test_a_port_that_is_taken_is_said_with_the_mend(bench: Workbench) -> None:
    with listen(0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"Port {port} of 127.0.0.1 is taken.*--port 0"):
            serve_web(bench.settings, port=port, open_browser=False)
    with pytest.raises(SettingsError, match="The port is 70000"):
        serve_web(bench.settings, port=70000, open_browser=False)


@pytest.mark.parametrize("harm", [None, "DROP SCHEMA public CASCADE; CREATE SCHEMA public"])
def test_without_an_index_the_terminal_says_so_with_the_mend_and_the_page_is_served(
    bench: Workbench, harm: LiteralString | None
) -> None:
    if harm:
        bench.execute(harm)
    with serve_alone(bench) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        url = program.stdout.readline().split()[0]
        said = program.stderr.readline()
        assert "holds no index yet" in said if harm else "The index is empty" in said
        assert "obsidian-rag init" in said
        assert httpx.get(url, timeout=60, trust_env=False).status_code == 200


@contextmanager
def serve_alone(bench: Workbench) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, which is ended."""
    program = subprocess.Popen(
        [sys.executable, "-m", "obsidian_rag", "web", "--port", "0", "--no-open"],
        env=bench.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield program
    finally:
        program.kill()
        program.communicate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_program_in_order(bench: Workbench, number: int, code: int) -> None:
    bench.vault.write("Pump.md", "The pump.")
    bench.index()
    with serve_alone(bench) as program:
        assert program.stdout is not None
        url = program.stdout.readline().split()[0]
        answer = httpx.get(f"{url}api/search?q=pump", timeout=60, trust_env=False)
        assert answer.json()["results"][0]["path"] == "Pump.md"
        program.send_signal(number)
        _, errors = program.communicate(timeout=60)
    assert (program.returncode, errors) == (code, "")
