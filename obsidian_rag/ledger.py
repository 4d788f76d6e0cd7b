"""What the index was made with, and what each run of the indexer did."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from obsidian_rag.counts import count
from obsidian_rag.embedding import EmbeddingModel
from obsidian_rag.models import Calibration, RunReport, make_storable
from obsidian_rag.postgres import Connection

INDEXER_LOCK = 7_266_531_205
RUNS_KEPT = 200


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The row of index_settings: what the index was made with."""

    vaults: tuple[str, ...]
    fts_config: str
    embedder: str | None
    embed_model: str | None
    dimensions: int | None
    embed_window: int | None


@dataclass(frozen=True, slots=True)
class Edition:
    """Whose vectors an index holds, None where that is not recorded; `since` is when they last took the place
    of others, and so tells apart two editions of one model's.
    """

    model: EmbeddingModel | None
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Reembedding:
    """A change of the embedder that is not finished: `done` of `texts` have their vector of `model`."""

    model: EmbeddingModel
    started_at: datetime
    texts: int
    done: int

    def __str__(self) -> str:
        return f"A re-embedding with {self.model} stands at {self.done} of {count(self.texts, 'text')}"

    def to_json(self) -> dict[str, Any]:
        """The object that `status --json` prints under `reembedding`."""
        return {
            "embedder": self.model.provider,
            "embed_model": self.model.name,
            "dimensions": self.model.dimensions,
            "started_at": self.started_at.isoformat(),
            "texts": self.texts,
            "done": self.done,
        }


GO_ON = "To go on: obsidian-rag index --reembed. To give it up: obsidian-rag index --drop-reembedding."


def take_indexer_lock(conn: Connection) -> bool:
    """Whether this connection is now the one indexer of the database, until it closes."""
    row = conn.execute("SELECT pg_try_advisory_lock(%s)", (INDEXER_LOCK,)).fetchone()
    return bool(row and row[0])


def release_indexer_lock(conn: Connection) -> None:
    """Let another indexer begin. The server would do so too, but only once it has ended the session."""
    conn.execute("SELECT pg_advisory_unlock(%s)", (INDEXER_LOCK,))


INDEXER_AT_WORK = """
SELECT EXISTS (
    SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND (classid::bigint << 32 | objid::bigint) = %s)
"""


def was_cut_short(conn: Connection, run_id: int) -> bool:
    """Whether a run that is recorded as running is nobody's any more: its process or connection was killed.

    `conn` is in autocommit mode. The run is looked at after the lock, which its indexer gives back only after
    closing it: so a run that ends in order meanwhile is not taken for one that was killed.
    """
    held = conn.execute(INDEXER_AT_WORK, (INDEXER_LOCK,)).fetchone()
    if held is None or held[0]:
        return False
    row = conn.execute("SELECT status = 'running' FROM index_runs WHERE run_id = %s", (run_id,)).fetchone()
    return bool(row and row[0])


def load_settings_row(conn: Connection) -> IndexSettings | None:
    """The settings the index was made with; None before the first run."""
    row = conn.execute(
        "SELECT vaults, fts_config, embedder, embed_model, dimensions, embed_window FROM index_settings"
    ).fetchone()
    return IndexSettings(tuple(row[0]), *row[1:]) if row else None


def recorded_model(row: IndexSettings | None) -> EmbeddingModel | None:
    """The embedding model an index was made with, None where none is recorded yet."""
    if row is None or row.embedder is None or row.embed_model is None or row.dimensions is None:
        return None
    return EmbeddingModel(row.embedder, row.embed_model, row.dimensions, row.embed_window or 0)


LOAD_EDITION = "SELECT embedder, embed_model, dimensions, embed_window, reembedded_at FROM index_settings"


def load_edition(conn: Connection) -> Edition:
    """Whose vectors the index holds now."""
    row = conn.execute(LOAD_EDITION).fetchone()
    if row is None or None in row[:3]:
        return Edition(None, None)
    return Edition(EmbeddingModel(row[0], row[1], row[2], row[3] or 0), row[4])


LOAD_REEMBEDDING = """
SELECT embedder, embed_model, dimensions, embed_window, started_at, texts, (SELECT count(*) FROM reembedded)
FROM reembedding
"""


def load_reembedding(conn: Connection) -> Reembedding | None:
    """The change of the embedder that is not finished, None where there is none.

    Works on a database before its migration too.
    """
    table = conn.execute("SELECT to_regclass('reembedding')").fetchone()
    if table is None or table[0] is None:
        return None
    row = conn.execute(LOAD_REEMBEDDING).fetchone()
    return Reembedding(EmbeddingModel(*row[:4]), *row[4:]) if row else None


