"""The page of `obsidian-rag web` in a browser: what a person types, reads and sees."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from conftest import Workbench
from test_picture import BROWSER
from web_site import Site, open_site

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

DRIVER = shutil.which("chromedriver")
pytest.importorskip("selenium", reason="selenium is not installed")
pytestmark = pytest.mark.skipif(
    BROWSER is None or DRIVER is None, reason="no chromium or no chromedriver on the PATH"
)
PATIENCE = 30  # seconds; nothing takes that long unless it never comes
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars"
)
HOSTILE = """# <img src=x onerror="window.pwned = 1">

<script>window.pwned = 1</script> [click](javascript:window.pwned=1) ![p](http://127.0.0.1:9/p.png)

| a | b |
|--:|:-:|
| </td><script>window.pwned = 1</script> | <iframe srcdoc="<script>parent.pwned=1</script>"> |
"""


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """A browser without windows, that asks no network."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER or ""
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


class Page:
    """The page in the browser."""

    def __init__(self, driver: Chrome, site: Site) -> None:
        self.driver = driver
        self.site = site
        self.driver.get_log("browser")  # of an earlier test

    def open(self, path: str = "/", width: int = 1400, dark: bool = False) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.get(self.site.url + path)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(f"return {script}", *arguments)

    def wait(self, script: str, *arguments: Any) -> Any:
        """What an expression gives once it is true."""
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, PATIENCE, 0.05).until(
            lambda _: self.run(script, *arguments), script
        )

    def see(self, selector: str) -> None:
        self.wait("document.querySelector(arguments[0]) !== null", selector)

    def press(self, *keys: str) -> None:
        """Press keys where the focus is."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def titles(self) -> list[str]:
        found: list[str] = self.run(
            "[...document.querySelectorAll('.result .title')].map((title) => title.textContent)"
        )
        return found

    def focused(self) -> str:
        return str(self.run("document.activeElement.id || document.activeElement.dataset.note"))

    def complaints(self) -> list[str]:
        """What the browser said on its console since the last test."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@pytest.fixture
def write(bench: Workbench) -> Callable[[dict[str, str]], None]:
    """Puts notes into the index."""

    def write(notes: dict[str, str]) -> None:
        for path, text in notes.items():
            bench.vault.write(path, text)
        bench.index()

    return write


@pytest.fixture
def page(bench: Workbench, write: Callable[[dict[str, str]], None], chrome: Chrome) -> Iterator[Page]:
    """A page over a few notes, one of them long and one that wants to be a script."""
    filler = "".join(f"Paragraph {number} of other things.\n\n" for number in range(60))
    write(
        {
            "Garden/Pump.md": f"# Pump\n\n{filler}## Winter\n\nThe pump freezes below zero.\n\n{filler}",
            "Shed.md": "# Shed\n\nThe shelf holds frost covers for the [[Pump]].\n",
            "Hostile.md": HOSTILE,
        }
    )
    with open_site(bench.settings) as site:
        yield Page(chrome, site)


