"""The table of relations and what links say by it: words near a link, labels, headings."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest
from conftest import VaultFolder

from obsidian_rag.errors import SettingsError
from obsidian_rag.link_rows import type_mentions
from obsidian_rag.link_types import LinkPlace, choose_relation, combine, type_links
from obsidian_rag.notes import parse_note
from obsidian_rag.relations import NOTE_WORD, Phrases, Table, load_table

BUNDLED = load_table()
GERMAN = """
[relations.founded]
words = ["gegründet", "gründete*", "gründer*", "mitgründer*"]
[relations.arbeitet_bei]
words = ["arbeitet bei", "angestellt"]
labels = ["arbeitgeber"]
means = { works_at = 1.0 }
[kinds.organisation]
words = ["firma", "firmen"]
places = ["Firmen"]
"""


@pytest.fixture
def own_table(tmp_path: Path) -> Path:
    return tmp_path / "relations.toml"


def load(file: Path, text: str) -> Table:
    file.write_text(text, encoding="utf-8")
    return load_table(file)


def say(text: str, table: Table = BUNDLED, name: str = "Acme") -> dict[str, float]:
    """What the link [[Acme]] of a text says."""
    note = parse_note("Note.md", text)
    (said,) = (
        relations
        for mention, relations in zip(note.mentions, type_mentions(note, table), strict=True)
        if note.links[mention.link].target == name
    )
    return dict(said)


def surest(text: str, table: Table = BUNDLED, name: str = "Acme") -> str | None:
    return choose_relation([say(text, table, name)])[0]


# --- the bundled table -------------------------------------------------------------------------------


def list_bundled() -> list[tuple[str, str, list[str]]]:
    raw = resources.files("obsidian_rag").joinpath("bundled/relations.toml").read_text("utf-8")
    data = tomllib.loads(raw)
    rows = [(f"{table}.{name}", row) for table in ("relations", "kinds") for name, row in data[table].items()]
    rows += [(name, data[name]) for name in ("sharing", "denials", "idioms", "plain")]
    return [(name, key, row[key]) for name, row in rows for key in row if isinstance(row[key], list)]


@pytest.mark.parametrize(("row", "key", "phrases"), list_bundled())
def test_bundled_phrases_are_tidy(row: str, key: str, phrases: list[str]) -> None:
    if key == "between":
        return
    assert phrases
    for phrase in phrases:
        assert phrase == " ".join(phrase.lower().split()) != ""
    assert len(phrases) == len(set(phrases))


@pytest.mark.parametrize("name", BUNDLED.relations)
def test_no_phrase_of_a_relation_stands_twice_or_under_a_stem_of_its_own(name: str) -> None:
    relation = BUNDLED.relations[name]
    said = (*relation.words, *relation.labels, *relation.asks)
    assert len(said) == len(set(said))
    for phrases, others in ((relation.words, said), (relation.asks, relation.asks)):
        stems = [phrase[:-1] for phrase in phrases if phrase.endswith("*") and " " not in phrase]
        found = [(p, s) for p in others for s in stems if p != f"{s}*" and p.startswith(s) and " " not in p]
        assert found == []


def test_the_bundled_file_is_readable() -> None:
    raw = resources.files("obsidian_rag").joinpath("bundled/relations.toml").read_text("utf-8")
    assert max(map(len, raw.splitlines())) <= 110


def test_the_page_on_relations_names_them_all_and_its_example_can_be_used(own_table: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "relations.md").read_text("utf-8")
    listed = re.search(r"holds (\d+) relations: ([^.]+)\.", page)
    assert listed
    names = re.findall(r"`(\w+)`", listed[2])
    assert (sorted(names), int(listed[1])) == (sorted(BUNDLED.relations), len(names))
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    table = load(own_table, example)
    assert surest("[[Acme]] wurde von Ann gegründet.", table) == "founded"
    assert say("Ann climbed with [[Acme]].", table) == {"climbed_with": 1.0, "knows": 0.8}


def test_the_script_that_shows_what_links_say_reads_a_vault(vault: VaultFolder) -> None:
    vault.write("A.md", "Ann founded [[Acme]], then [[Bolt]].\n\nHere is [[Cem]].\n")
    script = Path(__file__).parents[1] / "benchmarks" / "typed_links.py"
    command = [sys.executable, str(script), str(vault.root), "--samples", "5"]
    environment = {"PYTHONUTF8": "1", "PYTHONPATH": str(script.parents[1])}
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, env=environment)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "1 notes, 3 links at 3 places, 2 typed (66.7%)" in ran.stdout
    assert "A.md:1 -> Acme\n    Ann founded ⟦Acme⟧, then Bolt." in ran.stdout


# --- phrases -----------------------------------------------------------------------------------------


def find(phrases: list[tuple[str, str]], text: str) -> list[tuple[str, int, int]]:
    cues = Phrases(phrases, NOTE_WORD).find(NOTE_WORD.findall(text.lower()))
    return sorted(((cue.name, cue.first, cue.last) for cue in cues), key=lambda cue: (cue[1], cue[0]))


def test_phrases_are_found_as_words_in_a_row_in_any_ending_where_a_star_is() -> None:
    assert find([("works at", "job")], "she works at night but works, at last") == [
        ("job", 1, 3),
        ("job", 5, 7),
    ]
    assert find([("found*", "f"), ("fo*", "x")], "foundry fo found co-found") == [
        ("f", 0, 1),
        ("x", 0, 1),
        ("x", 1, 2),
        ("f", 2, 3),
        ("x", 2, 3),
    ]
    assert find([("pour* money", "m")], "poured money, pouring out money") == [("m", 0, 2)]


def test_of_one_name_the_longer_phrase_is_the_only_one() -> None:
    phrases = [("board", "a"), ("board member", "a"), ("the board member of", "a"), ("member", "b")]
    assert find(phrases, "the board member of the board") == [("a", 0, 4), ("b", 2, 3), ("a", 5, 6)]


def test_phrases_of_scripts_without_spaces_are_found_inside_a_run() -> None:
    assert find([("创立", "f"), ("ก่อตั้ง", "f")], "安创立了公司 เขาก่อตั้งบริษัท")[0] == ("f", 1, 3)
    assert [name for name, _, _ in find([("ก่อตั้ง", "f")], "เขาก่อตั้งบริษัท")] == ["f"]
    assert [name for name, _, _ in find([("設立", "f")], "東京で設立された会社")] == ["f"]


def test_apostrophes_of_both_forms_are_the_same() -> None:
    assert find([("ann's company", "a")], "Ann’s company".replace("’", "'")) == [("a", 0, 2)]
    assert "studied_at" in say("Her master’s thesis at [[Acme]]")


# --- what sentences say ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("Ann founded [[Acme]] last year.", "founded"),
        ("[[Acme]] was founded by Ann.", "founded"),
        ("[[Acme]], founded in 2020, sells maps.", "founded"),
        ("She invested in [[Acme]].", "invested_in"),
        ("Bob works at [[Acme]].", "works_at"),
        ("Bob is partner at [[Acme]].", "works_at"),
        ("Cem advises [[Acme]].", "advises"),
        ("Ann is a board member of [[Acme]].", "advises"),
        ("Dana attended [[Acme]].", "attended"),
        ("Eve wrote [[Acme]].", "wrote"),
        ("The dam is part of [[Acme]].", "part_of"),
        ("The office is located in [[Acme]].", "located_in"),
        ("A film directed by [[Acme]].", "directed"),
        ("She is the daughter of [[Acme]].", "parent"),
        ("The round was led by [[Acme]].", "invested_in"),
        ("It has [[Acme]] as its parent company.", "part_of"),
        ("The weather near [[Acme]] was fine.", None),
    ],
)
def test_a_sentence_says_the_relation_of_its_nearest_words(text: str, relation: str | None) -> None:
    assert surest(text) == relation


def test_the_nearest_words_win() -> None:
    text = "Ann founded [[Acme]] and many years later she invested with her savings in [[Bolt]]."
    assert (surest(text), surest(text, name="Bolt")) == ("founded", "invested_in")
    both = say("Ann founded [[Acme]] and Bob advises it.")
    assert both["founded"] > both["advises"]


def test_words_further_away_say_less() -> None:
    near, far = (say(f"She founded {gap}[[Acme]].") for gap in ("", "in a small town by the sea "))
    assert near["founded"] == 1.0
    assert far["founded"] < 0.5


def test_words_of_another_clause_say_less() -> None:
    same, other = (say(f"They founded{mark} [[Acme]] grew.") for mark in ("", ","))
    assert 0 < other["founded"] < same["founded"]


def test_another_link_between_makes_words_say_less() -> None:
    text = "She founded [[Bolt]] [[Acme]]."
    assert 0 < say(text)["founded"] < say(text, name="Bolt")["founded"]


def test_the_words_of_links_say_nothing() -> None:
    assert say("The [[Founders Club]] met; [[Acme]] too.").keys() == {"attended"}
    assert say("See [[Bolt|the founder]] near [[Acme]].") == {}


def test_a_longer_phrase_keeps_the_words_inside_of_it_from_saying_something_else() -> None:
    assert say("A board member of [[Acme]].").keys() == {"advises"}
    assert "works_at" not in say("Ann joined the board of [[Acme]].")


def test_a_phrase_of_two_relations_says_both_and_what_follows_from_them() -> None:
    said = say("Ann is founder and CEO of [[Acme]].")
    assert said["founded"] == said["leads"] > said["works_at"] > 0


def test_a_relation_that_follows_is_as_sure_as_the_table_says(own_table: Path) -> None:
    table = load(own_table, '[relations.tuned]\nwords = ["tuned"]\nmeans = { worked_on = 0.5 }\n'
                            '[relations.worked_on]\nwords = ["worked on"]\n')  # fmt: skip
    assert say("Ann tuned [[Acme]].", table) == {"tuned": 1.0, "worked_on": 0.5}


def test_confidences_are_shared_between_all_that_is_said() -> None:
    one, two = say("Ann founded [[Acme]]."), say("Ann founded [[Acme]] wrote")
    assert two["founded"] == two["wrote"] < one["founded"]


def test_letters_that_change_their_length_in_lower_case_shift_nothing() -> None:
    assert say("İİİİİİ founded [[Acme]].") == say("IIIIII founded [[Acme]].")


def test_links_of_one_sentence_are_read_together() -> None:
    sentence = "Ann founded Acme and Bolt"
    places = [LinkPlace(12, 16, "", None), LinkPlace(21, 25, "", None)]
    near, far = type_links(sentence, places, BUNDLED)
    assert near["founded"] > far["founded"] > 0


# --- what is no statement ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Ann has never worked at [[Acme]].",
        "Ann didn’t invest in [[Acme]].",
        "We will not hire [[Acme]].",
        "Nobody from the choir has invested in [[Acme]].",
        "[[Acme]] (not written yet)",
        "[[Acme]] is not a member.",
        "[[Acme]] couldn't attend.",
        "Not yet written: [[Acme]]",
        "- Not invited, not attending:\n  - [[Acme]]",
        "Ann has yet to join [[Acme]].",
        "I don't think Ann founded [[Acme]].",
        "Ann knows nothing about [[Acme]].",
        "To be translated by [[Acme]].",
        "[[Acme]] (still to be written)",
        "Ann did NOT found [[Acme]], nor is she a founder of it.",
    ],
)
def test_what_is_denied_is_not_said(text: str) -> None:
    assert say(text) == {}


@pytest.mark.parametrize(
    "text",
    [
        "Maybe Ann will join [[Acme]].",
        "Bob might invest in [[Acme]] next year.",
        "I would like to meet [[Acme]].",
        "It is unclear whether Bob still works for [[Acme]].",
        "If you want to join [[Acme]], bring boots.",
        "Who funds [[Acme]] after June?",
        "Did Ann found [[Acme]]?",
        'He asked, "is it part of [[Acme]]?"',
    ],
)
def test_what_is_left_open_or_asked_is_not_said(text: str) -> None:
    assert say(text) == {}


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("Ann not only founded [[Acme]] but paid for it.", "founded"),
        ("No doubt she wrote [[Acme]].", "wrote"),
        ("It wasn't until May that Ann met [[Acme]].", "attended"),
        ("She had no money, but she founded [[Acme]].", "founded"),
        ("Not long after that he joined [[Acme]].", "works_at"),
        ("They do not talk any more: she founded [[Acme]].", "founded"),
        ("In the studio of The Man Who Did Not Sleep, directed by [[Acme]].", "directed"),
        ("[[Never Again]] was written by [[Acme]].", "wrote"),
        ("The film Why Don't You Play was directed by [[Acme]].", "directed"),
        ("She did not stay long with the people who founded [[Acme]].", "founded"),
        ("Cem, if I am right, advises [[Acme]].", "advises"),
        ("Ann has not rested since she founded [[Acme]].", "founded"),
        ("Bob was not there when Ann founded [[Acme]].", "founded"),
    ],
)
def test_a_denial_of_something_else_takes_nothing_back(text: str, relation: str) -> None:
    assert surest(text) == relation


def test_a_link_may_be_denied_alone() -> None:
    text = "She invested in [[Acme]], but not in [[Bolt]]."
    assert (surest(text), say(text, name="Bolt")) == ("invested_in", {})
    text = "Written by [[Acme]] instead of [[Bolt]]."
    assert (surest(text), say(text, name="Bolt")) == ("wrote", {})


@pytest.mark.parametrize(
    "text",
    [
        "Our grandmother's parrot lives in [[Acme]]'s kitchen.",
        "His cousin’s boat, [[Acme]], is moored here.",
        "His parents' house is near [[Acme]].",
        "[[Acme]] is my brother's dog.",
        "The members' dues are in [[Acme]].",
        "The founder's grave: [[Acme]]",
    ],
)
def test_what_somebody_related_has_is_not_related_itself(text: str) -> None:
    assert not say(text).keys() - {"located_in"}


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("[[Acme]]'s grandmother bred parrots.", "grandparent"),
        ("Her grandmother is [[Acme]].", "grandparent"),
        ("Ann's brother [[Acme]] came too.", "sibling"),
        ("My father's brother, [[Acme]], came too.", "sibling"),
        ("Her mother's name was [[Acme]].", "parent"),
        ("His mother's maiden name is [[Acme]].", "parent"),
        ("The choir's founder, [[Acme]], sings.", "founded"),
        ("Her master’s thesis at [[Acme]]", "studied_at"),
    ],
)
def test_who_is_related_is_said_beside_a_possessive(text: str, relation: str) -> None:
    assert surest(text) == relation


def test_guests_are_attendants_where_a_label_or_a_phrase_says_so() -> None:
    for text in ("Guests: [[Acme]]", "guest:: [[Acme]]", "She was on it as a guest of [[Acme]]."):
        assert surest(text) == "attended"
    assert surest("## Guests\n\n- [[Acme]]\n") == "attended"
    for text in ("[[Acme]]: guests and how to update them", "Serves eight guests. [[Acme]]",
                 "Guests loved [[Acme]].", "The guest network is in [[Acme]]."):  # fmt: skip
        assert say(text) == {}


@pytest.mark.parametrize(
    "text",
    [
        "It is unclear what [[Acme]] is for.",
        "The motherboard of [[Acme]] is dead.",
        "They investigated [[Acme]].",
        "The authorities closed [[Acme]].",
        "A relatively small [[Acme]].",
        "A friendly [[Acme]] waved.",
        "He agreed to [[Acme]] in writing.",
        "The salad is composed of [[Acme]].",
        "Salt plays a role in [[Acme]].",
        "A novel set in [[Acme]].",
    ],
)
def test_words_that_only_begin_alike_or_mean_something_else_say_nothing(text: str) -> None:
    assert say(text) == {}


def test_a_relation_stays_in_its_sentence() -> None:
    text = "She met the author. [[Acme]] is where we had lunch. Bob founded a choir."
    assert say(text) == {}
    assert say("it is the store of [[Acme]]. bob founded a choir.") == {}
    assert say("she married a painter. [[Acme]] was closed.") == {}
    assert say("bob founded something. in [[Acme]] it rained.") == {}
    assert say("Bob is a founder and Cem isn't. [[Acme]] is a town.") == {}


# --- labels and what stands above --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Author: [[Acme]]", {"wrote": 1.0}),
        ("> **Author:** see [[Acme]]", {"wrote": 1.0}),
        ("> **Invested in:** [the firm](Acme) and [[Bolt]]", {"invested_in": 1.0}),
        ("invested_in:: [[Acme]]", {"invested_in": 1.0}),
        ("Invested In:: [[Acme]]", {"invested_in": 1.0}),
        ("Team: [[Acme]]", {"works_at": 1.0, "member_of": 0.5}),
        ("Lead: [[Acme]]", {"leads": 1.0, "works_at": 0.7}),
        ("lead:: [[Acme]]", {"leads": 1.0, "works_at": 0.7}),
        ("a-rival-of:: [[Acme]]", {"a_rival_of": 1.0}),
        ("climbed with:: [[Acme]]", {"climbed_with": 1.0}),
        ("Climbed with: [[Acme]]", {}),
        ("> **Climbed with:** [[Acme]]", {"climbed_with": 1.0}),
        ("> **Note:** see [[Acme]]", {}),
        ("see also:: [[Acme]]", {}),
        ("tags:: [[Acme]]", {}),
        ("插件:: [[Acme]]", {"插件": 1.0}),
    ],
)
def test_a_label_says_what_it_means_and_only_a_marked_one_means_itself(
    text: str, said: dict[str, float]
) -> None:
    assert say(text) == said


def test_a_label_that_means_nothing_leaves_it_to_the_sentence() -> None:
    assert surest("Note: Ann founded [[Acme]]") == "founded"
    assert surest("News: [[Acme]] was founded") == "founded"


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ('author: "[[Acme]]"', {"wrote": 1.0}),
        ('works at:\n  - "[[Acme]]"', {"works_at": 1.0, "member_of": 0.5}),
        ('up: "[[Acme]]"', {"up": 1.0}),
        ('my.own-Key:\n  - "[[Acme]]"', {"my_own_key": 1.0}),
        ('related notes: "[[Acme]]"', {"related_notes": 1.0}),
        ('aliases: "[[Acme]]"', {}),
        ('"!!": "[[Acme]]"', {}),
        (f'{"long" * 30}: "[[Acme]]"', {}),
    ],
)
def test_a_property_says_what_its_key_means_else_its_own_name(
    properties: str, said: dict[str, float]
) -> None:
    assert say(f"---\n{properties}\n---\n") == said


def test_a_heading_a_list_item_and_a_column_say_something_of_what_is_below() -> None:
    for text in (
        "Text.\n\n## Investors\n\n[[Acme]]\n",
        "- Investors\n  - [[Acme]]\n",
        "Investors:\n\n- [[Acme]]\n",
        "> [!note] Investors\n> [[Acme]]\n",
        "| Investors |\n|---|\n| [[Acme]] |\n",
    ):
        assert say(text) == {"invested_in": 0.6}, text


def test_a_heading_speaks_of_what_a_row_begins_with_and_a_column_of_what_is_in_it() -> None:
    text = (
        "## Investors\n\n| no | who | plan | led by |\n|---|---|---|---|\n"
        "| 1 | [[Ann]] | [[Bolt]] | [[Cem]] |\n"
    )
    found = [surest(text, name=name) for name in ("Ann", "Bolt", "Cem")]
    assert found == ["invested_in", None, "leads"]


def test_words_for_labels_say_something_as_labels_and_headings_but_not_in_a_sentence() -> None:
    assert surest("Their team liked [[Acme]] a lot.") is None
    assert surest("Team: [[Acme]]") == surest("Text.\n\n## Team\n\n[[Acme]]\n") == "works_at"


# --- several places ----------------------------------------------------------------------------------


def test_several_places_make_a_relation_surer() -> None:
    assert combine([0.5, 0.5]) == 0.75
    assert combine([]) == 0.0
    assert combine([1.0, 1.0]) < 1.0


def test_the_surest_relation_over_all_places_is_chosen_with_the_place_that_says_it_best() -> None:
    assert choose_relation([{"a": 0.6}, {"b": 0.5}, {"b": 0.55}]) == ("b", 2)
    assert choose_relation([{}, {}]) == (None, 0)
    assert choose_relation([]) == (None, 0)


def test_of_two_equally_sure_relations_the_same_one_is_always_chosen() -> None:
    assert choose_relation([{"b": 0.5, "a": 0.5}]) == choose_relation([{"a": 0.5, "b": 0.5}]) == ("a", 0)


# --- a table of one's own ----------------------------------------------------------------------------


def test_a_table_in_another_language_adds_to_the_bundled_one(own_table: Path) -> None:
    german = load(own_table, GERMAN)
    assert surest("[[Acme]] wurde 2020 von Ann gegründet.", german) == "founded"
    assert surest("Ann ist Gründerin von [[Acme]].", german) == "founded"
    assert surest("Ann founded [[Acme]].", german) == "founded"
    assert say("Ben arbeitet bei [[Acme]].", german) == {
        "arbeitet_bei": 1.0,
        "works_at": 1.0,
    }
    assert surest("Arbeitgeber: [[Acme]]", german) == "arbeitet_bei"
    assert german.kinds["organisation"].places > BUNDLED.kinds["organisation"].places
    assert "firmen" in german.kinds["organisation"].places
    assert surest("[[Acme]] wurde 2020 von Ann gegründet.") is None


def test_a_table_for_a_script_without_spaces_types_links(own_table: Path) -> None:
    chinese = load(own_table, '[relations.founded]\nwords = ["创立", "创办"]\n')
    assert surest("安在二零二零年创立了[[Acme]]。", chinese) == "founded"


def test_words_add_to_a_row_of_the_same_name_and_replace_takes_its_place(own_table: Path) -> None:
    added = load(own_table, '[relations.founded]\nlabels = ["origin"]\nimplied = 0.5\n').relations["founded"]
    known = BUNDLED.relations["founded"]
    assert (added.words, added.between, added.implied) == (known.words, known.between, 0.5)
    assert added.labels == (*known.labels, "origin")
    text = '[relations.founded]\nreplace = true\nwords = ["Planted by"]\n'
    replaced = load(own_table, text).relations["founded"]
    assert (replaced.words, replaced.asks, replaced.means) == (("planted by",), (), {})
    text = '[kinds.person]\nreplace = true\nwords = ["Wer"]\nplaces = ["Leute"]\n'
    kind = load(own_table, text).kinds["person"]
    assert (kind.words, kind.places) == (("wer",), frozenset(("leute",)))


def test_lists_of_words_are_added_to(own_table: Path) -> None:
    table = load(own_table, '[plain]\nwords = ["Der"]\n[sharing]\nwords = ["gemeinsam"]\n')
    assert table.plain == BUNDLED.plain | {"der"}
    assert table.sharing == (*BUNDLED.sharing, "gemeinsam")


def test_denials_and_idioms_of_another_language_are_added_or_take_the_place_of_the_bundled(
    own_table: Path,
) -> None:
    own = '[denials]\nwords = ["nie", "kein*"]\n[idioms]\nwords = ["nie ohne"]\n'
    table = load(own_table, GERMAN + own)
    assert say("Sie hat nie gegründet: [[Acme]]", table) == {}
    assert say("Sie ist keine Mitgründerin von [[Acme]].", table) == {}
    assert surest("Nie ohne Gründer: [[Acme]]", table) == "founded"
    assert say("She never founded [[Acme]].", table) == {}
    only = load(own_table, '[denials]\nreplace = true\nwords = ["nunca"]\n')
    assert only.denials == ("nunca",)
    assert surest("She never founded [[Acme]].", only) == "founded"


def test_a_file_from_another_system_is_read(own_table: Path) -> None:
    own_table.write_bytes(b"\xef\xbb\xbf" + GERMAN.replace("\n", "\r\n").encode())
    assert "arbeitet_bei" in load_table(own_table).relations


def test_the_digest_tells_tables_apart_and_is_always_the_same_for_one(own_table: Path) -> None:
    german = load(own_table, GERMAN)
    assert BUNDLED.digest == load_table().digest != german.digest == load_table(own_table).digest


ERRORS: dict[str, tuple[str | bytes, str]] = {
    "no TOML": ("[relations", "is no TOML file"),
    "no UTF-8": (b"# \xff", "is no TOML file"),
    "deep": ("a = " + "[" * 5000, "is no TOML file"),
    "a table that is none": ('[relation.x]\nwords = ["a"]', "has a table [relation]"),
    "relations not a table": ("relations = 3", "[relations] is 3"),
    "a row that is no row": ("[relations]\nx = 3", "[relations.x] has 3"),
    "an unknown key": ('[relations.x]\nword = ["a"]', "[relations.x] has word"),
    "an unknown key of a kind": ('[kinds.x]\nwords = ["a"]\nasks = ["b"]', "[kinds.x] has asks"),
    "an unknown key of plain": ('[plain]\nasks = ["b"]', "[plain] has asks"),
    "a name with a capital": ('[relations.Works]\nwords = ["a"]', "[relations.Works]"),
    "a name all of capitals": ('[kinds.NAME]\nwords = ["a"]', "[kinds.NAME] has not the name"),
    "a name with a space": ('[relations."works at"]\nwords = ["a"]', "[relations.works at]"),
    "words that are a text": ('[relations.x]\nwords = "a"', "words is no list of words"),
    "words that are numbers": ("[relations.x]\nwords = [1]", "words is no list of words"),
    "no words": ('[relations.x]\nasks = ["a"]', "[relations.x] has no words"),
    "no words of a kind": ('[kinds.x]\nplaces = ["a"]', "[kinds.x] has no words"),
    "an empty word": ('[relations.x]\nwords = [" "]', "words has ''"),
    "a lone star": ('[relations.x]\nwords = ["*"]', "words has '*'"),
    "a star within": ('[relations.x]\nwords = ["a*b"]', "words has 'a*b'"),
    "a sign": ('[relations.x]\nlabels = ["organi?ation"]', "labels has 'organi?ation'"),
    "means that is a list": ('[relations.x]\nwords = ["a"]\nmeans = ["founded"]', "means is ['founded']"),
    "means too much": ('[relations.x]\nwords = ["a"]\nmeans = { founded = 2 }', "means.founded is 2"),
    "means true": ('[relations.x]\nwords = ["a"]\nmeans = { founded = true }', "means.founded is True"),
    "means nothing known": ('[relations.x]\nwords = ["a"]\nmeans = { fonded = 1 }', "means names 'fonded'"),
    "implied": ('[relations.x]\nwords = ["a"]\nimplied = 0', "implied is 0"),
    "implied a text": ('[relations.x]\nwords = ["a"]\nimplied = "1"', "implied is '1'"),
    "between a text": ('[relations.x]\nwords = ["a"]\nbetween = "person"', "between is 'person'"),
    "between one": ('[relations.x]\nwords = ["a"]\nbetween = [["person"]]', "between is [['person']]"),
    "between unknown": (
        '[relations.x]\nwords = ["a"]\nbetween = [["person", "persno"]]',
        "between names 'persno'",
    ),
    "seeds": ('[relations.x]\nwords = ["a"]\nseeds = [""]', "seeds is no list of texts"),
    "replace": ('[relations.x]\nwords = ["a"]\nreplace = 1', "replace is 1"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_file_that_cannot_be_used_is_refused_with_the_place_and_the_mend(
    own_table: Path, name: str
) -> None:
    text, message = ERRORS[name]
    own_table.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError, match=re.escape(message)) as caught:
        load_table(own_table)
    assert str(own_table) in str(caught.value)
    assert caught.value.mend


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"LINK_RELATIONS names .*none\.toml, which cannot be read"):
        load_table(tmp_path / "none.toml")
    with pytest.raises(SettingsError, match="cannot be read"):
        load_table(tmp_path)
