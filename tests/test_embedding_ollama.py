"""Vectors from Ollama: what is asked of it, and what becomes of everything it can answer."""

from __future__ import annotations

import base64
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from ollama_double import Hold, Model, OllamaDouble, count_tokens, embed

from obsidian_rag.embedding.ollama import OllamaEmbedder, open_ollama
from obsidian_rag.embedding.ollama_api import OllamaClient, read_address
from obsidian_rag.embedding.patience import Patience, back_off
from obsidian_rag.errors import (
    EmbedderUnavailable,
    EmbeddingRejected,
    ModelMissing,
    ModelUnsuitable,
    ObsidianRagError,
)

Opener = Callable[..., OllamaEmbedder]
WORDS = (
    "garden",
    "parity",
    "disk",
    "lamp",
    "walnut",
    "meeting",
    "oven",
    "ladder",
    "compost",
    "router",
    "violin",
)


def patient(tries: int = 5, timeout: float = 20.0) -> Patience:
    return Patience(
        tries=tries, deadline=60.0, timeout=timeout, wait=lambda attempt: 0.0, sleep=lambda seconds: None
    )


def sentences(count: int) -> list[str]:
    rng = random.Random(count)
    return [f"note {i}: " + " ".join(rng.choices(WORDS, k=8)) for i in range(count)]


def same(vector: object, text: str, dimensions: int = 64) -> bool:
    assert isinstance(vector, np.ndarray), vector
    return bool(np.allclose(vector, embed(text, dimensions), atol=1e-5))


@pytest.fixture
def ollama() -> Iterator[OllamaDouble]:
    with OllamaDouble() as double:
        yield double


@pytest.fixture
def open_at() -> Iterator[Opener]:
    opened: list[OllamaClient] = []

    def open_at(
        double: OllamaDouble, name: str = "nomic-embed-text", patience: Patience | None = None, url: str = ""
    ) -> OllamaEmbedder:
        client = OllamaClient(read_address(url or double.url))
        opened.append(client)
        patience = patience or patient()
        return open_ollama(name, client, documents=patience, query=patience)

    yield open_at
    for client in opened:
        client.close()


# What is asked


def test_documents_and_queries_carry_the_models_own_prefixes(ollama: OllamaDouble, open_at: Opener) -> None:
    embedder = open_at(ollama)
    embedder.embed_documents(["compost"])
    embedder.embed_query("where is the compost")
    assert ollama.texts == ["search_document: compost", "search_query: where is the compost"]


def test_the_server_is_asked_never_to_truncate_and_with_one_context_size(
    ollama: OllamaDouble, open_at: Opener
) -> None:
    embedder = open_at(ollama)
    embedder.embed_documents(sentences(40))
    embedder.embed_query("lamp")
    bodies = [call.body for call in ollama.embed_calls]
    assert {body["truncate"] for body in bodies} == {False}
    assert {body["options"]["num_ctx"] for body in bodies} == {2048}
    assert all(isinstance(body["input"], list) for body in bodies)
    assert "dimensions" not in bodies[0]


def test_batches_are_bounded_and_order_is_kept(ollama: OllamaDouble, open_at: Opener) -> None:
    texts = sentences(100)
    vectors = open_at(ollama).embed_documents(texts)
    assert len(vectors) == 100
    assert all(same(vector, text) for vector, text in zip(vectors, texts, strict=True))
    assert max(len(call.inputs) for call in ollama.embed_calls) <= 32
    assert len(ollama.embed_calls) == 4


def test_vectors_are_float32_of_length_one(ollama: OllamaDouble, open_at: Opener) -> None:
    vector = open_at(ollama).embed_query("violin")
    assert vector.dtype == np.float32
    assert vector.shape == (64,)
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-6)


