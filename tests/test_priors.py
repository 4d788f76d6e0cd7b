"""Priors: folders that are favoured or put back, archives, links between near ties; and hidden notes."""

from __future__ import annotations

import asyncio
import json
import shlex
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from fastmcp import Client
from hypothesis import given
from hypothesis import strategies as st
from search_bench import SearchBench, open_search_bench

from obsidian_rag.catalog import load_note
from obsidian_rag.cli import cli
from obsidian_rag.config import Settings, join_list, load_settings
from obsidian_rag.demo import connect_line
from obsidian_rag.diagnose import diagnose_target
from obsidian_rag.diagnosis import Diagnosis, render_diagnosis
from obsidian_rag.embedding.cross_encoder import CrossEncoder
from obsidian_rag.errors import QueryError, SettingsError
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.mcp_tools import make_server
from obsidian_rag.search.expansion import Expansion, fuse_variants
from obsidian_rag.search.filters import Hidden, count_hidden, find_allowed, find_exclude
from obsidian_rag.search.fusion import Fused, fuse
from obsidian_rag.search.links import LinkHit, LinkResult
from obsidian_rag.search.pipeline import search
from obsidian_rag.search.priors import Prior, count_inbound, find_idle, find_prior, grade, weigh_list
from obsidian_rag.search.query import Filters, Request, make_filters, make_request
from obsidian_rag.search.rerank import rerank

WARM = "Warm water runs through the floor.\n"
NOTES = {
    "Archive/a": WARM,
    "Projects/b": WARM,
    "Projects/strong": "Warm water, warm floor, warm water in the floor.\n",
    "Journal/weak": "The floor was swept, then the garden, the shed and the whole of the long cellar.\n",
    "Old stuff/_archive/Boiler": "---\naliases: [kettle room]\n---\nNothing on the subject.\n",
    "Work/Boiler notes": "Boiler boiler boiler. Kettle room and boiler, kettle room and boiler.\n",
    "Archive/Plan": "A plan of old, with old steps, and old dates to keep.\n",
    "Work/Plan": "A plan.\n",
    "Archive/2024-03-05": "Painted the fence green.\n",
    "Work/2024-03-07": "Painted the gate grey, on a day with other work as well.\n",
    "Ties/one": "Sundial made of slate.\n",
    "Ties/two": "Sundial made of slate.\n",
    "Ties/best": "Sundial, sundial made of slate, sundial.\n",
    "Ties/self": "[[self]] and [[self|again]], and ![[photo.png]].\n",
    **{f"Hub/h{n:02}": f"See [[two]] and again [[two|it]], and [[Nowhere]]. Page {n}.\n" for n in range(40)},
    "Templates/zinnia": "Zinnia seeds, one row.\n",
    "private/diary.md/zinnia": "Zinnia by the wall.\n",
    "Garden/zinnia": "Zinnia in the bed.\n",
    "Garden/zinnia.draft": "Zinnia to be written.\n",
}
ALL_ZINNIAS = {"Garden/zinnia", "Garden/zinnia.draft", "Templates/zinnia", "private/diary.md/zinnia"}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, server: str, migrated: str) -> Iterator[SearchBench]:
    folder = tmp_path_factory.mktemp("priors")
    with open_search_bench(folder, server, migrated, NOTES, fts_config="english") as bench:
        yield bench


@contextmanager
def under(index: SearchBench, **settings: Any) -> Iterator[SearchBench]:
    """The same index under other settings of search."""
    reader = IndexReader(replace(index.bench.settings, **settings), lambda text: None)
    try:
        yield replace(index, reader=reader)
    finally:
        reader.close()


def ask(index: SearchBench, query: str, mode: str = "hybrid", limit: int = 10, **others: Any) -> list[str]:
    return [path for path, _ in ask_with_scores(index, query, mode, limit, **others)]


def ask_with_scores(
    index: SearchBench, query: str, mode: str = "hybrid", limit: int = 10, **others: Any
) -> list[tuple[str, float]]:
    request = make_request(query, mode, limit, without=frozenset({"neighbors"}), **others)
    return [(hit.file_path.removesuffix(".md"), hit.score) for hit in search(index.reader, request).results]


