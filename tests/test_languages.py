"""Which text search configuration a note gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Workbench
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from obsidian_rag.language_model import load_identifier
from obsidian_rag.languages import CONFIGS, FALLBACK, choose_config

TEXTS = {
    "english": "The garden needs water every morning, and the tomatoes have to be tied to their sticks.",
    "german": "Der Garten braucht jeden Morgen Wasser, und die Tomaten müssen angebunden werden.",
    "french": "Le jardin a besoin d'eau chaque matin, et les tomates doivent être attachées aux tuteurs.",
    "spanish": "El jardín necesita agua cada mañana y los tomates tienen que estar atados a sus palos.",
    "russian": "Саду нужна вода каждое утро, а помидоры нужно подвязывать к колышкам.",
}
EVERY = frozenset({*CONFIGS.values(), "simple"})


@pytest.mark.parametrize("language", TEXTS)
def test_a_note_gets_the_configuration_of_its_language(language: str) -> None:
    assert choose_config(TEXTS[language], EVERY) == language


@pytest.mark.parametrize("text", ["", "  \n", "Ok."])
def test_a_note_too_short_to_tell_gets_the_fallback(text: str) -> None:
    assert choose_config(text, EVERY) == FALLBACK


def test_a_language_that_the_database_has_no_stemmer_for_gets_the_fallback() -> None:
    assert choose_config(TEXTS["german"], {"english", "simple"}) == FALLBACK


@pytest.mark.parametrize(
    "text", ["今日は庭に水をやって、トマトを支柱に結びました。", "今天我给花园浇水，把西红柿绑在木棍上。"]
)
def test_latin_words_in_text_without_spaces_are_taken_for_english(text: str) -> None:
    assert choose_config(text, EVERY) == "english"


def test_a_mixed_vault_needs_no_configuration(bench: Workbench) -> None:
    for language, text in TEXTS.items():
        bench.vault.write(f"{language}.md", text + "\n")
    bench.index()

    assert dict(bench.rows("SELECT file_path, fts_config FROM notes")) == {
        f"{language}.md": language for language in TEXTS
    }


def test_a_configuration_that_is_set_holds_for_every_note(bench: Workbench) -> None:
    bench.vault.write("de.md", TEXTS["german"])
    bench.index({"fts_config": "simple"})

    assert bench.rows("SELECT fts_config FROM notes") == [("simple",)]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A folder with the unpacked model."""
    load_identifier(tmp_path)
    return tmp_path


@pytest.mark.parametrize("text", [*TEXTS.values(), "", "Ok.", "今日は庭に水をやって。", "\ud800"])
def test_the_unpacked_model_says_what_the_packed_one_says(cache: Path, text: str) -> None:
    packed = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)

    language, certainty = packed.classify(text)
    assert load_identifier(cache).classify(text) == (language, pytest.approx(certainty))


def test_the_model_is_unpacked_once_and_what_an_older_version_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "py3langid-0.0.1").mkdir()

    load_identifier(tmp_path)
    (folder,) = tmp_path.iterdir()
    before = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    load_identifier(tmp_path)

    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir()} == before


@pytest.mark.parametrize("damage", ["missing", "cut", "emptied"])
def test_an_unpacked_model_that_is_not_whole_is_unpacked_anew(cache: Path, damage: str) -> None:
    for file in next(cache.iterdir()).iterdir():
        whole = file.read_bytes()
        if damage == "missing":
            file.unlink()
        else:
            file.write_bytes(whole[: len(whole) // 2] if damage == "cut" else b"")

        assert load_identifier(cache).classify(TEXTS["german"])[0] == "de"
        assert file.read_bytes() == whole


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")

    assert load_identifier(tmp_path / "file" / "below").classify(TEXTS["german"])[0] == "de"