def test_results_come_while_one_types_and_the_count_is_said(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    page.open()
    page.see("#start .topics")
    assert page.focused() == "q"
    page.press("pump freezes")
    page.see(".result mark")
    assert page.titles()[0] == "Pump"
    assert "for “pump freezes”" in page.run("document.querySelector('#count[aria-live=polite]').textContent")
    assert page.run("location.search") == "?q=pump+freezes"
    page.press(Keys.ENTER)  # opens the first
    page.wait("document.querySelector('#note h2')?.textContent === 'Pump'")
    assert page.complaints() == []


def test_keys_lead_to_the_passage_and_back(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    page.open("/?q=pump+freezes&mode=keyword")
    page.see(".result")
    page.run("document.activeElement.blur()")
    page.press("/")
    assert page.focused() == "q"
    page.press(Keys.ARROW_DOWN)
    assert page.focused() == "Garden/Pump.md"
    page.press(Keys.ARROW_DOWN)
    assert page.focused() == "Shed.md"
    page.press(Keys.ARROW_UP)
    page.press(Keys.ENTER)
    page.see("#passage")
    page.wait("document.activeElement.id === 'title'")
    top, bottom = page.run(
        "(({top, bottom}) => [top, bottom])(document.getElementById('passage').getBoundingClientRect())"
    )
    assert 0 < top < bottom < 800
    assert page.run("document.querySelector('#note .passage mark') !== null")
    page.press(Keys.ESCAPE)
    page.wait("document.getElementById('note').hidden")
    assert page.focused() == "Garden/Pump.md"
    page.press(Keys.ESCAPE)
    assert page.focused() == "q"
    page.press(Keys.ESCAPE)
    page.see("#start .topics")
    assert page.complaints() == []


def test_back_and_forward_go_through_what_was_read(page: Page) -> None:
    page.open("/?q=frost+covers&mode=keyword")
    page.see(".result")
    page.run("document.querySelector('.result .open').click()")
    page.wait("document.querySelector('#note h2')?.textContent === 'Shed'")
    page.run("document.querySelector('#note .note-link').click()")
    page.wait("document.querySelector('#note h2')?.textContent === 'Pump'")
    page.driver.back()
    page.wait("document.querySelector('#note h2')?.textContent === 'Shed'")
    page.driver.back()
    page.wait("document.getElementById('note').hidden")
    assert page.titles() == ["Shed"]
    page.driver.forward()
    page.wait("document.querySelector('#note h2')?.textContent === 'Shed'")
    assert page.complaints() == []


def test_an_answer_that_comes_late_does_not_replace_a_newer_one(page: Page) -> None:
    page.open()
    page.see("#start .topics")
    # The first question is held back, and not given up, until the second has its answer.
    page.driver.execute_script(
        "const ask = window.fetch; const held = new Promise((done) => { window.letGo = done; });"
        "window.fetch = async (url) => { if (!url.includes('pump')) return ask(url); window.holds = true;"
        " await held; const answer = await ask(url); window.came = true; return answer; };"
    )
    page.press("pump")
    page.wait("window.holds")
    page.run("document.getElementById('q').select()")
    page.press("shelf")
    page.wait("document.getElementById('count').textContent.includes('shelf')")
    page.driver.execute_script("window.letGo()")
    page.wait("window.came")
    page.wait("new Promise((done) => setTimeout(done, 0)).then(() => true)")
    assert "shelf" in page.run("document.getElementById('count').textContent")
    assert page.titles()[0] == "Shed"


def test_a_hostile_note_is_text(page: Page) -> None:
    page.open("/?q=pwned&note=Hostile.md&first=1&last=9")
    page.see("#note table")
    page.see(".result")
    assert page.run("window.pwned") is None
    assert (
        page.run(
            "document.querySelectorAll('#note .text :is(script, img, iframe, [style], [onerror])').length"
        )
        == 0
    )
    assert "<script>window.pwned = 1</script>" in page.run(
        "document.querySelector('#note .text').textContent"
    )
    assert page.complaints() == []


def test_the_picture_of_the_links_leads_to_their_notes(page: Page) -> None:
    page.open("/?note=Shed.md&view=links")
    page.see("#note iframe")
    page.see("#note .links [data-note='Garden/Pump.md']")
    page.driver.switch_to.frame(page.driver.find_element("css selector", "#note iframe"))
    page.wait("document.querySelectorAll('.note').length === 2")
    for kind in ("pointerdown", "pointerup"):
        page.driver.execute_script(
            "const [, other] = document.querySelectorAll('.note');"
            "other.dispatchEvent(new PointerEvent(arguments[0], {bubbles: true}))",
            kind,
        )
    page.driver.find_element("xpath", "//button[text()='Read the note']").click()
    page.driver.switch_to.default_content()
    page.wait("document.querySelector('#note h2')?.textContent === 'Pump'")
    assert page.run("new URLSearchParams(location.search).get('note')") == "Garden/Pump.md"
    assert page.complaints() == []


@pytest.mark.parametrize("dark", [False, True])
def test_a_narrow_page_has_nothing_that_goes_beyond_its_edge(page: Page, dark: bool) -> None:
    for path, selector in (
        ("/", "#start .status"),
        ("/?q=pump&folder=Garden", ".result"),
        ("/?q=pump&note=Garden%2FPump.md", "#note .text p"),
        ("/?note=Hostile.md", "#note table"),
        ("/?note=Shed.md&view=links", "#note .links li"),
        ("/?note=Shid.md", ".failure"),
    ):
        page.open(path, width=400, dark=dark)
        page.see(selector)
        beyond = page.run(
            "[document.documentElement, ...document.querySelectorAll('header, #list, #note')]"
            ".filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.id || box.tagName)"
        )
        assert beyond == [], path
    back = page.run("getComputedStyle(document.body).backgroundColor")
    assert back == ("rgb(23, 22, 28)" if dark else "rgb(251, 250, 248)")


def test_what_fails_is_said_in_the_page_with_its_mend(page: Page, bench: Workbench) -> None:
    page.open("/?note=Shid.md")
    page.see(".failure[role=alert]")
    assert "No note 'Shid.md' in the index." in page.run("document.querySelector('.failure').textContent")
    page.run("document.querySelector('.failure a').click()")
    page.wait("document.querySelector('#note h2')?.textContent === 'Shed'")
    bench.ollama.stop()
    page.open("/?q=pump")
    page.see(".result")
    assert "without the embedder" in page.run("document.querySelector('.notices').textContent")
    page.driver.execute_script("window.fetch = () => Promise.reject(new TypeError('down'));")
    page.press(" again")
    page.see(".failure")
    assert "Start it again: obsidian-rag web" in page.run("document.querySelector('.failure').textContent")
    assert page.titles() == []


def test_topics_list_their_notes_and_filters_show_in_the_address(page: Page) -> None:
    page.open()
    page.see("#start .topics a")
    page.run("document.querySelector('#start .topics a').click()")
    page.see(".result")
    assert page.titles() == ["Pump"]
    assert page.run("location.search") == "?folder=Garden"
    assert page.run("document.getElementById('filters').hidden") is False
    page.run("document.getElementById('clear').click()")
    page.see("#start .topics")
    assert page.run("location.search") == ""