def notices(index: SearchBench, query: str, mode: str = "hybrid", limit: int = 10, **others: Any) -> str:
    return " ".join(search(index.reader, make_request(query, mode, limit, **others)).notices)


# --- which factor


@pytest.mark.parametrize(
    ("path", "factor", "folder"),
    [
        ("Projects/a.md", 1.3, "Projects"),
        ("projects/deep/a.md", 1.3, "Projects"),
        ("Projects/Garden/a.md", 0.5, "projects/garden"),
        ("Projects.md", 1.0, ""),
        ("Projects 2/a.md", 1.0, ""),
        ("Areas/Projects/a.md", 1.0, ""),
        (unicodedata.normalize("NFD", "Café/a.md"), 2.0, "Café"),
        ("Archive/a.md", 0.8, "Archive"),
        ("Projects/archive/a.md", 0.8, "Projects/archive"),
        ("99 Archive/2019/a.md", 0.8, "99 Archive"),
        ("_archive/a.md", 0.8, "_archive"),
        ("4-Archives/a.md", 0.8, "4-Archives"),
        ("04. ARCHIVES/a.md", 0.8, "04. ARCHIVES"),
        ("📦 Archive/a.md", 0.8, "📦 Archive"),
        ("Archived talks/a.md", 1.0, ""),
        ("Archive.md", 1.0, ""),
        ("Archive/Kept/a.md", 1.0, "Archive/Kept"),
        ("Kept/Archive/a.md", 0.9, "Kept/Archive"),
    ],
)
def test_the_innermost_folder_with_a_factor_counts(path: str, factor: float, folder: str) -> None:
    boosts = (("Projects", 1.3), ("projects/garden", 0.5), ("Café", 2.0), ("Archive/Kept", 1.0))
    request = Request("q", usual_boosts=(*boosts, ("Kept/Archive", 0.9)), archive=0.8)
    prior = find_prior(path, request)
    assert (prior.factor, prior.folder) == (factor, folder)
    assert prior.is_archive == (factor == 0.8)


def test_a_boost_of_the_call_counts_before_that_of_the_settings() -> None:
    request = Request("q", boosts=(("projects", 2.0),), usual_boosts=(("Projects", 1.3), ("Work", 1.1)))
    assert find_prior("Projects/a.md", request).factor == 2.0
    assert find_prior("Work/a.md", request).factor == 1.1


factors = st.floats(0.01, 10)
strengths = st.floats(-1, 2)


@given(factors, factors, strengths, st.integers(0, 10**6))
def test_a_greater_factor_never_makes_a_match_weaker(a: float, b: float, strength: float, links: int) -> None:
    low, high = (Prior(factor, links=links).weigh(strength) for factor in sorted((a, b)))
    assert low <= high


@given(factors, strengths, strengths, st.integers(0, 10**6))
def test_of_two_notes_with_the_same_prior_the_better_match_stays_before(
    factor: float, a: float, b: float, links: int
) -> None:
    low, high = (Prior(factor, links=links).weigh(strength) for strength in sorted((a, b)))
    assert low <= high


@given(st.floats(0.002, 1), st.integers(0, 10**6))
def test_no_number_of_links_makes_up_for_a_match_that_is_clearly_weaker(strength: float, links: int) -> None:
    assert Prior(links=links).weigh(strength * 0.998) < strength


@given(st.lists(st.sampled_from("abcdef"), unique=True), factors)
def test_a_list_without_strengths_keeps_its_order_where_all_have_the_same_factor(
    paths: list[str], factor: float
) -> None:
    assert weigh_list(paths, grade(paths), {}) == paths
    assert weigh_list(paths, grade(paths), {path: Prior(factor) for path in paths}) == paths


# --- in search


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
def test_an_archived_note_stands_behind_one_that_matches_as_well(index: SearchBench, mode: str) -> None:
    with under(index, search_archive=1.0) as even:
        assert ask(even, "warm water floor", mode)[:3] == ["Projects/strong", "Archive/a", "Projects/b"]
    found = ask(index, "warm water floor", mode)
    assert found[:2] == ["Projects/strong", "Projects/b"]
    assert "Archive/a" in found


