"""From a question's words to hops over links. Pure: a table of its own, and names that are given."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from obsidian_rag.relations import Kind, Relation, Table
from obsidian_rag.search.named import Named, read_tokens
from obsidian_rag.search.plans import MOST_STEPS, Plan, make_plan, read_question

PERSON, BED, MEETING, CROP = "person", "bed", "meeting", "crop"
PLAIN = (
    "a an the of in at to for with by who whom which what that is are was were did do does has have any all"
    " people those someone there and i need want tell me list show also s then"
)
TABLE = Table(
    relations={
        r.name: r
        for r in (
            Relation("planted", ("plant*",), between=((PERSON, BED),), implied=1.0),
            Relation("watered", ("water*",), ("drench*",), between=((PERSON, BED),)),
            Relation("attended", ("attend*",), ("sat in",), between=((PERSON, MEETING),), implied=0.9),
            Relation(
                "discussed",
                ("discuss*",),
                ("came up", "talk*"),
                between=((MEETING, BED), (MEETING, CROP)),
                implied=0.9,
            ),
            Relation("befriended", ("friend*", "befriended"), between=((PERSON, PERSON),)),
            Relation("taught", ("taught", "teach*"), between=((PERSON, PERSON),)),
            Relation("grows", ("grows",)),  # of kinds it says nothing
        )
    },
    kinds={
        k.name: k
        for k in (
            Kind(PERSON, ("who", "whom", "whose", "people", "planter*", "waterer*", "someone"), frozenset()),
            Kind(BED, ("bed", "beds"), frozenset()),
            Kind(MEETING, ("meeting*", "session*"), frozenset()),
            Kind(CROP, ("crop", "crops"), frozenset()),
        )
    },
    sharing=("same", "together", "co-plant*"),
    plain=frozenset(PLAIN.split()),
    digest=b"",
)
ASH, NORTH, SPRING = ("Ash Lowe", {PERSON}), ("North Strip", {BED}), ("Spring Round", {MEETING})
Similar = Mapping[tuple[int, int], Mapping[str, float]]


def plan(query: str, *named: tuple[str, set[str]], similar: Similar | None = None) -> Plan:
    """The plan of the first of the names in a question."""
    tokens = read_tokens(query)
    found = []
    for name, _ in named:
        at = query.index(name)
        first = next(i for i, token in enumerate(tokens) if token.first == at)
        last = next(i for i, token in enumerate(tokens) if token.last >= at + len(name)) + 1
        found.append(Named(first, last, name, {f"{name}.md": 1.0}))
    reading = read_question(tokens, found, TABLE, similar)
    return make_plan(reading, found[0], tokens, frozenset(named[0][1]), TABLE)


def hops(query: str, *named: tuple[str, set[str]], similar: Similar | None = None) -> list[str]:
    """The plan's hops as `relation+relation > kind`."""
    return [
        f"{'+'.join(sorted(step.relations))} > {step.kind}"
        for step in plan(query, *named, similar=similar).steps
    ]


def test_one_cue_is_one_hop_to_the_kind_that_is_asked_for() -> None:
    assert hops("Who planted North Strip?", NORTH) == ["planted > person"]
    assert hops("Which beds did Ash Lowe plant?", ASH) == ["planted > bed"]
    assert hops("North Strip planters", NORTH) == ["planted > person"]


def test_the_cue_nearest_to_the_name_is_walked_first() -> None:
    expected = ["planted > bed", "watered > person"]
    assert hops("Who watered the bed that Ash Lowe planted?", ASH) == expected
    assert hops("Who waters the beds planted by Ash Lowe?", ASH) == expected


def test_what_follows_the_name_belongs_to_it_before_what_stands_in_front() -> None:
    assert hops("Who watered the beds Ash Lowe planted?", ASH) == ["planted > bed", "watered > person"]
    assert hops("Who planted the beds Ash Lowe watered?", ASH) == ["watered > bed", "planted > person"]


def test_where_kinds_do_not_tell_the_order_of_cues_does() -> None:
    """All are people here."""
    assert hops("Who taught the person whom Ash Lowe befriended?", ASH) == [
        "befriended > person",
        "taught > person",
    ]
    assert hops("the people befriended by Ash Lowe who taught others", ASH) == [
        "befriended > person",
        "taught > person",
    ]
    assert hops("Who taught planters of Ash Lowe's bed who water", ASH)[:2] == [
        "planted > bed",
        "planted > person",
    ]
    assert hops("people taught by friends of Ash Lowe", ASH) == ["befriended > person", "taught > person"]


