"""Links are resolved again exactly where a name they may mean has changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conftest import VaultFolder, Workbench

from obsidian_rag import linking


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A word for each time that all links are resolved."""
    times: list[str] = []
    resolve = linking._resolve_all

    def watched(*arguments: object) -> tuple[int, int]:
        times.append("all")
        return resolve(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(linking, "_resolve_all", watched)
    return times


@pytest.fixture
def linked(bench: Workbench, resolved: list[str]) -> Workbench:
    vault = bench.vault
    vault.write("A.md", "[[B]] and [[Missing]] and ![[picture.png]] and [[Ann]]\n")
    vault.write("B.md", "Text.\n")
    vault.write("People/Ann Lee.md", "---\naliases: [Ann]\n---\nText.\n")
    bench.index()
    resolved.clear()
    return bench


def leads(bench: Workbench) -> dict[str, str | None]:
    return dict(bench.rows("SELECT target_name, target_path FROM note_links WHERE source_path = 'A.md'"))


QUIET: dict[str, Callable[[VaultFolder], object]] = {
    "nothing": lambda vault: None,
    "the text of a note": lambda vault: vault.write("B.md", "Other text with [[Missing]].\n"),
    "the text of the note that links": lambda vault: vault.write("A.md", "[[B]] [[Ann]] [[Missing]]\n"),
    "a note that keeps its alias": lambda vault: vault.write(
        "People/Ann Lee.md", "---\naliases: [Ann]\n---\nOther.\n"
    ),
}
LOUD: dict[str, tuple[Callable[[VaultFolder], object], dict[str, str | None]]] = {
    "a note appears": (lambda vault: vault.write("Sub/Missing.md", "x\n"), {"Missing": "Sub/Missing.md"}),
    "a note goes": (lambda vault: vault.delete("B.md"), {"B": None}),
    "a note moves": (lambda vault: vault.move("B.md", "Sub/B.md"), {"B": "Sub/B.md"}),
    "an alias appears": (
        lambda vault: vault.write("B.md", "---\naliases: [Missing]\n---\n"),
        {"Missing": "B.md"},
    ),
    "an alias goes": (lambda vault: vault.write("People/Ann Lee.md", "Text.\n"), {"Ann": None}),
    "a picture appears": (
        lambda vault: vault.write("img/picture.png", b"\x89PNG"),
        {"picture.png": "img/picture.png"},
    ),
}


@pytest.mark.parametrize("change", QUIET)
def test_where_no_name_changed_no_other_link_is_looked_at(
    linked: Workbench, resolved: list[str], change: str, new_bench: Callable[[VaultFolder], Workbench]
) -> None:
    QUIET[change](linked.vault)
    report = linked.index()
    assert resolved == []
    fresh = new_bench(linked.vault)
    expected = fresh.index()
    assert (report.links, report.links_resolved) == (expected.links, expected.links_resolved)
    assert linked.tables() == fresh.tables()


@pytest.mark.parametrize("change", LOUD)
def test_where_a_name_changed_every_link_that_means_it_follows(
    linked: Workbench, resolved: list[str], change: str, new_bench: Callable[[VaultFolder], Workbench]
) -> None:
    act, expected = LOUD[change]
    act(linked.vault)
    linked.index()
    assert resolved == ["all"]
    assert leads(linked).items() >= expected.items()
    fresh = new_bench(linked.vault)
    fresh.index()
    assert linked.tables() == fresh.tables()


def test_names_that_links_give_are_looked_at_again_only_where_a_link_changed(
    linked: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[str] = []
    refresh = linking.refresh_link_names
    monkeypatch.setattr(linking, "refresh_link_names", lambda conn: (times.append("names"), refresh(conn)))
    linked.vault.write("A.md", "Other text: [[B]] and [[Missing]] and ![[picture.png]] and [[Ann]]\n")
    linked.index()
    assert times == []
    linked.vault.write("A.md", "[[B|the letter]] and [[Missing]] and ![[picture.png]] and [[Ann]]\n")
    linked.index()
    assert times == ["names"]
    assert ("the letter", "B.md") in linked.rows("SELECT text, node FROM link_names")


def test_a_link_that_stands_less_often_gives_its_name_less_often(
    linked: Workbench, new_bench: Callable[[VaultFolder], Workbench]
) -> None:
    linked.vault.write("A.md", "[[B#x]] and [[B#y]] and [[Ann]]\n")
    linked.index()
    linked.vault.write("A.md", "[[B#x]] and [[Ann]]\n")
    linked.index()
    fresh = new_bench(linked.vault)
    fresh.index()
    assert linked.tables() == fresh.tables()


def test_a_run_that_ends_before_the_links_are_resolved_is_made_up_for_by_the_next(
    linked: Workbench, resolved: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    linked.vault.write("B.md", "---\naliases: [Missing]\n---\nNow.\n")
    with monkeypatch.context() as patch:
        patch.setattr("obsidian_rag.indexing.finish_links", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            linked.index()
    linked.index()
    assert resolved == ["all"]
    assert leads(linked)["Missing"] == "B.md"


def test_links_that_somebody_made_unknown_are_resolved_by_a_plain_run(
    linked: Workbench, resolved: list[str]
) -> None:
    before = linked.tables()
    linked.execute("UPDATE note_links SET target_type = NULL, target_path = NULL")
    linked.index()
    assert linked.tables() == before