def test_under_plain_rrf_folders_count_too_and_links_do_not(index: SearchBench) -> None:
    with under(index, search_fusion="rrf") as plain:
        found = ask(plain, "warm water floor")
        assert found.index("Projects/b") < found.index("Archive/a")
        ties = ask(plain, "sundial of slate")
        assert ties.index("Ties/one") < ties.index("Ties/two")


@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
@pytest.mark.parametrize("query", ["Boiler", "kettle room"])
def test_an_archived_note_that_is_named_comes_first_whatever_is_favoured(
    index: SearchBench, query: str, mode: str
) -> None:
    with under(index, search_archive=0.01) as severe:
        found = ask(severe, query, mode, boosts=["Work=10"])
    assert found[:2] == ["Old stuff/_archive/Boiler", "Work/Boiler notes"]


def test_of_two_notes_of_one_name_the_archived_one_comes_second(index: SearchBench) -> None:
    with under(index, search_archive=1.0) as even:
        assert ask(even, "Plan")[:2] == ["Archive/Plan", "Work/Plan"]
    assert ask(index, "Plan")[:2] == ["Work/Plan", "Archive/Plan"]


def test_a_boost_lifts_a_folder_and_a_factor_below_one_puts_it_back(index: SearchBench) -> None:
    query = "warm water floor"
    with under(index, search_boosts=(("Archive", 3.0),)) as favoured:
        assert ask(favoured, query)[0] == "Archive/a"
        assert ask(favoured, query, boosts=["archive=0.3"])[:2] == ["Projects/strong", "Projects/b"]
    assert ask(index, query, boosts=["/Projects/=0.2"])[0] == "Archive/a"


def test_a_small_boost_does_not_lift_a_weak_match_over_a_strong_one(index: SearchBench) -> None:
    query = "warm water floor"
    assert ask(index, query, boosts=["Journal=1.1"]).index("Journal/weak") == 3
    assert ask(index, query, boosts=["Journal=10"]).index("Journal/weak") == 0


def test_scores_fall_in_the_order_of_the_answer(index: SearchBench) -> None:
    scores = [score for _, score in ask_with_scores(index, "warm water floor", boosts=["Journal=2"])]
    assert scores == sorted(scores, reverse=True)


def test_priors_can_be_left_out_of_a_measurement(index: SearchBench) -> None:
    request = make_request("warm water floor", without=frozenset({"priors", "neighbors"}))
    assert search(index.reader, request).results[1].file_path == "Archive/a.md"


def test_a_question_about_a_time_is_answered_without_priors(index: SearchBench) -> None:
    with under(index, search_archive=0.01, search_boosts=(("Work", 10.0),)) as severe:
        assert ask(severe, "painted the fence green")[0] == "Work/2024-03-07"
        assert ask(severe, "painted the fence green in March 2024")[0] == "Archive/2024-03-05"
        assert ask(severe, "painted the fence green", intent="temporal")[0] == "Archive/2024-03-05"


def test_boosts_that_do_nothing_are_told(index: SearchBench) -> None:
    assert "boosts were not used" in notices(index, "painted in March 2024", boosts=["Work=2"])
    assert "no note lies in the folder: Wrok." in notices(index, "painted", boosts=["Wrok=2", "work=3"])
    assert "oost" not in notices(index, "painted", boosts=["Work=2"])


def test_folders_without_notes_are_found(index: SearchBench) -> None:
    boosts = (("projects", 2.0), ("Projets", 2.0), ("Old stuff/_archive", 1.0), ("Proj", 1.0))
    assert index.run(lambda conn: find_idle(conn, boosts)) == ["Projets", "Proj"]


# --- popularity


