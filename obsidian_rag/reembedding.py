"""Changing the embedder: every text embedded anew, beside the vectors in use.

The new vectors are kept by the hash of their text as they are made, so that an interrupted run goes on where
it stood and equal texts are embedded once. What is embedded is what the index holds; notes edited since are
brought in by the run that follows, with the new embedder. Until the one transaction that swaps the vectors,
search and plain runs of the indexer go on with the old ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from obsidian_rag import ledger, provenance, store, vector_column, vector_swap
from obsidian_rag.counts import choose, count
from obsidian_rag.embedding import Embedder, EmbeddingModel, check_recorded
from obsidian_rag.errors import EmbedderError, EmbeddingRejected, IndexMismatch, ModelUnsuitable
from obsidian_rag.models import Calibration
from obsidian_rag.postgres import Connection
from obsidian_rag.run import Run
from obsidian_rag.search import calibration

# Texts read at once, so that equal lengths meet, and those of them that are embedded and kept at once: a kill
# costs no more than these.
PAGE = 512
AT_ONCE = 32
# A model that refuses a greater share of the notes, and more than one, does not take over.
MOST_REFUSED = 0.05


def reembed(run: Run) -> None:
    """Give the index the vectors of the settings' embedder, or of the one begun with where they name none.

    Raises EmbedderError where it does not come about; the vectors made until then are kept and the old ones
    stay in use.
    """
    vector_swap.check_replaceable(run.conn)
    embedder = _open_next(run)
    try:
        _check_works(run.conn, embedder)
        _list_wanted(run.conn)
        reused = _begin(run, embedder.model)
        refused = _embed_missing(run, embedder)
        _swap(run, embedder, _list_refused(run.conn, embedder, refused), reused)
    except EmbedderError as exc:
        embedder.close()
        raise _explain(run, exc) from exc
    except BaseException:
        embedder.close()
        raise
    run.close()
    run.embedder = embedder
    # Not in the transaction: who reads the status may hold both tables. What a kill leaves, the next
    # re-embedding clears.
    run.conn.execute("TRUNCATE reembedded")


def drop_reembedding(conn: Connection) -> ledger.Reembedding | None:
    """Give up a re-embedding that is not finished; returns how it stood, None where there is none."""
    given_up = ledger.load_reembedding(conn)
    with conn.transaction():
        conn.execute("DELETE FROM reembedding")
        conn.execute("TRUNCATE reembedded")
    return given_up


# --- what to embed, and with what --------------------------------------------------------------------


def _open_next(run: Run) -> Embedder:
    begun = ledger.load_reembedding(run.conn)
    if begun is not None:
        try:
            check_recorded(begun.model, run.settings.embedder, run.settings.embed_model)
        except IndexMismatch:
            pass  # the settings name another
        else:
            return provenance.open_model(run, begun.model.provider, begun.model.name)
    return provenance.open_model(run, run.settings.embedder, run.settings.embed_model)


def _check_works(conn: Connection, embedder: Embedder) -> None:
    vector_column.check_dimensions(embedder.model.dimensions)
    answer = embedder.embed_documents([provenance.PROBE])[0]
    if isinstance(answer, EmbeddingRejected):
        raise answer


# A row for each chunk. Chunks of the first schema have no hash yet.
CREATE_WANTED = """
DROP TABLE IF EXISTS pg_temp.wanted;
CREATE TEMPORARY TABLE wanted (id BIGINT PRIMARY KEY, content_hash BYTEA NOT NULL)
"""
WANT_HASHED = "INSERT INTO wanted SELECT id, content_hash FROM documents WHERE content_hash IS NOT NULL"
TEXT = "coalesce(nullif(heading_path, ''), heading, ''), content"
NEXT_UNHASHED = f"""
SELECT id, {TEXT} FROM documents WHERE content_hash IS NULL AND id > %(after)s ORDER BY id LIMIT %(limit)s
"""  # noqa: S608 - a constant of this module, no value
WANT = "INSERT INTO wanted VALUES (%s, %s)"


def _list_wanted(conn: Connection) -> None:
    """Fill the temporary table `wanted`: the id of every chunk with the hash of the text to embed."""
    conn.execute(CREATE_WANTED)
    conn.execute(WANT_HASHED)
    page = {"after": -1, "limit": PAGE}
    while rows := conn.execute(NEXT_UNHASHED, page).fetchall():
        with conn.cursor() as cur:
            cur.executemany(
                WANT, [(row[0], store.hash_text(store.join_text(row[1], row[2]))) for row in rows]
            )
        page["after"] = rows[-1][0]
    conn.execute("CREATE INDEX ON wanted (content_hash)")
    conn.execute("ANALYZE wanted")


BEGIN = """
INSERT INTO reembedding (embedder, embed_model, dimensions, embed_window)
VALUES (%(provider)s, %(name)s, %(dimensions)s, %(window)s)
"""
FORGET_UNWANTED = """
DELETE FROM reembedded r WHERE NOT EXISTS (SELECT FROM wanted w WHERE w.content_hash = r.content_hash)
"""
COUNT_TEXTS = "UPDATE reembedding SET texts = (SELECT count(DISTINCT content_hash) FROM wanted)"
COUNT_MADE = "SELECT count(*) FROM wanted JOIN reembedded USING (content_hash)"


def _begin(run: Run, model: EmbeddingModel) -> int:
    """Record the re-embedding, or take it up where it stood; returns how many chunks have their vector."""
    conn = run.conn
    begun = ledger.load_reembedding(conn)
    with conn.transaction():
        if begun is None or begun.model != model:
            drop_reembedding(conn)
            values = {"provider": model.provider, "name": model.name}
            conn.execute(BEGIN, values | {"dimensions": model.dimensions, "window": model.window})
        conn.execute(FORGET_UNWANTED)
        conn.execute(COUNT_TEXTS)
    if begun is not None and begun.model != model:
        run.progress.say(f"{begun}; it is given up, for the settings now ask for {model}.")
    now = ledger.load_reembedding(conn)
    assert now is not None
    if now.texts:
        old = f"Until all are done, search goes on with {run.recorded}." if run.recorded else ""
        done = f"{now.done} of {count(now.texts, 'text')} {choose(now.done, 'is', 'are')} done."
        run.progress.say(f"Embedding with {model}: {done} {old}".strip())
        run.progress.begin("Embedding texts", now.texts - now.done)
    row = conn.execute(COUNT_MADE).fetchone()
    return int(row[0]) if row else 0


NEXT_TEXTS = f"""
SELECT DISTINCT ON (w.content_hash) w.content_hash, {TEXT}
FROM wanted w JOIN documents d USING (id)
WHERE w.content_hash > %(after)s
    AND NOT EXISTS (SELECT FROM reembedded r WHERE r.content_hash = w.content_hash)