def test_opening_embeds_nothing_and_takes_dimensions_and_window_from_the_server(open_at: Opener) -> None:
    with OllamaDouble(models=[Model("mxbai-embed-large", dimensions=96, context=300)]) as ollama:
        model = open_at(ollama, "mxbai-embed-large:latest").model
        assert (model.provider, model.name, model.dimensions, model.window) == (
            "ollama",
            "mxbai-embed-large",
            96,
            300,
        )
        assert ollama.embed_calls == []


def test_no_texts_ask_nothing(ollama: OllamaDouble, open_at: Opener) -> None:
    assert open_at(ollama).embed_documents([]) == []
    assert ollama.embed_calls == []


@pytest.mark.parametrize("text", ["", "   \n", "\0", "a\0b", "😀" * 30, "lone \ud800 surrogate", "\u200b"])
def test_odd_texts_are_embedded(text: str, open_at: Opener) -> None:
    with OllamaDouble(models=["bge-m3"]) as ollama:  # no prefix: an empty text stays empty
        embedder = open_at(ollama, "bge-m3")
        (vector,) = embedder.embed_documents([text])
        assert isinstance(vector, np.ndarray)
        assert embedder.embed_query(text).shape == (64,)


def test_credentials_of_the_url_are_sent_and_never_shown(open_at: Opener) -> None:
    with OllamaDouble(password="yes") as ollama:
        url = ollama.url.replace("http://", "http://ann:s3cr%40t@")
        embedder = open_at(ollama, url=url)
        embedder.embed_query("router")
        sent = ollama.calls[-1].headers["Authorization"]
        assert base64.b64decode(sent.removeprefix("Basic ")) == b"ann:s3cr@t"
        ollama.stop()
        with pytest.raises(EmbedderUnavailable) as caught:
            embedder.embed_query("router")
    assert "ann:***@127.0.0.1" in str(caught.value)
    assert "s3cr" not in str(caught.value)