def test_links_from_other_notes_are_counted_once_each(index: SearchBench) -> None:
    paths = ["Ties/two.md", "Ties/one.md", "Ties/self.md"]
    assert index.run(lambda conn: count_inbound(conn, paths)) == {"Ties/two.md": 40}


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
def test_of_two_notes_that_match_alike_the_one_linked_to_comes_first(index: SearchBench, mode: str) -> None:
    query = "sundial of slate"
    found = ask(index, query, mode)
    assert found.index("Ties/two") < found.index("Ties/one")
    if mode != "vector":  # a better match by words stays before
        assert found[0] == "Ties/best"
    without = [
        hit.file_path
        for hit in search(
            index.reader, make_request(query, mode, without=frozenset({"popularity", "neighbors"}))
        ).results
    ]
    assert without.index("Ties/one.md") < without.index("Ties/two.md")


# --- excludes


@pytest.mark.parametrize(
    ("exclude", "hidden", "seen"),
    [
        ("Templates", ["Templates/a.md", "templates/x/a"], ["Templates.md", "Templates2/a", "x/Templates/a"]),
        ("Areas/Private", ["areas/private/a.md"], ["Areas/a.md", "Areas/Private.md"]),
        ("Areas/Secret.md", ["Areas/Secret.md"], ["Areas/Secret.md.md", "x/Areas/Secret.md"]),
        ("private/*.md", ["private/a.md", "Private/B.md"], ["private/x/a", "x/private/a.md", "privateXa"]),
        ("*.draft.md", ["a.draft.md", "deep/down/a.draft.md"], ["a.draft.md.md", "adraft.md"]),
        ("**/Templates", ["Templates/a.md", "x/y/templates/a.md"], ["x/Templates.md", "xTemplates/a.md"]),
        ("Work/**/old?.md", ["Work/old1.md", "Work/a/b/old2.md"], ["Work/old.md", "Work/old12.md", "old1"]),
        ("Tmp*", ["Tmp/a.md", "x/Tmp-2/a.md", "x/tmp.md"], ["x/aTmp/a.md"]),
        ("a+b (c)[1]", ["a+b (c)[1]/n.md"], ["aab c1/n.md"]),
        ("Café", [unicodedata.normalize("NFD", "CAFÉ/a.md")], ["Cafe/a.md"]),
    ],
)  # fmt: skip
def test_an_exclude_hides_what_it_means(exclude: str, hidden: Sequence[str], seen: Sequence[str]) -> None:
    assert [path for path in hidden if find_exclude(path, (exclude,)) is None] == []
    assert [path for path in seen if find_exclude(path, (exclude,))] == []


EXCLUDES = ("Templates", "private/*.md", "*.draft.md")


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
@pytest.mark.parametrize("query", ["zinnia", "zinnia seeds by the wall"])
def test_excluded_notes_never_answer_unless_asked_for(index: SearchBench, mode: str, query: str) -> None:
    everything = len(NOTES)
    with under(index, search_excludes=EXCLUDES) as strict:
        found = ask(strict, query, mode, limit=50)
        assert set(found) & ALL_ZINNIAS == {"Garden/zinnia"}
        assert set(ask(strict, query, mode, limit=50, include_excluded=True)) & ALL_ZINNIAS == ALL_ZINNIAS
    assert len(ask(index, query, "vector", limit=50)) == min(50, everything)


def test_excluded_notes_stay_hidden_from_a_question_about_a_time(index: SearchBench) -> None:
    with under(index, search_excludes=("Archive",)) as strict:
        assert not any(path.startswith("Archive/") for path in ask(strict, "painted in March 2024"))


def test_an_excluded_note_can_be_read_by_its_path(index: SearchBench) -> None:
    with under(index, search_excludes=EXCLUDES) as strict:
        note = strict.run(lambda conn: load_note(conn, "Templates/zinnia"))
    assert note.content == NOTES["Templates/zinnia"]


def test_an_answer_that_excludes_made_short_says_so(index: SearchBench) -> None:
    with under(index, search_excludes=EXCLUDES) as strict:
        told = notices(strict, "zinnia", "keyword")
        assert "SEARCH_EXCLUDES (" in told
        assert all(exclude in told for exclude in EXCLUDES)
        assert "hides 3 more notes" in told
        assert "include_excluded=true (--include-excluded)" in told
        assert "SEARCH_EXCLUDES" not in notices(strict, "zinnia", "keyword", include_excluded=True)
        assert "SEARCH_EXCLUDES" not in notices(strict, "sundial", "keyword"), "none of the hidden match"
        assert "SEARCH_EXCLUDES" not in notices(strict, "zinnia", "keyword", limit=1), "it is full"


