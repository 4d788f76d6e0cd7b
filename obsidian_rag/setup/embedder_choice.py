"""Which embedder a new index gets: what the settings name if it works, else what the person prefers."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

from obsidian_rag.config import Settings
from obsidian_rag.doctor.embedder import ONCE
from obsidian_rag.embedding import open_embedder
from obsidian_rag.embedding.catalog import DEFAULT_OLLAMA_MODEL
from obsidian_rag.embedding.embedder import EmbeddingModel
from obsidian_rag.embedding.ollama_api import read_address
from obsidian_rag.errors import EmbedderUnavailable, ModelMissing, ObsidianRagError
from obsidian_rag.setup.talk import Talk


def choose_embedder(
    settings: Settings, recorded: EmbeddingModel | None, talk: Talk, search_path: str | None, *, needed: bool
) -> Settings:
    """The settings with an embedder that works, said in a line. Offers to pull a model that Ollama lacks; the
    bundled model stands in where the choice is free.

    `recorded` is the model of an index that exists. Where it is not `needed` yet, what fails is only said.
    Raises EmbedderError kinds, IndexMismatch and SettingsError.
    """
    try:
        return _choose(settings, recorded, talk, search_path)
    except ObsidianRagError as exc:
        if needed:
            raise
        talk.say(f"Not ready yet: {exc}")
        return settings


def _choose(
    settings: Settings, recorded: EmbeddingModel | None, talk: Talk, search_path: str | None
) -> Settings:
    try:
        _try(settings, recorded, talk)
        return settings
    except (ModelMissing, EmbedderUnavailable) as exc:
        if recorded is not None or settings.embedder == "local":
            raise
        talk.say(str(exc))
        if isinstance(exc, ModelMissing) and _pull(settings, talk, search_path):
            _try(settings, recorded, talk)
            return settings
        is_free = settings.embedder == "auto" and settings.embed_model is None
        # An address that was given is a wish: without anybody to ask, it is not passed over.
        if not is_free or (not talk.asks and isinstance(exc, EmbedderUnavailable)):
            raise
        if not talk.confirm("Use the bundled model instead? It needs nothing else."):
            raise
        bundled = replace(settings, embedder="local")
        _try(bundled, recorded, talk)
        return bundled


def _try(settings: Settings, recorded: EmbeddingModel | None, talk: Talk) -> None:
    said = list[str]()
    opened = open_embedder(
        embedder=settings.embedder,
        model=settings.embed_model,
        ollama_url=settings.ollama_url,
        ollama_url_is_set=settings.ollama_url_is_set,
        recorded=recorded,
        say=said.append,
        documents=ONCE,
        query=ONCE,
    )
    model = opened.model
    opened.close()
    own = f"Embedding with {model}" + (", as the index that exists." if recorded else ".")
    talk.say("\n".join(said) or own)


def _pull(settings: Settings, talk: Talk, search_path: str | None) -> bool:
    """Let Ollama fetch the model, where it runs here and the person agrees."""
    ollama = shutil.which("ollama", path=search_path)
    if not talk.asks or ollama is None or not read_address(settings.ollama_url).loopback:
        return False
    model = settings.embed_model or DEFAULT_OLLAMA_MODEL
    if not talk.confirm(f"Fetch it now? (ollama pull {model})"):
        return False
    done = subprocess.run([ollama, "pull", model], check=False)
    if done.returncode:
        talk.say(f"ollama pull {model} failed (exit code {done.returncode}).")
    return done.returncode == 0
