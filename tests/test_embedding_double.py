"""The stand-in for Ollama keeps to what Ollama does, where other tests rely on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest
from ollama_double import Model, OllamaDouble, embed


def ask(url: str, **body: object) -> httpx.Response:
    return httpx.post(
        f"{url}/api/embed", json={"model": "nomic-embed-text", **body}, trust_env=False, timeout=20
    )


def test_texts_that_share_words_are_nearer() -> None:
    query, near, far = (
        np.array(embed(text, 64))
        for text in (
            "replacing a failed disk",
            "how the failed disks were replaced",
            "banana bread with walnuts",
        )
    )
    assert query @ near > query @ far + 0.3
    assert np.linalg.norm(query) == pytest.approx(1)
    assert embed("search_query: a lamp", 64) == embed("a lamp", 64)


def test_it_writes_as_ollama_does() -> None:
    with OllamaDouble(models=["nomic-embed-text", Model("gemma3", capabilities=("completion",))]) as ollama:
        ollama.writes = "a text"
        ollama.writing_faults.append("busy")

        def generate(**body: object) -> tuple[int, object]:
            asked = httpx.post(f"{ollama.url}/api/generate", json=body, trust_env=False, timeout=20)
            return asked.status_code, asked.json().get("response", asked.json().get("error"))

        assert generate(model="gemma3") == (200, "")  # only loaded; no prompt, no fault
        assert generate(model="gemma3", prompt="Write")[0] == 503
        assert generate(model="gemma3", prompt="Write") == (200, "a text")
        assert generate(model="gemma4", prompt="Write") == (404, "model 'gemma4' not found")
        assert generate(model="nomic-embed-text", prompt="Write")[0] == 400
        assert len(ollama.writing_calls) == 4


def test_it_answers_as_ollama_does() -> None:
    with OllamaDouble(models=["nomic-embed-text", Model("gemma3", capabilities=("completion",))]) as ollama:
        assert ask(ollama.url, input="").json()["embeddings"] == []
        assert ask(ollama.url, input=[]).json()["embeddings"] == []
        assert len(ask(ollama.url, input=["a", "b"]).json()["embeddings"]) == 2
        assert len(ask(ollama.url, input="a", dimensions=16).json()["embeddings"][0]) == 16
        assert ask(ollama.url, input=["a"], model="absent").status_code == 404
        assert ask(ollama.url, input=["a"], model="gemma3").status_code == 400
        too_long = ["word " * 3000]
        assert ask(ollama.url, input=too_long, truncate=False).status_code == 400
        assert ask(ollama.url, input=too_long).status_code == 200


def test_as_a_program_it_prints_its_address_and_is_steered_over_http() -> None:
    script = Path(__file__).with_name("ollama_double.py")
    command = [
        sys.executable,
        str(script),
        "--port",
        "0",
        "--dimensions",
        "16",
        "--model",
        "nomic-embed-text",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        url = program.stdout.readline().strip()
        try:
            httpx.post(f"{url}/double", json={"faults": ["busy"]}, trust_env=False)
            assert ask(url, input=["a"]).status_code == 503
            assert len(ask(url, input=["a"]).json()["embeddings"][0]) == 16
            state = httpx.get(f"{url}/double", trust_env=False).json()
            assert (state["embed_calls"], state["texts"]) == (2, ["a"])
        finally:
            program.terminate()
        assert program.wait(20) == 0
