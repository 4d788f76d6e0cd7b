"""What people write for OLLAMA_URL and EMBED_MODEL, and how long texts are cut. No sockets here."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from obsidian_rag.embedding.catalog import base_name, canonical_name, find_card, same_model
from obsidian_rag.embedding.ollama_api import read_address
from obsidian_rag.embedding.vectors import mean, normalise
from obsidian_rag.embedding.windows import clean, cut_at_tokens, cut_evenly, least_tokens, likely_tokens
from obsidian_rag.errors import SettingsError


@pytest.mark.parametrize(
    ("written", "url", "loopback"),
    [
        (None, "http://localhost:11434", True),
        ("", "http://localhost:11434", True),
        ("localhost", "http://localhost:11434", True),
        ("localhost:11434", "http://localhost:11434", True),
        (" 'http://localhost:11434/' ", "http://localhost:11434", True),
        ("127.0.0.1:8080", "http://127.0.0.1:8080", True),
        ("0.0.0.0", "http://127.0.0.1:11434", True),
        ("0.0.0.0:11500", "http://127.0.0.1:11500", True),
        ("http://0.0.0.0:11434", "http://127.0.0.1:11434", True),
        (":11434", "http://localhost:11434", True),
        ("[::]:11434", "http://[::1]:11434", True),
        ("http://[::1]:11434", "http://[::1]:11434", True),
        ("http://host:11434/", "http://host:11434", False),
        ("host.lan:11434", "http://host.lan:11434", False),
        ("HTTP://Host:11434", "http://host:11434", False),
        ("192.168.1.7", "http://192.168.1.7:11434", False),
        ("https://ai.example.org", "https://ai.example.org", False),
        ("https://ai.example.org:8443/ollama/", "https://ai.example.org:8443/ollama", False),
        ("http://host:11434/api", "http://host:11434", False),
        ("http://host:11434/api/embed", "http://host:11434", False),
        ("http://host:11434/v1/", "http://host:11434", False),
        ("http://host/proxy//api/embeddings", "http://host/proxy", False),
    ],
)
def test_an_address_is_read_as_people_write_it(written: str | None, url: str, loopback: bool) -> None:
    address = read_address(written)
    assert (address.url, address.loopback, address.shown) == (url, loopback, url)


@pytest.mark.parametrize("written", ["http://ann:p%40ss@host:11434", "ann:p%40ss@host"])
def test_a_password_is_used_and_masked(written: str) -> None:
    address = read_address(written)
    assert (address.user, address.password) == ("ann", "p@ss")
    assert address.url == "http://host:11434"
    assert address.shown == "http://ann:***@host:11434"


@pytest.mark.parametrize(
    "written",
    [
        "ftp://host",
        "http://host:port",
        "http://host:99999",
        "http://[::1",
        "http://a b",
        "postgres://ann:hidden@host/x",
    ],
)
def test_an_address_that_cannot_be_used_is_named_with_its_mend(written: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_address(written)
    assert "OLLAMA_URL" in caught.value.message
    assert "http://localhost:11434" in caught.value.mend
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "query", "document"),
    [
        ("nomic-embed-text", "search_query: ", "search_document: "),
        ("nomic-embed-text:latest", "search_query: ", "search_document: "),
        ("nomic-embed-text:v1.5", "search_query: ", "search_document: "),
        ("Nomic-Embed-Text:137m-v1.5-fp16", "search_query: ", "search_document: "),
        ("hf.co/nomic-ai/nomic-embed-text-v1.5-GGUF:Q8_0", "search_query: ", "search_document: "),
        ("nomic-ai/nomic-embed-text-v1.5-Q", "search_query: ", "search_document: "),
        ("mxbai-embed-large:335m", "Represent this sentence for searching relevant passages: ", ""),
        ("snowflake-arctic-embed2", "query: ", ""),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", ""),
        ("snowflake-arctic-embed:22m", "Represent this sentence for searching relevant passages: ", ""),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        ("bge-m3:567m", "", ""),
        ("embeddinggemma:300m", "task: search result | query: ", "title: none | text: "),
        ("intfloat/multilingual-e5-large", "query: ", "passage: "),
        ("all-minilm:33m", "", ""),
        ("myown/embedder", "", ""),
        ("nomic", "", ""),
    ],
)
def test_a_model_has_the_prefixes_of_its_family(name: str, query: str, document: str) -> None:
    card = find_card(name)
    assert (card.query_prefix, card.document_prefix) == (query, document)


def test_a_model_of_the_table_states_its_context() -> None:
    assert find_card("all-minilm:latest").context == 256
    assert find_card("mxbai-embed-large").context == 512
    assert find_card("qwen3-embedding:8b").dimensions is None
    assert find_card("qwen3-embedding:8b").query_prefix.endswith("\nQuery:")


def test_names_of_one_model_are_one() -> None:
    assert canonical_name("bge-m3:latest ") == "bge-m3"
    assert same_model("bge-m3", "BGE-M3:latest")
    assert not same_model("qwen3-embedding:0.6b", "qwen3-embedding:8b")
    assert base_name("registry.example.org/team/Bge-M3:q4") == "bge-m3"


@given(st.text(), st.integers(2, 40))
def test_an_even_cut_loses_nothing_and_is_even(text: str, parts: int) -> None:
    pieces = cut_evenly(text, parts)
    assert "".join(pieces) == text
    if len(text) >= parts:
        assert len(pieces) == parts
        assert all(pieces)
        assert max(map(len, pieces)) <= 1.6 * len(text) / parts + 2


@given(st.lists(st.text("abcdef", min_size=1, max_size=12), min_size=1, max_size=200), st.integers(1, 30))
def test_a_cut_at_tokens_loses_nothing_and_fits(words: list[str], room: int) -> None:
    text = " ".join(words)
    spans = [(match.start(), match.end()) for match in re.finditer(r"\w{1,3}", text)]
    pieces = cut_at_tokens(text, spans, room)
    assert "".join(pieces) == text
    starts = [start for start, _ in spans]
    at = 0
    for piece in pieces:
        assert sum(at <= start < at + len(piece) for start in starts) <= room
        at += len(piece)


def test_a_cut_prefers_white_space() -> None:
    text = "one two three\n\nfour five six seven"
    assert cut_evenly(text, 2)[0] == "one two three\n\n"
    assert all(piece.endswith(" ") for piece in cut_evenly("word " * 50, 7)[:-1])


@given(st.text())
def test_a_cleaned_text_is_utf8_without_nul(text: str) -> None:
    cleaned = clean(text)
    assert "\0" not in cleaned
    cleaned.encode("utf-8")
    if "\0" not in text and not re.search("[\ud800-\udfff]", text):
        assert cleaned == text


@given(st.text())
def test_the_guess_at_tokens_is_never_under_the_least(text: str) -> None:
    assert likely_tokens(text) >= least_tokens(text)


@pytest.mark.parametrize(
    "values",
    [
        [0.0, 0.0],
        [float("nan"), 1.0],
        [float("inf"), 1.0],
        [None, 1.0],
        ["x", "y"],
        [1.0],
        [[1.0, 2.0]],
        None,
        {},
    ],
)
def test_what_is_no_direction_is_no_vector(values: object) -> None:
    assert normalise(values, 2) is None


def test_a_longer_vector_is_cut_and_scaled() -> None:
    vector = normalise([3.0, 4.0, 12.0], 2)
    assert vector is not None
    assert vector.tolist() == pytest.approx([0.6, 0.8])


def test_the_mean_weighs_by_length_even_where_windows_cancel_out() -> None:
    east, north = np.array([1, 0], np.float32), np.array([0, 1], np.float32)
    assert mean([east, north], [3, 1]).tolist() == pytest.approx([3 / 10**0.5, 1 / 10**0.5])
    assert mean([east, -east], [1, 1]).tolist() == [1, 0]