ORDER BY w.content_hash LIMIT %(limit)s
"""  # noqa: S608 - a constant of this module, no value
KEEP = "INSERT INTO reembedded (content_hash, embedding) VALUES (%s, %s) ON CONFLICT DO NOTHING"


def _embed_missing(run: Run, embedder: Embedder) -> dict[bytes, str]:
    """Make and keep every vector that is missing; returns why texts were refused, by their hash."""
    refused: dict[bytes, str] = {}
    page = {"after": b"", "limit": PAGE}
    while rows := run.conn.execute(NEXT_TEXTS, page).fetchall():
        page["after"] = rows[-1][0]
        texts = sorted(((bytes(row[0]), store.join_text(row[1], row[2])) for row in rows), key=_length)
        for first in range(0, len(texts), AT_ONCE):
            some = texts[first : first + AT_ONCE]
            answers = embedder.embed_documents([text for _, text in some])
            run.count(chunks_embedded=len(some))
            made = []
            for (key, _), answer in zip(some, answers, strict=True):
                if isinstance(answer, EmbeddingRejected):
                    refused[key] = answer.message
                else:
                    made.append((key, answer))
            with run.conn.transaction(), run.conn.cursor() as cur:
                cur.executemany(KEEP, made)
            run.progress.advance(len(some))
    return refused


def _length(text: tuple[bytes, str]) -> int:
    return len(text[1])


FIND_REFUSED = """
SELECT DISTINCT ON (d.file_path) d.file_path, w.content_hash FROM wanted w JOIN documents d USING (id)
WHERE w.content_hash = ANY(%s) ORDER BY d.file_path, d.chunk_index
"""


def _list_refused(conn: Connection, embedder: Embedder, refused: Mapping[bytes, str]) -> list[str]:
    """The notes that cannot be taken along. Raises ModelUnsuitable where these are many."""
    found = conn.execute(FIND_REFUSED, (list(refused),)).fetchall()
    row = conn.execute("SELECT count(DISTINCT file_path) FROM documents").fetchone()
    notes = row[0] if row else 0
    if len(found) > max(1, notes * MOST_REFUSED):
        path, key = found[0]
        raise ModelUnsuitable(
            f"{embedder.model} cannot embed {len(found)} of the {notes} notes, among them {path}:"
            f" {refused[bytes(key)]}",
            "Choose another EMBED_MODEL",
        )
    return [path for path, _ in found]


# --- the change --------------------------------------------------------------------------------------

# Chunks that another program cut have a vector now, and a hash; the run that follows cuts them by our rules.
CUT_ANEW = """
UPDATE notes SET parser_version = 0
WHERE file_path IN (SELECT file_path FROM documents WHERE content_hash IS NULL)
"""


def _swap(run: Run, embedder: Embedder, left_out: Sequence[str], reused: int) -> None:
    """Change vectors, model and calibration in one transaction. Notes `left_out` leave the index; the run
    that follows tries them again, and names those that fail.
    """
    conn, model = run.conn, embedder.model
    embedder.embed_query(provenance.PROBE)  # who cannot be asked must not take over
    run.progress.say(f"All texts are embedded; their index is built, then search changes to {model}.")
    with conn.transaction():
        vector_swap.keep_writers_out(conn)
        store.forget_notes(conn, left_out)
        rows = vector_swap.build_next(conn, model.dimensions, run.warn)
        conn.execute(CUT_ANEW)
        chunks, _ = ledger.load_calibration(conn)
        measured = _measure(run, embedder, chunks)
        vector_swap.put_in_place(conn, run.progress.say)
        provenance.record_model(run, model)
        ledger.finish_reembedding(conn, measured, chunks)
        store.forget_departed(conn)
    questions = measured.questions if measured else 0
    run.count(chunks_written=rows, chunks_reused=reused, chunks_embedded=questions)


def _measure(run: Run, embedder: Embedder, chunks: int) -> Calibration | None:
    if not calibration.needs_measuring(chunks, None):
        return None
    try:
        return calibration.measure(run.conn, embedder.embed_query, vector_swap.NEXT)
    except EmbeddingRejected as exc:
        run.warn(f"How words and vectors are weighed could not be measured: {exc}")
        return None


def _explain(run: Run, exc: EmbedderError) -> EmbedderError:
    """The same error, with what has become of the work."""
    begun = ledger.load_reembedding(run.conn)
    if begun is None:
        return exc
    kept = f"search goes on with {run.recorded}" if run.recorded else "the index is as it was"
    return type(exc)(
        f"{exc.message.rstrip('.')}. {begun}; {kept}",
        f"{exc.mend.rstrip('.')}. Then go on: obsidian-rag index --reembed",
    )
