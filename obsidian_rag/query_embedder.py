"""The embedder of queries: that of the model which made the vectors, with what it was asked before."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from obsidian_rag.embedding import Embedder, Vector
from obsidian_rag.errors import EmbeddingRejected
from obsidian_rag.ledger import Edition

REMEMBERED_QUERIES = 1024  # phrases and seeds of relations among them


@dataclass(slots=True)
class _Opened:
    edition: Edition
    embedder: Embedder
    vectors: OrderedDict[str, Vector] = field(default_factory=OrderedDict)
    users: int = 0
    replaced: bool = False


class QueryEmbedder:
    """Keeps one embedder open, that of the index's present edition. Thread-safe.

    `read` tells the index's edition; `open_for` opens the embedder of one, or raises.
    """

    def __init__(self, read: Callable[[], Edition], open_for: Callable[[Edition], Embedder]) -> None:
        self._read = read
        self._open_for = open_for
        self._lock = threading.Lock()
        self._opened: _Opened | None = None

    def embed(self, texts: Sequence[str]) -> list[Vector | EmbeddingRejected]:
        """Vectors to search with, from memory where they were asked for before, the others in one call.

        Raises what `read` and `open_for` raise, and EmbedderError.
        """
        with self._use(self._read()) as opened:
            with self._lock:
                known = {text: opened.vectors[text] for text in texts if text in opened.vectors}
                for text in known:
                    opened.vectors.move_to_end(text)
            missing = [text for text in dict.fromkeys(texts) if text not in known]
            made = dict(zip(missing, opened.embedder.embed_queries(missing), strict=True)) if missing else {}
            with self._lock:
                for text, vector in made.items():
                    if not isinstance(vector, EmbeddingRejected):
                        opened.vectors[text] = vector
                while len(opened.vectors) > REMEMBERED_QUERIES:
                    opened.vectors.popitem(last=False)
        return [known[text] if text in known else made[text] for text in texts]

    def close(self) -> None:
        """Close the embedder; a later use opens it again."""
        with self._lock:
            self._replace(None)

    @contextmanager
    def _use(self, edition: Edition) -> Iterator[_Opened]:
        with self._lock:
            if self._opened is None or self._opened.edition != edition:
                edition = self._read()  # another thread may have seen a newer one, and opened that
            if self._opened is None or self._opened.edition != edition:
                self._replace(None)
                self._replace(_Opened(edition, self._open_for(edition)))
            opened = self._opened
            assert opened is not None
            opened.users += 1
        try:
            yield opened
        finally:
            with self._lock:
                opened.users -= 1
                self._close_unused(opened)

    def _replace(self, opened: _Opened | None) -> None:
        if self._opened is not None:
            self._opened.replaced = True
            self._close_unused(self._opened)
        self._opened = opened

    def _close_unused(self, opened: _Opened) -> None:
        """Close an embedder that was replaced, once nobody is in the middle of a question to it."""
        if opened.replaced and opened.users == 0:
            opened.embedder.close()