def test_an_answer_that_excludes_emptied_names_them(index: SearchBench) -> None:
    with under(index, search_excludes=("Templates", "nothing/here")) as strict:
        told = notices(strict, "zinnia", filters=make_filters(folder="Templates"))
        assert "SEARCH_EXCLUDES (Templates) hides 1 more" in told
        assert ask(strict, "zinnia", filters=make_filters(folder="Templates")) == []
    with under(index, search_excludes=("**",)) as nothing:
        assert ask(nothing, "zinnia") == []
        told = notices(nothing, "xyzzy", "keyword")
        assert "SEARCH_EXCLUDES hides every note." in told
        told = notices(nothing, "zinnia", filters=make_filters(folder="Templates"))
        assert "SEARCH_EXCLUDES hides all notes that pass the filters." in told


def test_where_excludes_hide_nothing_search_is_not_filtered(index: SearchBench) -> None:
    assert index.run(lambda conn: find_allowed(conn, Filters(), ("nothing/here",))) is None
    with under(index, search_excludes=("nothing/here",)) as strict:
        assert ask_with_scores(strict, "zinnia") == ask_with_scores(index, "zinnia")


def test_the_notes_that_each_exclude_hides_are_counted(index: SearchBench) -> None:
    excludes = ("Templates", "zinnia*", "templates", "misspelt")
    assert index.run(lambda conn: count_hidden(conn, excludes)) == Hidden(
        4, {"Templates": 1, "zinnia*": 4, "templates": 1, "misspelt": 0}
    )
    assert index.run(lambda conn: count_hidden(conn, ())) == Hidden(0, {})


# --- beyond the first list


class FixedScores:
    """A cross-encoder that gives each passage the same score."""

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        return [3.0] * len(passages)


def test_priors_weigh_what_a_reranker_gives(index: SearchBench) -> None:
    notes = [Fused(path, 1 / place, {}) for place, path in enumerate(("Archive/a.md", "Projects/b.md"), 1)]
    priors = {"Archive/a.md": Prior(0.8, "Archive", is_archive=True)}
    retrieved = index.retrieve("warm water")

    def order(priors: dict[str, Prior] | None) -> list[str]:
        result = index.run(
            lambda conn: rerank(
                conn,
                make_request("warm water"),
                notes,
                retrieved,
                lambda note: 0,
                cast(CrossEncoder, FixedScores()),
                priors,
            )
        )
        return [note.file_path for note in result.fused]

    assert order(None) == ["Archive/a.md", "Projects/b.md"]
    assert order(priors) == ["Projects/b.md", "Archive/a.md"]


def test_folders_weigh_what_links_bring_and_popularity_does_not(index: SearchBench) -> None:
    hits = (LinkHit("Archive/z.md", 0.9, ()), LinkHit("b.md", 0.8, ()), LinkHit("c.md", 0.8, ()))
    priors = {"Archive/z.md": Prior(0.8), "c.md": Prior(links=1000)}
    retrieved = replace(index.retrieve("xyzzy"), links=LinkResult(hits, is_clear=True))

    def order(priors: dict[str, Prior]) -> list[str]:
        fused = fuse(retrieved, make_request("xyzzy"), "question", priors)
        return [note.file_path for note in fused if "links" in note.ranks]

    assert order({}) == ["Archive/z.md", "b.md", "c.md"]
    assert order(priors) == ["b.md", "c.md", "Archive/z.md"]


def test_priors_weigh_what_other_wordings_find() -> None:
    expansion = Expansion(("other words",), (("Archive/a.md", "b.md"),), ())
    found = [note.file_path for note in fuse_variants([], expansion, {"Archive/a.md": Prior(0.8)})]
    assert found == ["b.md", "Archive/a.md"]


# --- diagnose


