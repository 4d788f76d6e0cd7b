"""Which text search configuration fits a note: the language it is written in, told from its text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

AUTO = "auto"
FALLBACK = "english"  # of notes too short to tell; what is not English loses only its stemming
SAMPLE = 3000  # characters of a note: enough to tell, and bounded for a note of megabytes
# The last of these are read first, past properties whose names are English in every vault. On notes of nine
# vaults they told what the whole sample did, in a sixth of the time.
GLANCE = 300
CERTAINTY = 0.9  # from which a guess is believed; below it are mostly notes of a few words

# Languages for which PostgreSQL ships a stemmer. Those without spaces are found by pairs of characters;
# what Latin words they hold are mostly English.
CONFIGS = {
    "ar": "arabic", "hy": "armenian", "eu": "basque", "ca": "catalan", "da": "danish", "nl": "dutch",
    "en": "english", "et": "estonian", "fi": "finnish", "fr": "french", "de": "german", "el": "greek",
    "hi": "hindi", "hu": "hungarian", "id": "indonesian", "ga": "irish", "it": "italian",
    "lt": "lithuanian", "ne": "nepali", "nb": "norwegian", "nn": "norwegian", "no": "norwegian",
    "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "es": "spanish",
    "sv": "swedish", "ta": "tamil", "tr": "turkish", "zh": "english", "ja": "english", "ko": "english",
}  # fmt: skip


def choose_config(text: str, available: Iterable[str]) -> str:
    """The configuration for a text, among those the database has."""
    sample = text[:SAMPLE]
    for part in dict.fromkeys((sample[-GLANCE:], sample)):
        if part.strip():
            language, certainty = _identifier().classify(part)
            config = CONFIGS.get(language, "simple")
            if certainty >= CERTAINTY and config in available:
                return config
    return FALLBACK


@cache
def _identifier() -> Any:
    from obsidian_rag.language_model import load_identifier

    return load_identifier()
