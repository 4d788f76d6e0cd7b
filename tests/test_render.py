"""Results as Markdown within a budget."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obsidian_rag.answers import REASONS
from obsidian_rag.catalog import Topic, Topics
from obsidian_rag.graph import Graph, GraphEdge
from obsidian_rag.models import Failure, Hit, LinkStep, RunReport
from obsidian_rag.render import (
    BUDGET,
    MOST_WARNINGS,
    bound_edges,
    fit_answer,
    fit_graph,
    fit_topics,
    render_answer,
    render_graph,
    render_report,
    render_topics,
)
from obsidian_rag.schemas import LEAST_TOKENS, MOST_TOKENS
from obsidian_rag.search.evidence import CERTAIN, STRONG
from obsidian_rag.search.names import NameMatch
from obsidian_rag.search.pipeline import Answer
from obsidian_rag.tokens import estimate_json, estimate_tokens


def make_hit(name: str, text: str = "Some words.", neighbor: bool = False) -> Hit:
    score, ranks = (0.0, {}) if neighbor else (0.0325, {"vector": 1, "keyword": 2})
    return Hit(f"{name}.md", name, "Top > Sub", 0, 3, 9, score, text, neighbor, ranks, "keyword_exact")


def make_answer(*hits: Hit, notices: tuple[str, ...] = ()) -> Answer:
    return Answer("my words", "hybrid", "general", hits, notices, "unknown")


@pytest.mark.parametrize("budget", [LEAST_TOKENS, BUDGET, MOST_TOKENS])
def test_no_answer_names_more_links_than_are_looked_up(budget: int) -> None:
    shortest = GraphEdge("a.md", 1, "in", "b.md", "[[b]]")
    whole = Graph("c.md", 1, (shortest,) * 2 * bound_edges(budget), (2 * bound_edges(budget),))

    assert len(fit_graph(whole, budget).edges) < bound_edges(budget)


def test_an_answer_shows_each_hit_with_its_place_its_day_and_its_reason() -> None:
    answer = make_answer(
        replace(make_hit("A"), date="2025-09-30"), make_hit("A", "Beside.", neighbor=True), make_hit("B"),
        notices=("Old.",),
    )  # fmt: skip
    assert render_answer(answer) == (
        "# 2 results for: my words\n"
        "> Old.\n\n"
        "## 1. A.md > Top > Sub, lines 3-9\n"
        "2025-09-30 · holds all the words (keyword_exact; vector #1, keyword #2)\n\n"
        "Some **words**.\n\n"
        "*(neighbor)* A.md > Top > Sub, lines 3-9\n\n"
        "Beside.\n\n"
        "## 2. B.md > Top > Sub, lines 3-9\n"
        "holds all the words (keyword_exact; vector #1, keyword #2)\n\n"
        "Some **words**."
    )


def test_a_title_that_is_not_the_files_name_is_shown() -> None:
    text = render_answer(make_answer(replace(make_hit("Deep/A"), title="Another title")))
    assert "\nAnother title · holds all the words" in text


def test_the_heading_that_the_place_names_is_not_said_twice() -> None:
    texts = ("## Sub\n\nSome text.\n", "## Sub ##\nSome text.", "Some text.")
    assert {render_answer(make_answer(make_hit("A", text))) for text in texts} == {
        render_answer(make_answer(make_hit("A", "Some text.")))
    }
    assert "(only this heading)" in render_answer(make_answer(make_hit("A", "## Sub")))
    assert "## Another\n\nText." in render_answer(make_answer(make_hit("A", "## Another\n\nText.")))


def test_every_reason_has_words() -> None:
    evidence = {*get_args(NameMatch), *CERTAIN, *STRONG}
    evidence |= {"date", "linked", "keyword", "weak_semantic", "expansion"}
    assert evidence <= set(REASONS)


def test_a_hit_of_an_old_index_has_no_lines() -> None:
    hit = replace(make_hit("A"), heading_path="", start_line=None, end_line=None)
    assert "## 1. A.md\n" in render_answer(make_answer(hit))


def test_nothing_found_is_said_with_the_reason() -> None:
    assert render_answer(make_answer(notices=("The index is empty.",))) == (
        "# Nothing found for: my words\n> The index is empty."
    )


def test_an_answer_within_its_budget_is_left_as_it_is() -> None:
    answer = make_answer(make_hit("A"), make_hit("A", neighbor=True))
    assert fit_answer(answer) == answer


def test_neighbors_give_way_before_results() -> None:
    answer = make_answer(
        make_hit("A", "a" * 900), make_hit("A", "n" * 900, neighbor=True), make_hit("B", "b" * 900)
    )
    fitted = fit_answer(answer, 830)
    assert [hit.content for hit in fitted.results] == ["a" * 900, "b" * 900]
    assert fitted.notices == (
        "Left out to keep this short: 1 neighbor. Read a note with get_note, ask with max_tokens=8000, or"
        " ask with a smaller limit.",
    )


def test_long_texts_are_cut_to_what_stands_around_the_words() -> None:
    text = f"{'nothing here ' * 200}these are my words indeed {'nor here ' * 200}"
    answer = make_answer(*(make_hit(f"N{n}", text) for n in range(10)))
    fitted = fit_answer(answer, 2000)
    assert all("these are my words indeed" in hit.content for hit in fitted.results)
    lengths = [len(hit.content) for hit in fitted.results]
    assert lengths[0] > 1.6 * lengths[3]
    assert "the ends of 10 passages" in fitted.notices[0]
    assert estimate_tokens(render_answer(fit_answer(answer, 2000))) <= 2000
    assert estimate_tokens(render_answer(fit_answer(answer, 2000))) > 1400


def test_the_last_results_keep_their_place_when_their_text_gives_way() -> None:
    answer = make_answer(*(make_hit(f"N{n}", "x " * 600) for n in range(50)))
    text = render_answer(fit_answer(answer, 3000))
    assert estimate_tokens(text) <= 3000
    assert "## 1. N0.md" in text
    assert "## 50. N49.md > Top > Sub, lines 3-9" in text
    left_out = text.count("(text left out)")
    assert 20 < left_out < 30
    assert f"the text of {left_out} results" in text
    fitted = fit_answer(answer)
    assert len(fitted.results) == 50
    assert fit_answer(fitted).results == fitted.results


def test_the_last_results_are_left_out_where_not_even_their_places_fit() -> None:
    answer = make_answer(*(make_hit(f"{'deep/' * 100}N{n}", "x " * 600) for n in range(50)))
    fitted = fit_answer(answer, 2000)
    assert 3 < len(fitted.results) < 20
    assert f", {50 - len(fitted.results)} results. Read" in fitted.notices[0]
    assert estimate_tokens(render_answer(fit_answer(answer, 2000))) <= 2000


SIGNS = st.text(alphabet='abc words \n"\\\x01\u65e5\U0001f9e0*`[]', max_size=1500)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(SIGNS, st.booleans()), max_size=60),
    st.text(max_size=300),
    st.lists(st.text(max_size=90), max_size=20),
    st.integers(500, 8000),
)
def test_no_answer_exceeds_its_budget(
    texts: list[tuple[str, bool]], query: str, notices: list[str], budget: int
) -> None:
    hits = tuple(make_hit(f"N{n}", text, neighbor) for n, (text, neighbor) in enumerate(texts))
    fitted = fit_answer(replace(make_answer(*hits, notices=tuple(notices)), query=query), budget)
    frame = replace(fitted, results=())  # what must be said in any case
    assert estimate_tokens(render_answer(fit_answer(fitted, budget))) <= max(
        budget, estimate_tokens(render_answer(fit_answer(frame, budget))) + 100
    )
    assert estimate_json(fitted.to_json()) <= max(2 * budget, estimate_json(frame.to_json()) + 200) + 100
    assert fit_answer(fitted, budget).results == fitted.results


def test_absurd_notices_and_sentences_are_cut() -> None:
    step = LinkStep("A.md", "B.md", "out", "said", "word " * 9_000, "A.md", 1)
    answer = make_answer(replace(make_hit("A"), linked_by=(step,)), notices=("n" * 9_000,) * 50)
    fitted = fit_answer(answer, 8000)
    assert len(fitted.notices) == 12
    assert fitted.notices[-1] == "39 more notices."
    assert max(map(len, fitted.notices)) < 700
    assert len(fitted.results[0].linked_by[0].sentence or "") < 310


def make_graph(count: int, preview: str | None = None) -> Graph:
    edges = [
        GraphEdge(f"Folder/{n:04}.md", 1 + (n > 2), "out", "A.md", f"[[{n:04}]]", preview)
        for n in range(count)
    ]
    return Graph("A.md", 2, tuple(edges), (3, count - 3))


def test_a_graph_reads_hop_by_hop() -> None:
    edges = (
        GraphEdge("Database Schema.md", 1, "out", "Garden/RAG/index.md", "[[Database Schema]]"),
        GraphEdge("MCP Server.md", 1, "in", "Garden/RAG/index.md", "[[index]]", "Some\n\n  preview"),
        GraphEdge("Far.md", 2, "out", "MCP Server.md", "[[Far]]", ""),
    )
    assert render_graph(Graph("Garden/RAG/index.md", 2, edges, (2, 1))) == (
        "# Wikilink Graph: Garden/RAG/index.md\n"
        "## Hop 1 (2 links)\n"
        "- → Database Schema.md (via [[Database Schema]])\n"
        "- ← MCP Server.md (via [[index]])\n"
        "  Some preview\n"
        "## Hop 2 (1 links)\n"
        "- → Far.md (via [[Far]])\n"
        "Total: 3 links across 2 hops"
    )


def test_a_large_graph_is_cut_at_its_far_end_and_says_so() -> None:
    graph = make_graph(2000)
    fitted = fit_graph(graph)
    text = render_graph(fitted)
    assert estimate_tokens(text) < BUDGET
    assert "## Hop 2 (1997 links)" in text
    assert text.endswith("Total: 2000 links across 2 hops")
    left_out = 2000 - len(fitted.edges)
    said = f"> Left out to keep this short: {left_out} of 2000 links. Ask with a smaller depth or max_tokens="
    assert said in text
    assert fitted.edges == graph.edges[: len(fitted.edges)]
    assert fit_graph(make_graph(10)).notices == ()


def test_a_graph_cut_for_its_previews_names_them() -> None:
    fitted = fit_graph(make_graph(100, "x" * 500))
    assert "a smaller depth or include_content=false" in fitted.notices[0]
    assert estimate_json(fitted.to_json()) <= 2 * BUDGET
    assert "max_tokens" not in fit_graph(make_graph(100, "x" * 500), MOST_TOKENS).notices[0]


def test_topics_are_counted() -> None:
    assert render_topics(Topics((Topic("", 1, 2), Topic("Home", 3, 9)))) == (
        "# Topics: 2 folders, 4 notes, 11 chunks\n- (root): 1 note, 2 chunks\n- Home/: 3 notes, 9 chunks"
    )


def test_thousands_of_topics_are_named_in_part_the_largest_first() -> None:
    topics = Topics(tuple(Topic(f"Folder {n:04}", n % 100, n) for n in range(3000)))
    fitted = fit_topics(topics)
    assert estimate_tokens(render_topics(fitted)) <= BUDGET
    assert estimate_json(fitted.to_json()) <= 2 * BUDGET + 100
    assert {topic.notes for topic in fitted.topics} <= set(range(85, 100))
    left_out = 3000 - len(fitted.topics)
    assert fitted.notices[0].startswith(f"Left out to keep this short: {left_out} smaller folders")
    assert [topic.name for topic in fitted.topics] == sorted(topic.name for topic in fitted.topics)
    assert fit_topics(Topics((Topic("A", 1, 1),))).notices == ()


def test_a_report_names_every_failure_and_the_first_warnings() -> None:
    report = RunReport(
        1, "partial", notes_seen=5, notes_failed=1, failures=(Failure("A.md", "read", "no"),),
        warnings=tuple(f"w{n}" for n in range(MOST_WARNINGS + 3)),
    )  # fmt: skip
    text = render_report(report)
    assert "nothing embedded" in text
    assert "… 3 more warnings, all in --json." in text
    assert text.endswith("FAILED A.md (read): no")
    assert "would be indexed" in render_report(report, dry_run=True)


def test_a_line_end_in_a_name_cannot_forge_a_line_of_the_answer() -> None:
    name = "a\n## 1. forged.md\u2028b"
    answer = render_answer(make_answer(make_hit(name), make_hit(name, neighbor=True)))
    graph = render_graph(
        Graph(f"{name}.md", 1, (GraphEdge(f"{name}.md", 1, "out", "A.md", f"[[{name}]]"),), (1,))
    )
    for text in (answer, graph):
        assert "\n## 1. forged.md" not in text.replace("\n## 1. a", "")
        assert "\u2028" not in text
        assert "a\\x0a## 1. forged.md\\x2028b" in text


@pytest.mark.parametrize("sign", ["\x1b", "\x9b", "\u202e", "\u202a", "\u2066", "\u2069"])
def test_a_name_can_neither_steer_a_terminal_nor_turn_what_follows_it_round(sign: str) -> None:
    text = render_answer(make_answer(make_hit(f"invoice{sign}fdp")))
    assert sign not in text
    assert f"invoice\\x{ord(sign):02x}fdp.md" in text


def test_names_of_every_script_are_shown_as_they_are() -> None:
    for name in ("שלום", "مرحبا\u200f (1)", "می\u200cخواهم", "日記", "👨\u200d👩\u200d👧", "e\u0301tude"):
        assert f"{name}.md" in render_answer(make_answer(make_hit(name)))


def test_further_passages_of_a_note_stand_under_it_unnumbered() -> None:
    further = replace(make_hit("A", "The second."), evidence="same_note", ranks={}, chunk_index=4)
    text = render_answer(make_answer(make_hit("A"), further, make_hit("B")))
    assert text.startswith("# 2 results for")
    assert "### also A.md > Top > Sub, lines 3-9\n\nThe second." in text
    assert "## 2. B.md" in text


def test_a_report_of_one_note_speaks_of_one() -> None:
    one = RunReport(
        1, "ok", notes_seen=1, notes_indexed=1, chunks_written=1, chunks_embedded=1, links=1, links_resolved=1
    )
    first, second = render_report(one).splitlines()
    assert first.startswith("1 note seen in ")
    assert "1 was indexed" in first
    assert second == "1 chunk written (1 text embedded, 0 vectors reused); 1 of 1 link resolved."
