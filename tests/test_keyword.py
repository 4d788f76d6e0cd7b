"""Keyword search on a real PostgreSQL: operators, identifiers, stop words, scripts, languages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from search_bench import SearchBench, open_search_bench

NOTES = {
    "Heat pump": "A heat pump feeds the floor. It makes little noise.\n",
    "Boiler": "The boiler heats water. The pump of the boiler is loud.\n",
    "Pump heat": "The pump gives off heat of its own.\n",
    "Garden": "Tomatoes and beans need water.\n",
    "Code": "Call parse_front_matter, then HttpClient and encodeURIComponent. Edit docker-compose.yml.\n",
    "Windows": "The update failed with 0x80070005 again.\n",
    "Network": "The printer is at 192.168.1.10, the router at 192.168.1.1.\n",
    "Release": "We shipped v2.3.1 with fixes. C++ is compiled anew, C# is not.\n",
    "Mail": "Write to ann.lee@example.org, see https://docs.example.org/guide/setup?lang=en.\n",
    "Video": "YouTube holds the talk; the github mirror too.\n",
    "Speech": "To be, or not to be, that is the line.\n",
    "Band": "The Who played in the town.\n",
    "A whole": "The whole of it.\n",
    "Kaffee": "Das Café am Markt hat schöne Stühle. Die Krebsforschung macht große Fortschritte.\n",
    "Forschung": "Die Forschung an Krebs ist teuer, und die Häuser der Ärzte sind alt und groß.\n",
    "Chinese": "我们今天讨论了机器学习和数据库的设计。\n",
    "Japanese": "東京の図書館で日本語を勉強しました。コンピュータも使いました。\n",
    "Thai": "วันนี้ฉันไปตลาดซื้อผลไม้และปลา\n",
    "Korean": "오늘은 도서관에서 책을 읽었습니다.\n",
    "Mixed": "我用 Kubernetes 部署了服务，然后看 Grafana 面板。\n",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, server: str, migrated: str) -> Iterator[SearchBench]:
    with open_search_bench(tmp_path_factory.mktemp("keyword"), server, migrated, NOTES) as bench:
        yield bench


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory, server: str, migrated: str) -> Iterator[SearchBench]:
    notes = {name: text for name, text in NOTES.items() if text.isascii()}
    folder = tmp_path_factory.mktemp("english")
    with open_search_bench(folder, server, migrated, notes, fts_config="english") as bench:
        yield bench


@pytest.mark.parametrize(
    "query",
    [
        '"heat pump"',
        '"pump heat"',
        '"heat pump" OR boiler',
        "pump -boiler",
        'pump -"heat pump"',
        "boiler OR tomatoes OR line",
        "-pump water",
        "-pump",
        'floor "heat pump" -boiler',
        '"water" -heats',
        '"the boiler" pump',
        '"noise" OR -noise',
    ],
)
def test_operators_mean_what_postgresql_takes_them_for(english: SearchBench, query: str) -> None:
    statement = (
        "SELECT DISTINCT replace(file_path, '.md', '') FROM documents"
        " WHERE search_tsv @@ websearch_to_tsquery('english', %s)"
    )
    wanted = {path for (path,) in english.bench.rows(statement, query)}
    assert wanted
    assert set(english.words(query)) == wanted
    assert not english.keywords(query).loosened


def test_where_nothing_holds_all_of_it_quotes_and_exclusions_still_hold(english: SearchBench) -> None:
    found = english.keywords('does the "heat pump" harm tomatoes')
    assert found.loosened
    assert [hit.file_path for hit in found.hits] == ["Heat pump.md"]

    found = english.keywords("pump tomatoes line -boiler")
    assert found.loosened
    assert {hit.file_path for hit in found.hits} >= {"Garden.md", "Speech.md", "Heat pump.md"}
    assert "Boiler.md" not in {hit.file_path for hit in found.hits}


def test_a_phrase_that_is_nowhere_finds_nothing_and_names_no_word_as_missing(english: SearchBench) -> None:
    found = english.keywords('"tomatoes heat"')
    assert (found.hits, found.unknown) == ((), ())


@pytest.mark.parametrize(
    ("query", "note"), [('"heat pump"', "Heat pump"), ('pump -"heat pump" -boiler', "Pump heat")]
)
def test_hybrid_search_holds_to_quotes_and_exclusions(english: SearchBench, query: str, note: str) -> None:
    found = english.found(query)
    assert found[0] == note
    assert "Boiler" not in found
    assert ("Heat pump" in found) == (note == "Heat pump")


def test_an_excluded_word_is_no_part_of_a_name(english: SearchBench) -> None:
    assert "Heat pump" not in english.found("heat -pump")


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_quotes_and_exclusions_hold_in_every_mode(english: SearchBench, mode: str) -> None:
    for query in ("-pump", "line -pump"):
        shown = [h for h in english.ask(query, mode).results if not h.neighbor]
        assert shown
        assert not [hit.file_path for hit in shown if "pump" in f"{hit.content} {hit.title}".lower()]
    answer = english.ask('"no such phrase"', mode)
    assert answer.results == ()
    assert any("Leave out the quotes" in notice for notice in answer.notices)


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("parse_front_matter", "Code"),
        ("front matter", "Code"),
        ("HttpClient", "Code"),
        ("httpclient", "Code"),
        ("http client", "Code"),
        ("encodeURIComponent", "Code"),
        ("encode component", "Code"),
        ("docker-compose.yml", "Code"),
        ("docker compose", "Code"),
        ("compose.yml", "Code"),
        ("0x80070005", "Windows"),
        ("0X80070005", "Windows"),
        ("192.168.1.10", "Network"),
        ("v2.3.1", "Release"),
        ("V2.3.1", "Release"),
        ("C++", "Release"),
        ("C#", "Release"),
        ("ann.lee@example.org", "Mail"),
        ("ann lee", "Mail"),
        ("docs.example.org", "Mail"),
        ("https://docs.example.org/guide/setup", "Mail"),
        ("guide setup", "Mail"),
        ("youtube", "Video"),
        ("YouTube", "Video"),
        ("you tube", "Video"),
        ("GitHub", "Video"),
    ],
)
def test_an_identifier_is_found_whole_and_by_part(index: SearchBench, query: str, note: str) -> None:
    assert index.words(query)[:1] == [note]


def test_a_word_run_together_is_not_said_to_be_missing_by_its_parts(index: SearchBench) -> None:
    assert index.keywords("GitHub").unknown == ()
    assert index.keywords("GitLab").unknown == ("Git", "Lab")


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("to be or not to be", "Speech"),
        ("To be, or not to be", "Speech"),
        ('"to be, or not to be"', "Speech"),
        ("the who", "Band"),
        ("The Who", "Band"),
        ('"the who"', "Band"),
        ("The, who?", "Band"),
    ],
)
def test_a_query_of_stop_words_alone_is_looked_for_as_it_is_written(
    index: SearchBench, query: str, note: str
) -> None:
    assert index.words(query)[:1] == [note]


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("机器学习", "Chinese"),
        ("数据库设计", "Chinese"),
        ("図書館", "Japanese"),
        ("日本語の勉強", "Japanese"),
        ("コンピュータ", "Japanese"),
        ("ตลาด", "Thai"),
        ("ผลไม้", "Thai"),
        ("도서관", "Korean"),
        ("책", "Korean"),
        ("部署 kubernetes", "Mixed"),
        ("grafana", "Mixed"),
        ("Grafana面板", "Mixed"),
        ('"机器学习"', "Chinese"),
    ],
)
def test_text_without_spaces_is_found(index: SearchBench, query: str, note: str) -> None:
    assert index.words(query)[:1] == [note]


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("cafe", "Kaffee"),
        ("café", "Kaffee"),
        ("CAFÉ", "Kaffee"),
        ("cafe\u0301", "Kaffee"),
        ("schone stuhle", "Kaffee"),
        ("Stuhl", "Kaffee"),
        ("STÜHLE", "Kaffee"),
        ("Haus der Ärztin", "Forschung"),
        ("GROSSE Fortschritte", "Kaffee"),
        ("große fortschritte", "Kaffee"),
    ],
)
def test_diacritics_case_and_endings_do_not_matter(index: SearchBench, query: str, note: str) -> None:
    assert index.words(query)[:1] == [note]


def test_a_compound_also_finds_its_parts(index: SearchBench) -> None:
    found = index.words("Krebsforschung")
    assert set(found[:2]) == {"Kaffee", "Forschung"}
    request = {"mode": "keyword", "without": ("compounds",)}
    assert "Forschung" not in index.found("Krebsforschung", **request)


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("what should I know about the noise that our heat pump makes at night?", "Heat pump"),
        ("how do people in this house usually give water to the tomatoes", "Garden"),
        ("Wer bezahlt eigentlich die teure Forschung in unserem Land?", "Forschung"),
        ("私たちは東京のどこで日本語を勉強しましたか？", "Japanese"),
    ],
)
def test_a_question_is_never_emptied_by_requiring_every_word(
    index: SearchBench, query: str, note: str
) -> None:
    assert index.words(query)[:1] == [note]


def test_scores_lie_between_none_and_all_of_a_query(index: SearchBench) -> None:
    for query in ("pump", "heat pump noise", "xyzzy pump", "YouTube", "机器学习", "Krebsforschung"):
        hits = index.keywords(query).hits
        assert hits
        assert all(0 < hit.score < 1 for hit in hits)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_words_that_occur_nowhere_are_named(index: SearchBench) -> None:
    found = index.keywords("pump xyzzy plugh")
    assert found.unknown == ("xyzzy", "plugh")
    assert found.words == 3


def test_filters_do_not_make_words_unknown(index: SearchBench) -> None:
    answer = index.ask("pump xyzzy", mode="keyword", folder="nowhere")
    assert answer.results == ()
    assert any("Not found anywhere: xyzzy." in notice for notice in answer.notices)


@pytest.mark.parametrize(
    "query",
    ["'; DROP TABLE notes; --", "\\", "%", "_", '"', "()&|!:*", "<->", "a:*", "-", '-""', "OR OR", "\u200b"],
)
def test_signs_mean_nothing_to_the_database(index: SearchBench, query: str) -> None:
    assert isinstance(index.words(query), list)
    assert index.found(query, mode="keyword") == index.words(query)[:10]