def test_a_proxy_in_the_environment_does_not_stand_before_loopback(
    ollama: OllamaDouble, open_at: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert same(open_at(ollama).embed_query("ladder"), "ladder")


def test_an_address_with_a_path_is_kept(ollama: OllamaDouble, open_at: Opener) -> None:
    assert same(open_at(ollama, url=f"{ollama.url}/api/embed").embed_query("ladder"), "ladder")
    with pytest.raises(EmbedderUnavailable, match="OLLAMA_URL"):
        open_at(ollama, url=f"{ollama.url}/elsewhere")


def test_many_threads_get_their_own_answers(ollama: OllamaDouble, open_at: Opener) -> None:
    embedder = open_at(ollama)
    texts = sentences(60)
    with ThreadPoolExecutor(8) as pool:
        vectors = list(pool.map(embedder.embed_query, texts))
        batches = list(pool.map(lambda i: embedder.embed_documents(texts[i : i + 10]), range(0, 60, 10)))
    assert all(same(vector, text) for vector, text in zip(vectors, texts, strict=True))
    flat = [vector for batch in batches for vector in batch]
    assert all(same(vector, text) for vector, text in zip(flat, texts, strict=True))


# Faults that pass

PASSING = [
    "busy", "overloaded", "eof400", "eof500", "crash", "drop", "drop_mid", "html502", "refused",
    "nan400", "nan500", "nan", "null", "zero", "wrong_dimension", "fewer", "more", "empty",
]  # fmt: skip


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_passes_leaves_every_vector_right(
    fault: str, ollama: OllamaDouble, open_at: Opener
) -> None:
    embedder = open_at(ollama)
    ollama.faults.append(fault)
    texts = sentences(5)
    vectors = embedder.embed_documents(texts)
    assert ollama.faults == []
    assert all(same(vector, text) for vector, text in zip(vectors, texts, strict=True))


@pytest.mark.parametrize("fault", ["busy", "eof500", "drop"])
def test_a_query_outlives_a_fault_that_passes(fault: str, ollama: OllamaDouble, open_at: Opener) -> None:
    embedder = open_at(ollama)
    ollama.faults.append(fault)
    assert same(embedder.embed_query("oven"), "oven")


def test_retries_wait_between_attempts(ollama: OllamaDouble, open_at: Opener) -> None:
    waited: list[float] = []
    patience = Patience(5, 60.0, 20.0, wait=lambda attempt: attempt * 1.0, sleep=waited.append)
    embedder = open_at(ollama, patience=patience)
    ollama.faults += ["busy", "busy", "busy"]
    assert same(embedder.embed_query("oven"), "oven")
    assert waited == [1.0, 2.0, 3.0]


def test_the_deadline_ends_the_retries(ollama: OllamaDouble, open_at: Opener) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    patience = Patience(50, 10.0, 20.0, wait=lambda attempt: 4.0, sleep=sleep, clock=lambda: now[0])
    embedder = open_at(ollama, patience=patience)
    ollama.always = "busy"
    with pytest.raises(EmbedderUnavailable):
        embedder.embed_query("oven")
    assert now[0] == 8.0
    assert len(ollama.embed_calls) == 3


def test_the_pause_grows_is_bounded_and_never_twice_the_same() -> None:
    for attempt, ideal in [(1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (5, 8.0), (9, 8.0)]:
        pauses = {back_off(attempt) for _ in range(50)}
        assert len(pauses) > 1
        assert all(ideal * 0.5 <= pause <= ideal * 1.5 for pause in pauses)


# One text at fault


@pytest.mark.parametrize(
    "fault", ["nan400", "nan500", "nan", "null", "zero", "eof400", "eof500", "crash", "refused"]
)
@pytest.mark.parametrize("place", [0, 17, 39])
def test_one_bad_text_is_found_and_the_others_are_embedded(
    fault: str, place: int, ollama: OllamaDouble, open_at: Opener
) -> None:
    embedder = open_at(ollama)
    texts = sentences(40)
    texts[place] = "a cursed text"
    ollama.poison.add("cursed")
    ollama.poison_fault = fault
    vectors = embedder.embed_documents(texts)
    assert len(vectors) == 40
    rejected = vectors[place]
    assert isinstance(rejected, EmbeddingRejected)
    assert "a cursed text" in str(rejected)
    assert "nomic-embed-text" in str(rejected)
    assert rejected.mend
    assert all(same(v, t) for i, (v, t) in enumerate(zip(vectors, texts, strict=True)) if i != place)


def test_several_bad_texts_are_each_found(ollama: OllamaDouble, open_at: Opener) -> None:
    texts = sentences(32)
    for place in (3, 4, 31):
        texts[place] += " cursed"
    ollama.poison.add("cursed")
    vectors = open_at(ollama).embed_documents(texts)
    assert [i for i, v in enumerate(vectors) if isinstance(v, EmbeddingRejected)] == [3, 4, 31]


def test_a_query_that_cannot_be_embedded_raises_the_rejection(ollama: OllamaDouble, open_at: Opener) -> None:
    ollama.poison.add("cursed")
    with pytest.raises(EmbeddingRejected, match="cursed"):
        open_at(ollama).embed_query("cursed")


# Faults that stay

STAYING = [
    ("busy", EmbedderUnavailable, "overloaded", "later", 5),
    ("overloaded", EmbedderUnavailable, "overloaded", "later", 5),
    ("html", EmbedderUnavailable, "web page", "OLLAMA_URL", 1),
    ("html502", EmbedderUnavailable, "502", "later", 5),
    ("drop", EmbedderUnavailable, "connection broke", "ollama serve", 20),
    ("drop_mid", EmbedderUnavailable, "connection broke", "ollama serve", 20),
    ("eof400", EmbedderUnavailable, "EOF", "ollama serve", 20),
    ("crash", EmbedderUnavailable, "terminated", "ollama serve", 20),
    ("nan500", EmbedderUnavailable, "NaN", "EMBED_MODEL", 20),
    ("unauthorized", EmbedderUnavailable, "credentials", "OLLAMA_URL", 1),
    ("missing", ModelMissing, "nomic-embed-text", "ollama pull nomic-embed-text", 1),
    ("wrong_dimension", ModelUnsuitable, "63 dimensions where 64", "--reembed", 20),
    ("zero", ModelUnsuitable, "no direction", "ollama pull", 20),
    ("nan", ModelUnsuitable, "no direction", "ollama pull", 20),
    ("fewer", EmbedderUnavailable, "0 vectors came back for 1", "ollama serve", 20),
    ("empty", EmbedderUnavailable, "0 vectors came back for 1", "ollama serve", 20),
    ("more", EmbedderUnavailable, "2 vectors came back for 1", "ollama serve", 20),
]


@pytest.mark.parametrize(("fault", "kind", "said", "mend", "most_calls"), STAYING)
def test_a_fault_that_stays_is_named_with_its_mend_after_few_calls(
    fault: str,
    kind: type[ObsidianRagError],
    said: str,
    mend: str,
    most_calls: int,
    ollama: OllamaDouble,
    open_at: Opener,
) -> None:
    embedder = open_at(ollama)
    ollama.always = fault
    with pytest.raises(kind) as caught:
        embedder.embed_documents(sentences(32))
    assert type(caught.value) is kind
    assert said in caught.value.message
    assert mend in caught.value.mend
    assert len(ollama.embed_calls) <= most_calls
    ollama.forget()
    with pytest.raises(kind):
        embedder.embed_query("oven")


def test_a_stopped_server_is_named_and_a_started_one_answers_again(
    ollama: OllamaDouble, open_at: Opener
) -> None:
    embedder = open_at(ollama)
    ollama.stop()
    with pytest.raises(EmbedderUnavailable) as caught:
        embedder.embed_documents(["lamp"])
    assert "`ollama serve`" in caught.value.mend
    assert ollama.url in caught.value.message
    ollama.start()
    assert same(embedder.embed_query("lamp"), "lamp")


def test_a_server_that_hangs_is_given_up(ollama: OllamaDouble, open_at: Opener) -> None:
    embedder = open_at(ollama, patience=patient(timeout=0.2))
    ollama.always = hold = Hold()
    with pytest.raises(EmbedderUnavailable, match="too slow"):
        embedder.embed_documents(sentences(32))
    assert hold.entered.is_set()
    assert (
        len(ollama.embed_calls) == 2
    )  # the batch, and one plain text to learn whether the batch was at fault


def test_a_batch_that_is_too_slow_is_made_smaller(ollama: OllamaDouble, open_at: Opener) -> None:
    embedder = open_at(ollama, patience=patient(timeout=0.2))
    ollama.always = lambda call: Hold() if len(call.inputs) > 4 else None
    texts = sentences(10)
    vectors = embedder.embed_documents(texts)
    assert all(same(vector, text) for vector, text in zip(vectors, texts, strict=True))


def test_a_held_answer_arrives_when_it_is_let_go(ollama: OllamaDouble, open_at: Opener) -> None:
    embedder = open_at(ollama)
    hold = Hold()
    ollama.faults.append(hold)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(embedder.embed_query, "lamp")
        assert hold.entered.wait(20)
        assert not answer.done()
        hold.release.set()
        assert same(answer.result(20), "lamp")


# Opening


def test_a_model_that_is_not_pulled_is_named_with_the_command_and_those_that_are(
    ollama: OllamaDouble, open_at: Opener
) -> None:
    with pytest.raises(ModelMissing) as caught:
        open_at(ollama, "bge-m3")
    assert "`ollama pull bge-m3`" in caught.value.mend
    assert "nomic-embed-text" in caught.value.message


def test_a_model_that_does_not_embed_is_refused(open_at: Opener) -> None:
    with OllamaDouble(models=[Model("gemma3", capabilities=("completion",))]) as ollama:
        with pytest.raises(ModelUnsuitable, match="gemma3 is not an embedding model"):
            open_at(ollama, "gemma3")
        assert ollama.embed_calls == []


def test_a_server_too_old_to_state_capabilities_is_believed(open_at: Opener) -> None:
    with OllamaDouble(models=[Model("nomic-embed-text", capabilities=None)]) as ollama:
        assert same(open_at(ollama).embed_query("lamp"), "lamp")


def test_dimensions_that_nobody_states_are_measured(open_at: Opener) -> None:
    with OllamaDouble(models=[Model("homemade", dimensions=48, stated=False)]) as ollama:
        embedder = open_at(ollama, "homemade")
        assert embedder.model.dimensions == 48
        embedder.embed_documents(["lamp"])
        assert ollama.texts[-1] == "lamp"  # an unknown model has no prefix


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("html", EmbedderUnavailable),
        ("busy", EmbedderUnavailable),
        ("drop", EmbedderUnavailable),
        ("crash", EmbedderUnavailable),
        ("unauthorized", EmbedderUnavailable),
        ("refused", EmbedderUnavailable),
    ],
)
def test_a_server_that_cannot_tell_about_a_model_is_named(
    fault: str, kind: type[ObsidianRagError], ollama: OllamaDouble, open_at: Opener
) -> None:
    ollama.unwell = fault
    with pytest.raises(kind) as caught:
        open_at(ollama)
    assert ollama.url in str(caught.value)
    assert caught.value.mend