SAVE_SETTINGS = """
INSERT INTO index_settings (vaults, fts_config, embedder, embed_model, dimensions, embed_window)
VALUES (%(vaults)s, %(fts_config)s, %(embedder)s, %(embed_model)s, %(dimensions)s, %(embed_window)s)
ON CONFLICT (only_row) DO UPDATE SET
    vaults = excluded.vaults, fts_config = excluded.fts_config, embedder = excluded.embedder,
    embed_model = excluded.embed_model, dimensions = excluded.dimensions,
    embed_window = excluded.embed_window, updated_at = now()
"""


def save_settings_row(conn: Connection, settings: IndexSettings) -> None:
    """Record what the index is made with."""
    conn.execute(
        SAVE_SETTINGS,
        {
            "vaults": list(settings.vaults),
            "fts_config": settings.fts_config,
            "embedder": settings.embedder,
            "embed_model": settings.embed_model,
            "dimensions": settings.dimensions,
            "embed_window": settings.embed_window,
        },
    )


def load_calibration(conn: Connection) -> tuple[int, int | None]:
    """How many chunks the index holds, and how many it held when `g` was measured (None: never)."""
    row = conn.execute(
        "SELECT (SELECT chunks FROM keyword_stats), (SELECT fusion_chunks FROM index_settings)"
    ).fetchone()
    return (int(row[0] or 0), row[1]) if row else (0, None)


SAVE_CALIBRATION = """
UPDATE index_settings SET fusion_g = %s, cosine_mean = %s, cosine_spread = %s, fusion_chunks = %s
"""


def save_calibration(conn: Connection, measured: Calibration | None, chunks: int) -> None:
    """Record what was measured with an index of so many chunks; with None, that nothing is known of it."""
    values = (measured.g, measured.cosine_mean, measured.cosine_spread, chunks) if measured else (None,) * 4
    conn.execute(SAVE_CALIBRATION, values)


def finish_reembedding(conn: Connection, measured: Calibration | None, chunks: int) -> None:
    """Record that the index holds other vectors from now on, and what was measured of them."""
    conn.execute("UPDATE index_settings SET reembedded_at = now()")
    save_calibration(conn, measured, chunks)
    conn.execute("DELETE FROM reembedding")


def load_relation_rules(conn: Connection) -> bytes | None:
    """The digest of the table by which the index's links were typed; None where they were not."""
    row = conn.execute("SELECT relation_rules FROM index_settings").fetchone()
    return bytes(row[0]) if row and row[0] is not None else None


def save_relation_rules(conn: Connection, digest: bytes) -> None:
    """Record the table by which links are typed."""
    conn.execute("UPDATE index_settings SET relation_rules = %s", (digest,))


def load_link_targets(conn: Connection) -> bytes | None:
    """The digest of the names by which all links were resolved; None where that is not known."""
    row = conn.execute("SELECT link_targets FROM index_settings").fetchone()
    return bytes(row[0]) if row and row[0] is not None else None


def save_link_targets(conn: Connection, digest: bytes | None) -> None:
    """Record by which names all links are resolved; None before links are written."""
    conn.execute("UPDATE index_settings SET link_targets = %s", (digest,))


def start_run(conn: Connection) -> int:
    """Open a run in the ledger; runs that a kill left open are closed as failed, old ones are dropped."""
    conn.execute(
        "UPDATE index_runs SET status = 'failed', finished_at = now(), error = 'interrupted'"
        " WHERE status = 'running'"
    )
    row = conn.execute("INSERT INTO index_runs DEFAULT VALUES RETURNING run_id").fetchone()
    assert row is not None
    # The last run that came to its end stays, however many attempts have failed since.
    conn.execute(
        "DELETE FROM index_runs WHERE run_id <= %s AND run_id IS DISTINCT FROM"
        " (SELECT max(run_id) FROM index_runs WHERE status IN ('ok', 'partial'))",
        (row[0] - RUNS_KEPT,),
    )
    return int(row[0])


def finish_run(conn: Connection, report: RunReport, error: str | None = None) -> None:
    """Close a run with its counts and the notes that failed, in one transaction."""
    with conn.transaction():
        conn.execute(
            "UPDATE index_runs SET status = %s, finished_at = now(), error = %s, report = %s"
            " WHERE run_id = %s",
            (report.status, error and make_storable(error), Jsonb(report.to_json()), report.run_id),
        )
        with conn.cursor() as cur:
            cur.executemany(
                "INSERT INTO index_failures (run_id, file_path, stage, error) VALUES (%s, %s, %s, %s)",
                [(report.run_id, f.file_path, f.stage, f.error) for f in report.failures],
            )


def record_attempt(conn: Connection, error: str) -> None:
    """Record a run that failed before it could start, unless there is no index or an indexer is at work."""
    if not take_indexer_lock(conn) or load_settings_row(conn) is None:
        return
    with conn.transaction():
        finish_run(conn, RunReport(start_run(conn), "failed"), error)
    release_indexer_lock(conn)
