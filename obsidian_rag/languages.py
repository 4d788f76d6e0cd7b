"""Which text search configuration fits a note: the language it is written in, told from its text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

AUTO = "auto"
FALLBACK = "english"  # of notes too short to tell; what is not English loses only its stemming
SAMPLE = 3000  # characters of a note: enough to tell, and bounded for a note of megabytes
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
    if not sample.strip():
        return FALLBACK
    language, certainty = _identifier().classify(sample)
    config = CONFIGS.get(language, "simple")
    return config if certainty >= CERTAINTY and config in available else FALLBACK


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
