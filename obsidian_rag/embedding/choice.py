"""Which embedder: what the settings ask for, what is there, and what the index was made with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from obsidian_rag.embedding.catalog import DEFAULT_LOCAL_MODEL, DEFAULT_OLLAMA_MODEL, same_model
from obsidian_rag.embedding.embedder import Embedder, EmbeddingModel
from obsidian_rag.embedding.local import is_local_name, local_name, open_local
from obsidian_rag.embedding.ollama import open_ollama
from obsidian_rag.embedding.ollama_api import Fault, OllamaClient, read_address
from obsidian_rag.embedding.patience import FOR_DOCUMENTS, FOR_QUERY, Patience
from obsidian_rag.errors import EmbedderUnavailable, IndexMismatch, ModelMissing, SettingsError

_REEMBED = "`obsidian-rag index --reembed`"


def open_embedder(
    *,
    embedder: str,
    model: str | None,
    ollama_url: str | None,
    ollama_url_is_set: bool,
    recorded: EmbeddingModel | None,
    coming: EmbeddingModel | None = None,
    say: Callable[[str], None],
    cache_dir: Path | None = None,
    documents: Patience = FOR_DOCUMENTS,
    query: Patience = FOR_QUERY,
) -> Embedder:
    """The embedder for an index. Asks Ollama about the model where it is Ollama's; embeds nothing.

    `embedder` is "ollama", "local" or "auto"; `model` is None where EMBED_MODEL is not set; `recorded` is
    what the index holds vectors of, None for an empty index or one about to be embedded anew. `coming` is the
    model of a re-embedding that is not finished: settings may name it already, the recorded one is opened.
    Raises SettingsError, IndexMismatch, EmbedderUnavailable, ModelMissing, ModelUnsuitable.
    """
    if embedder not in ("ollama", "local", "auto"):
        raise SettingsError(f"EMBEDDER={embedder} is not known", "Set it to ollama, local or auto")
    model = (model or "").strip() or None
    if recorded is not None:
        check_recorded(recorded, embedder, model, coming)
        if _find_mismatch(recorded, embedder, model):
            model = None  # it is the one to come
        return _open_recorded(recorded, model, ollama_url, say, cache_dir, documents, query)
    if embedder == "local" or (embedder == "auto" and model is not None and is_local_name(model)):
        return open_local(model or DEFAULT_LOCAL_MODEL, cache_dir=cache_dir, say=say)
    client = OllamaClient(read_address(ollama_url))
    try:
        if embedder == "auto" and not ollama_url_is_set and (absent := _absence(client)) is not None:
            client.close()
            return _open_instead(client, absent, model, say)
        opened = open_ollama(model or DEFAULT_OLLAMA_MODEL, client, documents=documents, query=query)
    except ModelMissing as error:
        client.close()
        if embedder == "auto" and model is None:
            raise ModelMissing(
                error.message, f"{error.mend}, or set EMBEDDER=local for the bundled model"
            ) from error
        raise
    except BaseException:
        client.close()
        raise
    if embedder == "auto":
        say(f"Embedding with {opened.model.name} of Ollama at {client.address.shown}.")
    return opened


def _absence(client: OllamaClient) -> Fault | None:
    """None where Ollama answers; else why it does not."""
    try:
        client.version()
    except Fault as fault:
        return fault
    return None


def _open_instead(
    client: OllamaClient, absent: Fault, model: str | None, say: Callable[[str], None]
) -> Embedder:
    """The bundled model, where the choice is free and Ollama is not there."""
    where = client.address.shown
    if model is not None:
        raise EmbedderUnavailable(
            f"EMBED_MODEL={model} needs Ollama, which does not answer at {where} ({absent.text})",
            "Start it with `ollama serve`, set OLLAMA_URL, or unset EMBED_MODEL to use the bundled model",
        ) from absent
    try:
        opened = open_local(DEFAULT_LOCAL_MODEL)
    except ModelMissing as error:
        raise EmbedderUnavailable(
            f"Ollama does not answer at {where}, and the bundled model cannot stand in: {error.message}",
            f"Start it with `ollama serve`. {error.mend}",
        ) from error
    say(f"Ollama does not answer at {where}: embedding with the bundled model {opened.model.name}.")
    return opened


def check_recorded(
    recorded: EmbeddingModel, embedder: str, model: str | None, coming: EmbeddingModel | None = None
) -> None:
    """Raise IndexMismatch where the settings name another embedder than made the index, nor that of a
    re-embedding that is not finished. Asks nobody.
    """
    asked = _find_mismatch(recorded, embedder, model)
    if asked is None or (coming is not None and _find_mismatch(coming, embedder, model) is None):
        return
    raise IndexMismatch(
        f"The index holds vectors of {recorded}, and {asked} is asked for: they cannot be mixed",
        f"Keep the index with EMBEDDER={recorded.provider} EMBED_MODEL={recorded.name}, "
        f"or embed every note again with {_REEMBED}",
    )


def _find_mismatch(model: EmbeddingModel, embedder: str, name: str | None) -> str | None:
    """The setting that does not fit a model, None where both do."""
    name = (name or "").strip() or None
    if embedder not in ("auto", model.provider):
        return f"EMBEDDER={embedder}"
    if name is None:
        return None
    if model.provider == "local":
        same = local_name(name).lower() == model.name.lower()
    else:
        same = same_model(name, model.name)
    return None if same else f"EMBED_MODEL={name}"


def _open_recorded(
    recorded: EmbeddingModel,
    model: str | None,
    ollama_url: str | None,
    say: Callable[[str], None],
    cache_dir: Path | None,
    documents: Patience,
    query: Patience,
) -> Embedder:
    """The embedder the index was made with; `model` is its name as the settings spell it."""
    if recorded.provider == "local":
        opened: Embedder = open_local(recorded.name, cache_dir=cache_dir, say=say)
    else:
        client = OllamaClient(read_address(ollama_url))
        try:
            opened = open_ollama(model or recorded.name, client, documents=documents, query=query)
        except BaseException:
            client.close()
            raise
    if opened.model.dimensions != recorded.dimensions:
        found = opened.model
        opened.close()
        raise IndexMismatch(
            f"The index holds vectors of {recorded}, but that model now has {found.dimensions} dimensions",
            f"Embed every note again with {_REEMBED}, or bring back the model as it was",
        )
    return opened