def test_a_tagged_model_is_asked_for_by_its_tag_and_has_its_familys_prefix(open_at: Opener) -> None:
    with OllamaDouble(models=[Model("qwen3-embedding:0.6b", dimensions=128, context=32768)]) as ollama:
        embedder = open_at(ollama, "qwen3-embedding:0.6b")
        assert (embedder.model.name, embedder.model.window) == ("qwen3-embedding:0.6b", 2048)
        embedder.embed_query("lamp")
        assert ollama.embed_calls[0].body["model"] == "qwen3-embedding:0.6b"
        assert ollama.texts[0].startswith("Instruct: ")
        assert ollama.texts[0].endswith("\nQuery:lamp")


@pytest.mark.parametrize("knows_dimensions", [True, False])
def test_a_vector_too_long_for_the_database_is_asked_for_shorter(
    knows_dimensions: bool, open_at: Opener
) -> None:
    with OllamaDouble(models=[Model("qwen3-embedding:8b", dimensions=4096, context=32768)]) as ollama:
        ollama.knows_dimensions = knows_dimensions
        embedder = open_at(ollama, "qwen3-embedding:8b")
        assert embedder.model.dimensions == 4000
        (vector,) = embedder.embed_documents(["lamp"])
        assert isinstance(vector, np.ndarray)
        head = np.array(embed("lamp", 4096)[:4000])
        assert np.allclose(vector, head / np.linalg.norm(head), atol=1e-5)
        assert ollama.embed_calls[0].body["dimensions"] == 4000


