"""The embedder that asks an Ollama server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from obsidian_rag.embedding.catalog import (
    MOST_DIMENSIONS,
    WIDEST_WINDOW,
    ModelCard,
    canonical_name,
    find_card,
    same_model,
)
from obsidian_rag.embedding.embedder import EmbeddingModel, only
from obsidian_rag.embedding.ollama_api import Address, Fault, Kind, OllamaClient
from obsidian_rag.embedding.patience import FOR_DOCUMENTS, FOR_QUERY, Patience
from obsidian_rag.embedding.vectors import Vector, mean, normalise
from obsidian_rag.embedding.windows import clean, cut_evenly, least_tokens, likely_tokens
from obsidian_rag.errors import (
    EmbedderError,
    EmbedderUnavailable,
    EmbeddingRejected,
    ModelMissing,
    ModelUnsuitable,
)

_BATCH = 32
_BATCH_CHARACTERS = 48_000

# Faults that may pass when the same request is made again, and how often that is worth trying: a dying runner
# comes back within a moment, and an answer that is wrong twice is wrong.
_AGAIN = {Kind.UNREACHABLE: 99, Kind.BUSY: 99, Kind.BROKEN: 3, Kind.GARBLED: 2, Kind.REFUSED: 2, Kind.NAN: 1}
# Faults that one text of a batch may have caused.
_ONE_AT_FAULT = {Kind.BROKEN, Kind.GARBLED, Kind.REFUSED, Kind.NAN, Kind.TOO_LONG, Kind.SLOW}

_T = TypeVar("_T")

# Characters that fit every window: a server that finds them too long is not telling of the text.
_SHORT = 16

# A text no model fails on; if it fails too, the server is at fault and not the text before it.
_PLAIN_TEXT = "ok"


class OllamaEmbedder:
    """Vectors from Ollama. Use `open_ollama` to make one."""

    def __init__(
        self,
        client: OllamaClient,
        model: EmbeddingModel,
        card: ModelCard,
        asked_name: str,
        ask_dimensions: bool,
        documents: Patience = FOR_DOCUMENTS,
        query: Patience = FOR_QUERY,
    ) -> None:
        self._client = client
        self._model = model
        self._card = card
        self._asked_name = asked_name
        self._ask_dimensions = ask_dimensions
        self._documents = documents
        self._query = query

    @property
    def model(self) -> EmbeddingModel:
        return self._model

    def close(self) -> None:
        self._client.close()

    def embed_documents(self, texts: Sequence[str]) -> list[Vector | EmbeddingRejected]:
        """See Embedder. Batches of at most 32 texts; a batch that fails is narrowed to the text at fault."""
        return self._embed_all(texts, self._card.document_prefix, self._documents)

    def embed_query(self, text: str) -> Vector:
        """See Embedder."""
        return only(self.embed_queries([text]))

    def embed_queries(self, texts: Sequence[str]) -> list[Vector | EmbeddingRejected]:
        """See Embedder."""
        return self._embed_all(texts, self._card.query_prefix, self._query)

    def _embed_all(
        self, texts: Sequence[str], prefix: str, patience: Patience
    ) -> list[Vector | EmbeddingRejected]:
        prepared = [clean(text) for text in texts]
        results: list[Vector | EmbeddingRejected | None] = [None] * len(prepared)
        for batch in _batches(prepared):
            fitting = [i for i in batch if not self._surely_too_long(prepared[i])]
            vectors = self._embed_some([prepared[i] for i in fitting], prefix, patience)
            for i, vector in zip(fitting, vectors, strict=True):
                results[i] = vector
            for i in batch:
                if results[i] is None:
                    results[i] = self._embed_long(prepared[i], prefix, patience)
        return [result for result in results if result is not None]

    def _surely_too_long(self, text: str) -> bool:
        return least_tokens(text) > self._model.window

    def _embed_some(
        self, texts: list[str], prefix: str, patience: Patience
    ) -> list[Vector | EmbeddingRejected]:
        """Embed texts in one request; where that fails for good, in halves, down to the text at fault."""
        if not texts:
            return []
        try:
            vectors: list[Vector | EmbeddingRejected | None] = list(self._request(texts, prefix, patience))
        except Fault as fault:
            if fault.kind not in _ONE_AT_FAULT:
                raise self._explain(fault) from fault
            if len(texts) == 1:
                return [self._settle(texts[0], prefix, fault, patience)]
            if fault.kind is Kind.SLOW:  # a server that hangs would take as long over every half
                self._check_health(fault, patience)
            middle = len(texts) // 2
            return [
                *self._embed_some(texts[:middle], prefix, patience),
                *self._embed_some(texts[middle:], prefix, patience),
            ]
        for i, vector in enumerate(vectors):
            if vector is None:  # this text's vector is unusable; alone, it is told whether by accident
                wrong = Fault(Kind.NAN, "the vector is not made of numbers, or of another length")
                vectors[i] = (
                    self._settle(texts[i], prefix, wrong, patience)
                    if len(texts) == 1
                    else self._embed_some([texts[i]], prefix, patience)[0]
                )
        return [vector for vector in vectors if vector is not None]

    def _settle(self, text: str, prefix: str, fault: Fault, patience: Patience) -> Vector | EmbeddingRejected:
        """What becomes of a single text that failed: cut in parts, rejected, or the server is to blame."""
        if fault.kind is Kind.TOO_LONG and len(text) > _SHORT:
            return self._embed_long(text, prefix, patience)
        if fault.kind is Kind.SLOW:
            raise self._explain(fault) from fault
        self._check_health(fault, patience)
        return self._reject(text, fault)

    def _embed_long(self, text: str, prefix: str, patience: Patience) -> Vector | EmbeddingRejected:
        """The mean of a long text's parts, weighted by their length."""
        room = max(8, int(self._model.window * 0.9))
        parts = cut_evenly(text, max(2, -(-likely_tokens(text) // room)))
        vectors: list[Vector] = []
        for first in range(0, len(parts), _BATCH):
            for result in self._embed_some(parts[first : first + _BATCH], prefix, patience):
                if isinstance(result, EmbeddingRejected):
                    return result
                vectors.append(result)
        return mean(vectors, [len(part) for part in parts])

    def _request(self, texts: list[str], prefix: str, patience: Patience) -> list[Vector | None]:
        """One request, made again while its fault can pass. Raises Fault."""
        inputs = [(prefix + text) if (prefix + text).strip() else "." for text in texts]
        started = patience.clock()
        attempt = 0
        while True:
            attempt += 1
            try:
                raw = self._client.embed(
                    self._asked_name,
                    inputs,
                    window=self._model.window,
                    dimensions=self._model.dimensions if self._ask_dimensions else None,
                    timeout=patience.timeout,
                )
                return [self._read_vector(values) for values in raw]
            except Fault as fault:
                if attempt >= _AGAIN.get(fault.kind, 1) or not patience.pause(attempt, started):
                    raise

    def _read_vector(self, values: Any) -> Vector | None:
        if not isinstance(values, list):
            return None
        if len(values) != self._model.dimensions and not (
            self._ask_dimensions and len(values) > MOST_DIMENSIONS
        ):
            return None
        return normalise(values, self._model.dimensions)

    def _check_health(self, fault: Fault, patience: Patience) -> None:
        """Raise where even a plain text fails: then the text before it was not at fault."""
        try:
            raw = self._client.embed(
                self._asked_name,
                [self._card.document_prefix + _PLAIN_TEXT],
                window=self._model.window,
                dimensions=self._model.dimensions if self._ask_dimensions else None,
                timeout=min(60.0, patience.timeout),
            )[0]
        except Fault as second:
            raise self._explain(second) from second
        if self._read_vector(raw) is not None:
            return
        length = len(raw) if isinstance(raw, list) else 0
        name = self._model.name
        if length == self._model.dimensions:
            raise ModelUnsuitable(
                f"The model {name} answers even a plain text with a vector that is no direction",
                f"Pull it anew (`ollama pull {name}`), or choose another EMBED_MODEL",
            ) from fault
        raise ModelUnsuitable(
            f"The model {name} answers {length} dimensions where {self._model.dimensions} are expected",
            "If the model was replaced, embed again with `obsidian-rag index --reembed`",
        ) from fault

    def _reject(self, text: str, fault: Fault) -> EmbeddingRejected:
        start = " ".join(text[:60].split())
        return EmbeddingRejected(
            f"{self._model.name} cannot embed the text that starts “{start}”: {fault.text}",
            "Change that passage, or choose another EMBED_MODEL",
        )

    def _explain(self, fault: Fault) -> EmbedderError:
        return explain(fault, self._client.address, self._model.name)


def _batches(texts: Sequence[str]) -> Iterator[list[int]]:
    """Positions of texts, in order, in batches bounded by number and by characters."""
    batch: list[int] = []
    size = 0
    for i, text in enumerate(texts):
        if batch and (len(batch) >= _BATCH or size + len(text) > _BATCH_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(i)
        size += len(text)
    if batch:
        yield batch


def explain(fault: Fault, address: Address, name: str, setting: str = "EMBED_MODEL") -> EmbedderError:
    """A fault in the words of the person who has to mend it. `setting` is the one that names the model."""
    where = address.shown
    match fault.kind:
        case Kind.UNREACHABLE:
            return EmbedderUnavailable(
                f"Ollama does not answer at {where} ({fault.text})",
                "Start it with `ollama serve`, or check OLLAMA_URL",
            )
        case Kind.BUSY:
            return EmbedderUnavailable(
                f"Ollama at {where} stays overloaded ({fault.text})",
                "Try again later, or raise OLLAMA_MAX_QUEUE where `ollama serve` runs",
            )
        case Kind.SLOW:
            return EmbedderUnavailable(
                f"Ollama at {where} is too slow ({fault.text})",
                f"See `ollama ps` for what keeps it busy, or choose a smaller {setting}",
            )
        case Kind.NOT_OLLAMA:
            return EmbedderUnavailable(
                f"What answers at {where} is not an Ollama that can embed ({fault.text})",
                "Check OLLAMA_URL; Ollama has to be 0.3 or newer",
            )
        case Kind.FORBIDDEN:
            return EmbedderUnavailable(
                f"Ollama at {where} wants other credentials ({fault.text})",
                "Write them as OLLAMA_URL=https://user:password@host",
            )
        case Kind.NO_MODEL:
            return ModelMissing(
                f"Ollama at {where} does not have the model {name}", f"Get it with `ollama pull {name}`"
            )
        case Kind.NOT_EMBEDDING:
            return not_an_embedding_model(name)
        case _:
            return EmbedderUnavailable(
                f"Ollama at {where} fails on every text with {name} ({fault.text})",
                f"See its log, start it again with `ollama serve`, or choose another {setting}",
            )


def not_an_embedding_model(name: str) -> ModelUnsuitable:
    return ModelUnsuitable(
        f"{name} is not an embedding model",
        "Choose one that is: `ollama pull nomic-embed-text` and EMBED_MODEL=nomic-embed-text",
    )


def open_ollama(
    name: str,
    client: OllamaClient,
    *,
    documents: Patience = FOR_DOCUMENTS,
    query: Patience = FOR_QUERY,
) -> OllamaEmbedder:
    """Ask the server about a model and make its embedder. Nothing is embedded yet.

    Raises EmbedderUnavailable, ModelMissing, ModelUnsuitable.
    """
    card = find_card(name)
    facts = _ask_about(name, client, query)
    capabilities = facts.get("capabilities")
    if isinstance(capabilities, list) and capabilities and "embedding" not in capabilities:
        raise not_an_embedding_model(name)
    info = facts.get("model_info")
    info = info if isinstance(info, dict) else {}
    window = min(
        WIDEST_WINDOW, card.context or WIDEST_WINDOW, _number(info, ".context_length") or WIDEST_WINDOW
    )
    native = _number(info, ".embedding_length") or card.dimensions or _measure(name, client, window, query)
    # The first 4,000 numbers of a longer vector are asked for: models of that size are trained so that the
    # head of a vector is one itself (Qwen3: any length from 32 up), and pgvector indexes no more.
    dimensions = min(native, MOST_DIMENSIONS)
    model = EmbeddingModel("ollama", canonical_name(name), dimensions, window)
    return OllamaEmbedder(client, model, card, name.strip(), dimensions < native, documents, query)


def _ask_about(name: str, client: OllamaClient, patience: Patience) -> dict[str, Any]:
    facts = _persist(lambda: client.show(name.strip()), patience)
    if not isinstance(facts, Fault):
        return facts
    if facts.kind is Kind.NO_MODEL:
        raise _no_model(name, client) from facts
    raise explain(facts, client.address, name) from facts


def _no_model(name: str, client: OllamaClient) -> EmbedderError:
    """ModelMissing, naming the models that are there."""
    try:
        pulled = client.tags()
    except Fault as fault:
        return explain(fault, client.address, name)
    if any(same_model(name, other) for other in pulled):  # it is listed but cannot be shown: a damaged pull
        return ModelMissing(
            f"Ollama at {client.address.shown} lists {name} but cannot read it",
            f"Run `ollama pull {name}` again",
        )
    there = ", ".join(sorted(canonical_name(other) for other in pulled)[:8]) or "none"
    return ModelMissing(
        f"Ollama at {client.address.shown} does not have the model {name} (it has: {there})",
        f"Get it with `ollama pull {name}`",
    )


def _measure(name: str, client: OllamaClient, window: int, patience: Patience) -> int:
    """The length of a vector, for a model that nobody states it of."""
    vectors = _persist(
        lambda: client.embed(
            name.strip(), [_PLAIN_TEXT], window=window, dimensions=None, timeout=patience.timeout
        ),
        patience,
    )
    if isinstance(vectors, Fault):
        raise explain(vectors, client.address, name) from vectors
    if not isinstance(vectors[0], list) or not vectors[0]:
        raise not_an_embedding_model(name)
    return len(vectors[0])


def _persist(ask: Callable[[], _T], patience: Patience) -> _T | Fault:
    started = patience.clock()
    attempt = 0
    while True:
        attempt += 1
        try:
            return ask()
        except Fault as fault:
            if attempt >= _AGAIN.get(fault.kind, 1) or not patience.pause(attempt, started):
                return fault


def _number(info: dict[str, Any], ending: str) -> int | None:
    """The number under `<architecture><ending>`; one like `<architecture>.vision<ending>` is another's."""
    architecture = info.get("general.architecture")
    candidates = [info.get(f"{architecture}{ending}")] + [
        value for key, value in info.items() if key.endswith(ending) and key.count(".") == 1
    ]
    return next((int(value) for value in candidates if isinstance(value, int | float) and value > 0), None)
