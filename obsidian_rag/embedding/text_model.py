"""A text model of Ollama, asked for short answers while a person waits."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from obsidian_rag.embedding.ollama import explain
from obsidian_rag.embedding.ollama_api import Fault, Kind, OllamaClient, read_address
from obsidian_rag.errors import EmbedderError, EmbedderUnavailable, ModelUnsuitable

# Seconds in which the largest models come from a disk into memory.
_LOAD_TIMEOUT = 120.0
# The server answers, but this model does not give what was asked for.
_UNFIT = {Kind.REFUSED, Kind.GARBLED, Kind.NOT_EMBEDDING, Kind.TOO_LONG, Kind.NAN}


class TextModel:
    """The model `name` of the Ollama at `ollama_url`; `setting` is what a person names it by. Thread-safe.

    Raises SettingsError for an address that is none.
    """

    def __init__(self, name: str, ollama_url: str | None, setting: str) -> None:
        self.name = name.strip()
        self._setting = setting
        self._client = OllamaClient(read_address(ollama_url))
        self._loading = threading.Lock()

    def write(self, system: str, prompt: str, form: dict[str, Any], most_tokens: int, timeout: float) -> str:
        """The model's answer to a prompt, as JSON of the schema `form`, within `timeout` seconds.

        After a time-out the model is loaded in the background: Ollama gives up loading it when nobody waits
        any more, so that the next question would come too early as well.
        Raises EmbedderUnavailable, ModelMissing, ModelUnsuitable.
        """
        try:
            return self._client.generate(
                self.name, prompt, system=system, form=form, most_tokens=most_tokens, timeout=timeout
            )
        except Fault as fault:
            raise self._explain(fault) from fault

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _explain(self, fault: Fault) -> EmbedderError:
        where = self._client.address.shown
        if fault.kind is Kind.SLOW:
            threading.Thread(target=self._load, name="load-text-model", daemon=True).start()
            return EmbedderUnavailable(
                f"{self.name} of Ollama at {where} is too slow ({fault.text})",
                f"It may be loading still: ask again later, load it with `ollama run {self.name}`, or choose"
                f" a smaller {self._setting}",
            )
        if fault.kind is Kind.NOT_OLLAMA:
            return EmbedderUnavailable(
                f"What answers at {where} is not Ollama ({fault.text})", "Check OLLAMA_URL"
            )
        if fault.kind in _UNFIT:
            return ModelUnsuitable(
                f"{self.name} of Ollama at {where} writes no answer ({fault.text})",
                f"Set {self._setting} to a text model; Ollama has to be 0.5 or newer",
            )
        return explain(fault, self._client.address, self.name, self._setting)

    def _load(self) -> None:
        if not self._loading.acquire(blocking=False):
            return  # it is under way
        try:
            # What is wrong is said by the next question; a closed client means that nobody asks any more.
            with suppress(Fault, RuntimeError):
                self._client.load(self.name, _LOAD_TIMEOUT)
        finally:
            self._loading.release()