# Texts longer than the window


def long_text(words: int, seed: int = 0) -> str:
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(words))


def embedded_words(ollama: OllamaDouble) -> list[str]:
    return " ".join(text.removeprefix("search_document: ") for text in ollama.texts).split()


@pytest.mark.parametrize("words", [110, 150, 1000])
def test_a_long_text_is_embedded_whole_in_parts(words: int, open_at: Opener) -> None:
    with OllamaDouble(context=100) as ollama:
        text = long_text(words)
        assert count_tokens(text) > 100
        (vector,) = open_at(ollama).embed_documents([text])
        assert isinstance(vector, np.ndarray)
        assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)
        assert embedded_words(ollama) == text.split()


def test_a_long_text_is_the_weighted_mean_of_its_parts(open_at: Opener) -> None:
    with OllamaDouble(context=100) as ollama:
        (vector,) = open_at(ollama).embed_documents([long_text(300)])
        parts = [text.removeprefix("search_document: ") for text in ollama.texts]
        assert len(parts) > 2
        expected = sum(len(part) * np.array(embed(part, 64)) for part in parts)
        cosine = float(np.dot(expected / np.linalg.norm(expected), vector))
        assert cosine > 0.9999


def test_the_tail_of_a_long_text_counts(open_at: Opener) -> None:
    with OllamaDouble(context=100) as ollama:
        start = long_text(200)
        one, other = open_at(ollama).embed_documents([start + " walnut bread", start + " tax return"])
        assert not np.allclose(one, other, atol=1e-4)


