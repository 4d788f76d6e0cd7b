"""Which text search configuration a note gets."""

from __future__ import annotations

import pytest
from conftest import Workbench

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