def diagnose(index: SearchBench, query: str, target: str, **others: Any) -> Diagnosis:
    return diagnose_target(index.reader, make_request(query, **others), target)


def test_a_diagnosis_tells_each_prior_with_the_places_before_and_after(index: SearchBench) -> None:
    found = diagnose(index, "warm water floor", "Archive/a", boosts=["Projects=1.2"])
    uses = {use.file_path: use for use in found.priors}
    archived, boosted = uses["Archive/a.md"], uses["Projects/b.md"]
    assert (archived.factor, archived.folder, archived.is_archive) == (0.8, "Archive", True)
    assert (archived.before, archived.after) == (2, found.rank) == (2, 3)
    assert (boosted.before, boosted.after) == (3, 2)
    assert "Priors moved it from place 2 to 3 (archive Archive × 0.8)." in found.findings
    because = {rival.file_path: rival.because for rival in found.above}
    assert because["Projects/b.md"].endswith("; boost Projects × 1.2")
    shown = render_diagnosis(found)
    assert "Priors, with the place without and with them:" in shown
    assert "  2 -> 3 Archive/a.md: archive Archive × 0.8" in shown


def test_a_diagnosis_tells_how_many_notes_link_to_one(index: SearchBench) -> None:
    found = diagnose(index, "sundial of slate", "Ties/one")
    (use,) = (use for use in found.priors if use.links)
    assert (use.file_path, use.links, use.text) == ("Ties/two.md", 40, "32 or more notes link to it")
    assert any("(those of other notes)" in text for text in found.findings)


def test_a_diagnosis_tells_that_priors_are_off_for_a_time(index: SearchBench) -> None:
    found = diagnose(index, "painted in March 2024", "Archive/2024-03-05")
    assert found.priors == ()
    assert found.findings[-1] == ("archive Archive × 0.8 does not count here: the query asks about a time.")


def test_a_diagnosis_says_which_exclude_hides_a_note(index: SearchBench) -> None:
    with under(index, search_excludes=EXCLUDES) as strict:
        found = diagnose(strict, "zinnia", "Templates/zinnia")
        assert (found.indexed, found.rank) == (True, None)
        assert found.findings[0] == "SEARCH_EXCLUDES hides it: Templates. --include-excluded shows it."
        assert diagnose(strict, "zinnia", "Templates/zinnia", include_excluded=True).rank is not None


# --- settings and commands


def load(tmp_path: Path, **environ: str) -> Settings:
    return load_settings(environ, {}, tmp_path)