def test_what_is_done_by_the_name_belongs_to_it_before_what_follows() -> None:
    asked = "What beds planted by Ash Lowe were discussed in which meetings"
    assert hops(asked, ASH)[0] == "planted > bed"
    assert hops("Who planted the bed watered by Ash Lowe", ASH) == ["watered > bed", "planted > person"]


def test_three_hops_follow_one_another_by_their_kinds() -> None:
    assert hops("Which meetings did people who water the bed that Ash Lowe planted attend?", ASH) == [
        "planted > bed",
        "watered > person",
        "attended > meeting",
    ]
    assert hops(
        "Which crops were discussed at meetings attended by people who water North Strip?", NORTH
    ) == [
        "watered > person",
        "attended > meeting",
        "discussed > crop",
    ]


def test_there_are_at_most_three_hops() -> None:
    asked = (
        "Which crops were discussed in sessions attended by people who watered the bed that was planted"
        " by someone befriended by Ash Lowe"
    )
    assert len(hops(asked, ASH)) <= MOST_STEPS == 3


def test_a_thing_of_the_named_notes_own_is_a_hop_without_a_cue() -> None:
    assert hops("Ash Lowe's bed", ASH) == ["planted > bed"]
    assert hops("Who waters Ash Lowe's bed?", ASH) == ["planted > bed", "watered > person"]
    assert hops("Who waters Ash Lowe’s bed?", ASH) == ["planted > bed", "watered > person"]
    assert hops("Who waters North Strip?", NORTH) == ["watered > person"]


def test_a_kind_without_a_cue_is_an_implied_hop() -> None:
    assert hops("Which crops were discussed in meetings with Ash Lowe?", ASH) == [
        "attended > meeting",
        "discussed > crop",
    ]
    assert hops("Which meetings had Ash Lowe in them?", ASH) == ["attended > meeting"]


def test_a_hop_that_nothing_says_is_made_where_a_cue_needs_it() -> None:
    """A meeting discusses beds, not people: those of the named one are meant."""
    assert hops("Which meetings discussed Ash Lowe?", ASH) == ["planted > bed", "discussed > meeting"]


def test_a_relation_without_a_share_is_not_implied() -> None:
    """People water beds, but `people of a bed` does not say so."""
    assert hops("people of North Strip", NORTH) == ["planted > person"]


def test_who_that_tells_more_of_a_word_is_not_what_is_asked() -> None:
    assert plan("Which beds belong to people who attended Spring Round?", SPRING).kind == BED
    assert plan("I need the crops that those who attended Spring Round talked of", SPRING).kind == CROP
    assert plan("Who attended Spring Round?", SPRING).kind == PERSON
    assert plan("In which meetings sat people whom Ash Lowe befriended?", ASH).kind == MEETING


def test_who_after_a_comma_asks_again() -> None:
    assert plan("Of the people in Spring Round, who planted beds?", SPRING).kind == PERSON
    assert plan("Of all those beds, who planted North Strip?", NORTH).kind == PERSON


def test_the_kind_asked_for_follows_which_and_what_or_a_request() -> None:
    assert plan("At what meeting was North Strip discussed by people?", NORTH).kind == MEETING
    assert plan("I want the crops of meetings with Ash Lowe", ASH).kind == CROP
    assert plan("list meetings where people discussed North Strip", NORTH).kind == MEETING
    assert plan("Take North Strip, find its planters, then their meetings", NORTH).kind == MEETING


def test_what_is_said_of_a_name_at_the_beginning_ends_with_what_is_asked() -> None:
    assert plan("Ash Lowe meetings crops", ASH).kind == CROP
    assert plan("Ash Lowe bed waterers", ASH).kind == PERSON
    assert plan("Ash Lowe beds discussed in meetings", ASH).kind == BED  # where, not what


def test_a_word_for_what_the_named_note_is_asks_for_nothing() -> None:
    assert hops("Who watered the bed North Strip?", NORTH) == ["watered > person"]
    assert plan("I need the planters of the bed North Strip", NORTH).kind == PERSON
    assert plan("I need, of the bed North Strip, the planters", NORTH).kind == PERSON


def test_the_agents_of_a_cue_are_the_kind_it_leads_to() -> None:
    assert hops("planters of North Strip", NORTH) == ["planted > person"]
    assert hops("In which meetings did the planters of North Strip sit", NORTH) == [
        "planted > person",
        "attended > meeting",
    ]


