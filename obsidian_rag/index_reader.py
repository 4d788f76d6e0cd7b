"""An open index for reading: connections that survive a restart of the database, and a query's models."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from psycopg import IsolationLevel
from psycopg.pq import TransactionStatus

from obsidian_rag import calls, ledger, vector_column
from obsidian_rag.config import Settings
from obsidian_rag.embedding import Embedder, Vector, only, open_embedder
from obsidian_rag.errors import FIRST_RUN, DatabaseUnavailable, EmbeddingRejected, IndexMismatch
from obsidian_rag.freshness import EditWatch
from obsidian_rag.ledger import Edition
from obsidian_rag.migrate import check_schema
from obsidian_rag.postgres import (
    LEAST_EF_SEARCH,
    MOST_EF_SEARCH,
    Connection,
    connect,
    locate,
    mapped_errors,
)
from obsidian_rag.query_embedder import QueryEmbedder
from obsidian_rag.relations import Table, load_table

if TYPE_CHECKING:
    from obsidian_rag.embedding.cross_encoder import CrossEncoder
    from obsidian_rag.search.expansion import Expander

Prepared = TypeVar("Prepared")
Result = TypeVar("Result")

IDLE_CONNECTIONS = 4  # tools run in threads; more than this at once is rare, and they are made on demand
EDITIONS_FOLLOWED = 3  # of an index whose vectors change while a question is prepared
STATEMENT_TIMEOUT = "30s"
# A plan made once for all values looks through a list of thousands of note ids for each row; one made for
# the list at hand hashes it: a search within 5,600 notes took 450 ms, and takes 90 so. To compile a plan
# takes longer than any of them, and what does not fit into the memory of a sort is written to disk.
SESSION = """
SELECT set_config('statement_timeout', %s, false), set_config('plan_cache_mode', 'force_custom_plan', false),
       set_config('jit', 'off', false), set_config('work_mem', '32MB', false)
"""
# The same breadth finds less of a larger graph: of the ten nearest of 262,000 chunks .94 with 200, .98 with
# 420.
BREADTH = """
SELECT set_config('hnsw.ef_search', round(greatest(
    %(least)s, least(%(most)s, %(least)s * sqrt(chunks / 60000.0))))::text, false)
