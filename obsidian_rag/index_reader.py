"""An open index for reading: connections that survive a restart of the database, and the query embedder."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from psycopg.pq import TransactionStatus

from obsidian_rag import ledger, store
from obsidian_rag.config import Settings
from obsidian_rag.embedding import Embedder, EmbeddingModel, Vector, open_embedder
from obsidian_rag.errors import DatabaseUnavailable, IndexMismatch
from obsidian_rag.migrate import check_schema
from obsidian_rag.postgres import Connection, connect, locate, mapped_errors

Result = TypeVar("Result")

IDLE_CONNECTIONS = 4  # tools run in threads; more than this at once is rare, and they are made on demand
REMEMBERED_QUERIES = 256
STATEMENT_TIMEOUT = "30s"


class IndexReader:
    """Runs read-only work on the index. Nothing is connected or loaded before the first use; thread-safe.

    Connections are kept here rather than in a pool of psycopg_pool, which hides why it cannot connect until
    its time-out; an agent needs the reason at once.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        self._idle: deque[Connection] = deque()
        self._conninfo = ""
        self._embedder: Embedder | None = None
        self._embedder_for: EmbeddingModel | None = None
        self._embedder_lock = threading.Lock()
        self._query_vectors: OrderedDict[str, Vector] = OrderedDict()

    @property
    def search_fusion(self) -> str:
        """How hybrid search joins its lists, as the settings say."""
        return self._settings.search_fusion

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """Do `work` with a connection; once more with a new one where its connection is lost meanwhile.

        Raises DatabaseError kinds with their mend.
        """
        conn = self._take_connection()
        try:
            with mapped_errors(self._conninfo):
                return work(conn)
        except DatabaseUnavailable:
            if not conn.broken:
                raise
        finally:
            self._give_back(conn)
        self._forget_connections()  # what ended this one, a restart most likely, ended the others too
        conn = self._take_connection()
        try:
            with mapped_errors(self._conninfo):
                return work(conn)
        finally:
            self._give_back(conn)

    def embed_query(self, text: str) -> Vector:
        """The query's vector, from memory where it was asked before.

        Raises EmbedderError, and IndexMismatch where the index holds no vectors, or others than the
        settings ask for.
        """
        recorded, dimensions = self.run(_read_model)
        if recorded is None:
            raise IndexMismatch("The index holds no vectors yet", "Run: obsidian-rag index /path/to/vault")
        with self._embedder_lock:
            if self._embedder is None or self._embedder_for != recorded:
                self._close_embedder()  # the index was embedded anew, by another model
                self._embedder = self._open_embedder(recorded, dimensions)
                self._embedder_for = recorded
            embedder = self._embedder
            known = self._query_vectors.get(text)
            if known is not None:
                self._query_vectors.move_to_end(text)
                return known
        vector = embedder.embed_query(text)
        with self._embedder_lock:
            if embedder is self._embedder:
                self._query_vectors[text] = vector
                if len(self._query_vectors) > REMEMBERED_QUERIES:
                    self._query_vectors.popitem(last=False)
        return vector

    def close(self) -> None:
        """Close connections and the embedder; a later use opens them again."""
        self._forget_connections()
        with self._embedder_lock:
            self._close_embedder()

    def _take_connection(self) -> Connection:
        while self._idle:
            try:
                conn = self._idle.pop()
            except IndexError:  # another thread was quicker
                break
            if not conn.closed:
                return conn
        self._conninfo = locate(self._settings)
        conn = connect(self._conninfo, read_only=True)
        try:
            with mapped_errors(self._conninfo):
                check_schema(conn)
                conn.execute("SELECT set_config('statement_timeout', %s, false)", (STATEMENT_TIMEOUT,))
        except BaseException:
            conn.close()
            raise
        return conn

    def _give_back(self, conn: Connection) -> None:
        is_fit = conn.info.transaction_status is TransactionStatus.IDLE
        if is_fit and len(self._idle) < IDLE_CONNECTIONS:
            self._idle.append(conn)
        else:
            conn.close()

    def _forget_connections(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _open_embedder(self, recorded: EmbeddingModel, dimensions: int) -> Embedder:
        embedder = open_embedder(
            embedder=self._settings.embedder,
            model=self._settings.embed_model,
            ollama_url=self._settings.ollama_url,
            ollama_url_is_set=self._settings.ollama_url_is_set,
            recorded=recorded,
            say=self._say,
        )
        if embedder.model.dimensions != dimensions:
            embedder.close()
            raise IndexMismatch(
                f"The index holds vectors of {dimensions} dimensions,"
                f" {embedder.model.name} gives {embedder.model.dimensions}",
                "Set EMBEDDER and EMBED_MODEL to the model that made them.",
            )
        return embedder

    def _close_embedder(self) -> None:
        if self._embedder is not None:
            self._embedder.close()
        self._embedder = None
        self._query_vectors.clear()


def _read_model(conn: Connection) -> tuple[EmbeddingModel | None, int]:
    return ledger.recorded_model(ledger.load_settings_row(conn)), store.vector_dimensions(conn)