def test_a_cue_that_says_what_the_named_note_is_leads_away_from_it() -> None:
    """`is a planter of`: the person is named, the bed is asked for."""
    assert hops("Ash Lowe is a planter of which bed", ASH) == ["planted > bed"]


def test_what_is_shared_goes_there_and_back() -> None:
    assert hops("Who planted the same bed as Ash Lowe?", ASH) == ["planted > bed", "planted > person"]
    assert hops("Who watered together with Ash Lowe?", ASH) == ["watered > bed", "watered > person"]
    assert hops("Who watered for Ash Lowe?", ASH) == ["watered > bed", "planted > person"]


def test_a_cue_that_cannot_begin_at_the_named_kind_waits_for_one_that_can() -> None:
    """Nobody waters a meeting: first to the beds that it discussed."""
    assert hops("Who watered what Spring Round discussed?", SPRING) == ["discussed > bed", "watered > person"]


def test_no_hops_where_the_kinds_never_meet() -> None:
    found = plan("Which crops befriended North Strip?", NORTH)
    assert found.steps == () or found.steps[-1].kind == CROP
    assert "befriended" not in {name for step in found.steps for name in step.relations}


def test_a_note_of_unknown_kind_takes_every_cue() -> None:
    found = plan("Who planted Somewhere?", ("Somewhere", set()))
    assert [dict(step.relations) for step in found.steps] == [{"planted": 1.0}]
    assert found.kind == PERSON


def test_a_relation_of_no_kinds_leads_anywhere() -> None:
    assert hops("Which crops grows North Strip", NORTH) == ["grows > crop"]


def test_words_of_a_name_are_no_cues() -> None:
    name = ("Planters Meeting", {MEETING})
    assert hops("Who attended Planters Meeting?", name) == ["attended > person"]


def test_what_the_plan_does_not_explain_makes_it_unclear() -> None:
    clear = plan("Who planted North Strip?", NORTH)
    assert (clear.share, clear.is_clear) == (1.0, True)
    vague = plan("Who planted North Strip after the frost killed lavender seedlings?", NORTH)
    assert vague.share < 0.4
    assert not vague.is_clear


@pytest.mark.parametrize("query", ["North Strip", "North Strip in winter", "why is North Strip so wet"])
def test_a_question_without_a_kind_is_not_clear(query: str) -> None:
    found = plan(query, NORTH)
    assert (found.steps, found.kind, found.is_clear) == ((), None, False)


def test_likeness_explains_less_than_a_word_of_the_table() -> None:
    similar = {(1, 2): {"watered": 0.8}}
    found = plan("Who soaked North Strip?", NORTH, similar=similar)
    assert [dict(step.relations) for step in found.steps] == [{"watered": 0.8}]
    assert found.share == pytest.approx(0.8)
    assert found.is_clear
    weak = plan("Who soaked North Strip?", NORTH, similar={(1, 2): {"watered": 0.6}})
    assert not weak.is_clear


def test_cues_side_by_side_that_share_a_relation_are_one_step() -> None:
    similar = {(1, 2): {"watered": 0.7, "planted": 0.6}}
    assert hops("Who soaked watered North Strip?", NORTH, similar=similar) == ["planted+watered > person"]


def test_what_is_said_twice_is_walked_once() -> None:
    asked = "Which crops came up when they discussed them with Ash Lowe in meetings?"
    assert hops(asked, ASH) == ["attended > meeting", "discussed > crop"]
    assert hops("Who are the planters that planted the bed North Strip?", NORTH) == ["planted > person"]


def test_the_first_names_plan_leaves_the_cues_of_the_sentence_to_it() -> None:
    """Two names: each has a plan of its own over the same cues."""
    query = "Who planted North Strip and attended Spring Round?"
    assert hops(query, NORTH, SPRING)[0] == "planted > person"
    assert hops(query, SPRING, NORTH)[0] == "attended > person"


def test_a_plan_does_not_depend_on_the_order_of_a_set() -> None:
    both = ("Ash Lowe", {PERSON, MEETING, BED})
    first = plan("Which crops were discussed with Ash Lowe", both)
    again = plan("Which crops were discussed with Ash Lowe", ("Ash Lowe", {BED, MEETING, PERSON}))
    assert first == again


def test_a_very_long_question_has_few_steps() -> None:
    asked = "North Strip: who planted and watered and discussed and attended " + "who planted " * 200
    assert len(plan(asked, NORTH).steps) <= MOST_STEPS