def test_settings_are_read_as_they_are_written(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        SEARCH_BOOSTS='Projects=1.3, /Old Things/ = .5,"Smith, John=2"',
        SEARCH_ARCHIVE="1",
        SEARCH_EXCLUDES='Templates/, private/*.md,, "a, b"',
    )
    assert settings.search_boosts == (("Projects", 1.3), ("Old Things", 0.5), ("Smith, John", 2.0))
    assert settings.search_archive == 1.0
    assert settings.search_excludes == ("Templates", "private/*.md", "a, b")
    assert load(tmp_path).search_archive == 0.8


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1), max_size=4))
def test_a_list_of_parts_survives_its_own_spelling(parts: list[str]) -> None:
    parts = list(dict.fromkeys(part for part in parts if not part.startswith("/") and not part.endswith("/")))
    settings = load_settings({"SEARCH_EXCLUDES": join_list(parts)}, {}, Path("/"))
    assert settings.search_excludes == tuple(parts)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("SEARCH_BOOSTS", "Projects", "has 'Projects', which is no folder with a factor. Write it like"),
        ("SEARCH_BOOSTS", "=2", "SEARCH_BOOSTS has '=2', which is no folder"),
        ("SEARCH_BOOSTS", "/=2", "SEARCH_BOOSTS has '/=2', which is no folder"),
        ("SEARCH_BOOSTS", "A=much", "The factor of SEARCH_BOOSTS, A is 'much'. Set it to a number above 0"),
        ("SEARCH_BOOSTS", "A=0", "is '0'. Set it to a number above 0"),
        ("SEARCH_BOOSTS", "A=-1", "is '-1'. Set it to a number above 0"),
        ("SEARCH_BOOSTS", "A=10.1", "is '10.1'. Set it to a number above 0"),
        ("SEARCH_BOOSTS", "A=nan", "is 'nan'. Set it to a number above 0"),
        ("SEARCH_BOOSTS", "A=2, a=3", "SEARCH_BOOSTS names the folder 'a' twice"),
        ("SEARCH_BOOSTS", '"A=2', "Quote the whole of a part that has a comma"),
        ("SEARCH_ARCHIVE", "off", "The factor of SEARCH_ARCHIVE is 'off'"),
        ("SEARCH_EXCLUDES", "a, /", "where one part is only a slash"),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_used_says_how_to_write_it(
    tmp_path: Path, name: str, value: str, message: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        load(tmp_path, **{name: value})
    assert message in str(raised.value)


@pytest.mark.parametrize("boost", ["Projects", "Projects=0", "=1", "a\0=1", "Projects=x"])
def test_a_boost_of_a_call_that_cannot_be_used_is_an_error(boost: str) -> None:
    with pytest.raises(QueryError):
        make_request("q", boosts=[boost])


def test_the_line_that_connects_an_agent_hands_the_settings_on() -> None:
    settings = Settings(
        search_boosts=(("Smith, John", 1.3),), search_archive=0.5, search_excludes=("Templates", "a/*.md")
    )
    words = shlex.split(connect_line(settings, "obsidian-rag"))
    assert 'SEARCH_BOOSTS="Smith, John=1.3"' in words
    assert "SEARCH_ARCHIVE=0.5" in words
    assert "SEARCH_EXCLUDES=Templates, a/*.md" in words
    assert "SEARCH_" not in connect_line(Settings(), "obsidian-rag")


def test_plans_are_made_for_the_notes_at_hand(index: SearchBench) -> None:
    """A plan for any list of notes reads the list through for every row."""
    assert index.run(lambda conn: conn.execute("SHOW plan_cache_mode").fetchone()) == ("force_custom_plan",)


def test_the_command_takes_boosts_and_shows_what_is_excluded(index: SearchBench) -> None:
    def run(*arguments: str, **environ: str) -> dict[str, Any]:
        result = CliRunner().invoke(cli, [*arguments, "--json"], env=index.bench.environment | environ)
        assert result.exit_code == 0, result.output
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    first = run("search", "warm water floor", "--boost", "Archive=3")["results"][0]["file_path"]
    assert first == "Archive/a.md"
    zinnias = ("search", "zinnia", "--mode", "keyword")
    assert len(run(*zinnias, SEARCH_EXCLUDES="Templates, private")["results"]) == 2
    assert len(run(*zinnias, "--search-excludes", "Templates")["results"]) == 3
    assert len(run(*zinnias, "--include-excluded", SEARCH_EXCLUDES="Templates")["results"]) == 4
    told = run("diagnose", "warm water floor", "--target", "Projects/b", "--boost", "Projects=1.5")
    assert {use["file_path"]: use["factor"] for use in told["priors"]}["Projects/b.md"] == 1.5


def test_the_tool_takes_boosts_and_shows_what_is_excluded(index: SearchBench) -> None:
    settings = replace(index.bench.settings, search_excludes=("Templates",))

    async def ask(*calls: dict[str, Any]) -> list[list[str]]:
        async with Client(make_server(settings)) as client:
            answers = [await client.call_tool("search_notes", call) for call in calls]
        return [
            [h["file_path"] for h in a.structured_content["results"] if not h["neighbor"]] for a in answers
        ]  # type: ignore[index]

    boosted, without, with_all = asyncio.run(
        ask(
            {"query": "warm water floor", "boosts": ["Archive=3"]},
            {"query": "zinnia", "mode": "keyword"},
            {"query": "zinnia", "mode": "keyword", "include_excluded": True},
        )
    )
    assert boosted[0] == "Archive/a.md"
    assert "Templates/zinnia.md" not in without
    assert "Templates/zinnia.md" in with_all