def test_a_text_that_must_be_too_long_is_not_sent_whole(open_at: Opener) -> None:
    with OllamaDouble(context=100) as ollama:
        embedder = open_at(ollama)
        texts = ["lamp", long_text(400), "oven"]
        vectors = embedder.embed_documents(texts)
        assert same(vectors[0], "lamp")
        assert same(vectors[2], "oven")
        assert all(count_tokens(text) <= 103 for text in ollama.received)
        assert len(ollama.embed_calls) == 2


@pytest.mark.parametrize("text", ["漢字仮名交じり文" * 60, "x1y2z3" * 400, "日本 " * 300, "a" * 5000])
def test_text_without_spaces_is_cut_too(text: str, open_at: Opener) -> None:
    with OllamaDouble(context=100) as ollama:
        embedder = open_at(ollama)
        vectors = embedder.embed_documents(["lamp", text, "oven"])
        assert same(vectors[0], "lamp")
        assert same(vectors[2], "oven")
        assert isinstance(vectors[1], np.ndarray)
        sent = "".join(t.removeprefix("search_document: ") for t in ollama.texts)
        assert sent.replace("lamp", "").replace("oven", "").count(text.strip()[0]) == text.count(text[0])
        assert isinstance(embedder.embed_query(text), np.ndarray)


@pytest.mark.parametrize("wording", ["too_long", "too_long_old", "too_long_older"])
def test_every_wording_of_too_long_is_understood(wording: str, ollama: OllamaDouble, open_at: Opener) -> None:
    embedder = open_at(ollama)
    ollama.faults.append(wording)
    (vector,) = embedder.embed_documents(["a lamp for the garden and an oven for the kitchen"])
    assert isinstance(vector, np.ndarray)
    assert [len(call.inputs) for call in ollama.embed_calls] == [1, 2]


def test_a_server_that_finds_everything_too_long_is_not_asked_for_ever(
    ollama: OllamaDouble, open_at: Opener
) -> None:
    embedder = open_at(ollama)
    ollama.always = "too_long"
    with pytest.raises(EmbedderUnavailable, match="every text"):
        embedder.embed_documents([long_text(2000), *sentences(30)])
    assert len(ollama.embed_calls) < 25


def test_a_bad_part_rejects_its_text_alone(open_at: Opener) -> None:
    with OllamaDouble(context=100) as ollama:
        ollama.poison.add("cursed")
        vectors = open_at(ollama).embed_documents(["lamp", long_text(200) + " cursed", "oven"])
        assert isinstance(vectors[1], EmbeddingRejected)
        assert same(vectors[0], "lamp")
        assert same(vectors[2], "oven")


def test_closing_twice_does_no_harm(ollama: OllamaDouble, open_at: Opener) -> None:
    embedder = open_at(ollama)
    embedder.close()
    embedder.close()


def test_a_stop_lets_go_of_a_held_answer() -> None:
    ollama = OllamaDouble().start()
    hold = Hold()
    ollama.always = hold
    client = OllamaClient(read_address(ollama.url))
    embedder = open_ollama("nomic-embed-text", client, documents=patient(1), query=patient(1))
    failed = threading.Event()

    def ask() -> None:
        with pytest.raises(EmbedderUnavailable):
            embedder.embed_query("lamp")
        failed.set()

    asker = threading.Thread(target=ask)
    asker.start()
    assert hold.entered.wait(20)
    hold.then = "drop"
    ollama.always = "drop"
    ollama.stop()
    asker.join(20)
    client.close()
    assert failed.is_set()