FROM keyword_stats
"""


class IndexReader:
    """Runs read-only work on the index. Nothing is connected or loaded before the first use; thread-safe.

    Connections are kept here rather than in a pool of psycopg_pool, which hides why it cannot connect until
    its time-out; an agent needs the reason at once.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        self._idle: deque[Connection] = deque()
        self._edits = EditWatch()
        self._conninfo = ""
        self._embedder = QueryEmbedder(lambda: self.run(ledger.load_edition), self._open_embedder)
        self._stages_lock = threading.Lock()
        self._reranker: CrossEncoder | None = None
        self._expander: Expander | None = None

    @property
    def settings(self) -> Settings:
        """What a search is under beside what is asked."""
        return self._settings

    @cached_property
    def table(self) -> Table:
        """The words by which questions ask for links. Raises SettingsError."""
        return load_table(self._settings.link_relations)

    @property
    def reranker(self) -> CrossEncoder | None:
        """The cross-encoder that the settings name, not loaded yet; None where they name none."""
        name = self._settings.rerank_model
        if name is None:
            return None
        with self._stages_lock:
            if self._reranker is None:
                from obsidian_rag.embedding.cross_encoder import CrossEncoder

                self._reranker = CrossEncoder(name, self._say)
            return self._reranker

    @property
    def expander(self) -> Expander | None:
        """What asks the settings' text model for other wordings, not connected yet; None without one."""
        name = self._settings.expand_model
        if name is None:
            return None
        with self._stages_lock:
            if self._expander is None:
                from obsidian_rag.embedding.text_model import TextModel
                from obsidian_rag.search.expansion import Expander

                url = self._settings.ollama_url
                self._expander = Expander(lambda: TextModel(name, url, "EXPAND_MODEL"))
            return self._expander

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """Do `work` with a connection; once more with a new one where its connection is lost meanwhile.

        Raises DatabaseError kinds with their mend, CallCancelled where the call that wants it was given up.
        """
        conn = self._take_connection()
        try:
            with mapped_errors(self._conninfo), calls.working(conn):
                return work(conn)
        except DatabaseUnavailable:
            if not conn.broken:
                raise
        finally:
            self._give_back(conn)
        self._forget_connections()  # what ended this one, a restart most likely, ended the others too
        conn = self._take_connection()
        try:
            with mapped_errors(self._conninfo), calls.working(conn):
                return work(conn)
        finally:
            self._give_back(conn)

    def run_in_transaction(self, work: Callable[[Connection], Result]) -> Result:
        """As `run`, with all statements of `work` looking at one state of the index."""

        def run_whole(conn: Connection) -> Result:
            with conn.transaction():
                return work(conn)

        return self.run(run_whole)

    def embed_query(self, text: str) -> Vector:
        """The query's vector. Raises what `embed_queries` raises, and EmbeddingRejected."""
        return only(self.embed_queries([text]))

    def embed_queries(self, texts: Sequence[str]) -> list[Vector | EmbeddingRejected]:
        """Vectors to search with, from memory where they were asked for before, the others in one call.

        Raises EmbedderError, and IndexMismatch where the index holds no vectors, or others than the
        settings ask for.
        """
        calls.tell_stage("asking the embedding model")
        try:
            return self._embedder.embed(texts)
        finally:
            calls.tell_stage("searching")

    def run_prepared(
        self, prepare: Callable[[], Prepared], work: Callable[[Connection, Prepared], Result]
    ) -> Result:
        """Do `work` with what `prepare` makes of a question, on vectors of the model that it asked.

        An index whose vectors are changed for another model's meanwhile is asked again; from the first
        statement of `work` to its last they stay the same. Raises what both do.
        """
        for _ in range(EDITIONS_FOLLOWED):
            before = self.run(ledger.load_edition)
            prepared = prepare()
            done = self.run(partial(_work_on_edition, before, prepared, work))
            if done is not None:
                return done[0]
        raise IndexMismatch("The index changes its vectors again and again", "Search again in a minute.")

    def find_edit(self, places: Sequence[str]) -> float | None:
        """When a note of the vaults was last edited (Unix seconds), None where that cannot be seen from here;
        `places` are the vaults that the index was made of, for settings that name none.
        """
        roots = [vault.root for vault in self._settings.vaults] or [Path(place) for place in places]
        return self._edits.find_newest(roots)

    def close(self) -> None:
        """Close connections and models; a later use opens them again."""
        self._forget_connections()
        self._embedder.close()
        with self._stages_lock:
            for stage in (self._reranker, self._expander):
                if stage is not None:
                    stage.close()
            self._reranker = self._expander = None

    def _take_connection(self) -> Connection:
        calls.check_cancelled()  # before a server is started for nobody
        while self._idle:
            try:
                conn = self._idle.pop()
            except IndexError:  # another thread was quicker
                break
            if not conn.closed:
                return conn
        calls.tell_stage("connecting to the index")
        self._conninfo = locate(self._settings, read_only=True)
        conn = connect(self._conninfo, read_only=True)
        try:
            with mapped_errors(self._conninfo):
                check_schema(conn)
                conn.execute(SESSION, (STATEMENT_TIMEOUT,))
                conn.execute(BREADTH, {"least": LEAST_EF_SEARCH, "most": MOST_EF_SEARCH})
            # What is found by one statement of an answer and shown by another must be of one state.
            conn.isolation_level = IsolationLevel.REPEATABLE_READ
        except BaseException:
            conn.close()
            raise
        calls.tell_stage("searching")
        return conn

    def _give_back(self, conn: Connection) -> None:
        # An order to end a cancelled call's statement may still be under way to its connection.
        is_fit = conn.info.transaction_status is TransactionStatus.IDLE and not calls.is_cancelled()
        if is_fit and len(self._idle) < IDLE_CONNECTIONS:
            self._idle.append(conn)
        else:
            conn.close()

    def _forget_connections(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _open_embedder(self, edition: Edition) -> Embedder:
        if edition.model is None:
            raise IndexMismatch("The index holds no vectors yet", FIRST_RUN)
        begun = self.run(ledger.load_reembedding)
        calls.tell_stage("loading the embedding model")
        embedder = open_embedder(
            embedder=self._settings.embedder,
            model=self._settings.embed_model,
            ollama_url=self._settings.ollama_url,
            ollama_url_is_set=self._settings.ollama_url_is_set,
            recorded=edition.model,
            coming=begun.model if begun else None,
            say=self._say,
        )
        dimensions = self.run(vector_column.vector_dimensions)
        if embedder.model.dimensions != dimensions and self.run(ledger.load_edition) == edition:
            embedder.close()
            raise IndexMismatch(
                f"The index holds vectors of {dimensions} dimensions,"
                f" {embedder.model.name} gives {embedder.model.dimensions}",
                "Set EMBEDDER and EMBED_MODEL to the model that made them.",
            )
        return embedder


# The swap of a re-embedding waits for whoever reads the table: what is read after the lock holds to the end.
HOLD_VECTORS = "LOCK TABLE documents IN ACCESS SHARE MODE"


def _work_on_edition(
    edition: Edition, prepared: Prepared, work: Callable[[Connection, Prepared], Result], conn: Connection
) -> tuple[Result] | None:
    """What `work` gives, None where the index does not hold this edition's vectors any more."""
    with conn.transaction():
        conn.execute(HOLD_VECTORS)
        if ledger.load_edition(conn) != edition:
            return None
        return (work(conn, prepared),)
