"""The indexer: walk, diff, parse, chunk, embed, store, resolve, report."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

import psycopg

from obsidian_rag import adoption, ledger, store
from obsidian_rag.chunks import split_note
from obsidian_rag.config import Settings
from obsidian_rag.diff import Change, IndexState, Plan, compare_vault, hash_bytes
from obsidian_rag.embedding import Embedder, EmbeddingModel, Vector, open_embedder
from obsidian_rag.errors import (
    EmbedderError,
    IndexerBusy,
    IndexMismatch,
    NoteError,
    SettingsError,
    VaultError,
)
from obsidian_rag.linking import resolve_links
from obsidian_rag.migrate import applied_version, apply_migrations
from obsidian_rag.models import Chunk, Failure, Note, RunReport
from obsidian_rag.notes import parse_note
from obsidian_rag.postgres import Connection, check_server, connect, locate, mapped_errors, mark_indexed
from obsidian_rag.progress import Progress
from obsidian_rag.vaults import VaultReader, open_vaults

# Raise when the parser or the chunker changes its results: every note is then parsed anew, and only chunks
# whose text changed are embedded.
PARSER_VERSION = 1
DEFAULT_FTS_CONFIG = "english"
# Chunks gathered before a round of embedding: a few batches, so that equal lengths meet in one batch.
ROUND_SIZE = 128
# Losing more than half of an index at once is a vault that is not mounted, far more often than a wish.
MASS_DELETE_SHARE = 0.5
MASS_DELETE_FLOOR = 20


@dataclass(frozen=True, slots=True)
class Options:
    """What a run may do. `full` reads and parses every note again; vectors of unchanged text stay."""

    full: bool = False
    dry_run: bool = False
    allow_mass_delete: bool = False


@dataclass(slots=True)
class Run:
    """The state of one run: its counts so far, and the embedder once it is needed."""

    conn: Connection
    settings: Settings
    reader: VaultReader
    progress: Progress
    fts_config: str
    recorded: EmbeddingModel | None
    embedder: Embedder | None = None
    report: RunReport = field(default_factory=lambda: RunReport(None, "ok"))

    def count(self, **steps: int) -> None:
        """Raise counters of the report."""
        raised = {name: getattr(self.report, name) + n for name, n in steps.items()}
        self.report = replace(self.report, **raised)

    def fail(self, failure: Failure) -> None:
        """Record a note that is not in the index as it is on disk."""
        self.report = replace(self.report, failures=(*self.report.failures, failure))

    def warn(self, text: str) -> None:
        """Record something the person should know although nothing is lost."""
        self.report = replace(self.report, warnings=(*self.report.warnings, text))


@dataclass(frozen=True, slots=True)
class Prepared:
    """A parsed note on its way into the index."""

    change: Change
    note: Note
    file_hash: str
    chunks: tuple[Chunk, ...]


def run_indexer(settings: Settings, options: Options, progress: Progress) -> RunReport:
    """Make the index equal to the vault.

    Returns the report: "ok" where every note is in, "partial" where some failed. Raises an ObsidianRagError
    where the run could not be done; what was stored until then stays, and the next run goes on from there.
    """
    started = time.monotonic()
    if not settings.vaults:
        raise SettingsError("No vault is named", "Run: obsidian-rag index /path/to/vault, or set VAULT_PATH.")
    reader = open_vaults(settings.vaults)
    if options.dry_run:
        return _dry_run(settings, options, progress, reader)
    conninfo = locate(settings, create=True)
    with mapped_errors(conninfo), connect(conninfo) as conn:
        _prepare_database(conn, conninfo)
        run_id = ledger.start_run(conn)
        run: Run | None = None
        try:
            run = _open_run(conn, settings, options, progress, reader)
            _work(run, options)
        except BaseException as exc:
            report = run.report if run else RunReport(None, "failed")
            _close_failed(conn, replace(report, run_id=run_id, status="failed"), exc)
            raise
        finally:
            if run and run.embedder:
                run.embedder.close()
        report = _complete(run.report, run_id, started)
        ledger.finish_run(conn, report)
    if not settings.database_url:
        mark_indexed(conninfo, settings.vaults)
    return report


def _complete(report: RunReport, run_id: int | None, started: float) -> RunReport:
    status: Literal["ok", "partial"] = "partial" if report.failures else "ok"
    return replace(
        report,
        run_id=run_id,
        status=status,
        notes_failed=len({failure.file_path for failure in report.failures}),
        seconds=round(time.monotonic() - started, 3),
    )


def _close_failed(conn: Connection, report: RunReport, exc: BaseException) -> None:
    # Where the connection is what failed, the next run closes this one as interrupted.
    with suppress(psycopg.Error):
        ledger.finish_run(conn, report, str(exc) or type(exc).__name__)


def _prepare_database(conn: Connection, conninfo: str) -> None:
    check_server(conn, conninfo)
    if not ledger.take_indexer_lock(conn):
        raise IndexerBusy("Another indexer is at work on this database", "Wait until it has finished.")
    if apply_migrations(conn):
        from pgvector.psycopg import register_vector

        register_vector(conn)
    store.create_departed(conn)


def _open_run(
    conn: Connection, settings: Settings, options: Options, progress: Progress, reader: VaultReader
) -> Run:
    row = ledger.load_settings_row(conn)
    fts_config = _choose_fts_config(conn, settings, row, options)
    recorded = ledger.recorded_model(row)
    run = Run(conn, settings, reader, progress, fts_config, recorded)
    if recorded is None:
        # Before anything is written: an index must know whose vectors it holds, adopted ones included.
        _open_embedder(run)
    else:
        _record(run, recorded)
    if backfilled := adoption.backfill_keywords(conn, fts_config):
        progress.say(f"Keyword data added to {backfilled} notes of the first schema.")
    return run


def _choose_fts_config(
    conn: Connection, settings: Settings, row: ledger.IndexSettings | None, options: Options
) -> str:
    wanted = settings.fts_config or (row.fts_config if row else DEFAULT_FTS_CONFIG)
    known = conn.execute("SELECT 1 FROM pg_ts_config WHERE cfgname = %s", (wanted,)).fetchone()
    if not known:
        raise SettingsError(
            f"The database has no text search configuration {wanted!r}",
            "List them with: obsidian-rag psql -- -c '\\dF'",
        )
    if row and row.fts_config != wanted and not options.full:
        raise IndexMismatch(
            f"The index was made with FTS_CONFIG={row.fts_config}, now it is {wanted}",
            f"Set FTS_CONFIG={row.fts_config}, or rebuild the keyword data: obsidian-rag index --full",
        )
    return wanted


def _open_embedder(run: Run) -> Embedder:
    """Open the embedder at its first use and make sure that its vectors fit the index."""
    if run.embedder is not None:
        return run.embedder
    run.embedder = open_embedder(
        embedder=run.settings.embedder,
        model=run.settings.embed_model,
        ollama_url=run.settings.ollama_url,
        ollama_url_is_set=run.settings.ollama_url_is_set,
        recorded=run.recorded,
        say=run.progress.say,
    )
    model = run.embedder.model
    present = store.vector_dimensions(run.conn)
    if run.recorded is None and present != model.dimensions:
        if store.has_chunks(run.conn):
            raise IndexMismatch(
                f"The index holds vectors of {present} dimensions, {model.name} gives {model.dimensions}",
                "Set EMBEDDER and EMBED_MODEL to the model that made them.",
            )
        store.set_dimensions(run.conn, model.dimensions)
    elif run.recorded is None and store.has_chunks(run.conn):
        text = f"The vectors found in the database are taken to be those of {model.name}; this is recorded."
        run.progress.say(text)
        run.warn(text)
    _record(run, model)
    run.recorded = model
    return run.embedder


def _record(run: Run, model: EmbeddingModel) -> None:
    ledger.save_settings_row(
        run.conn,
        ledger.IndexSettings(
            tuple(str(vault.root) for vault in run.settings.vaults),
            run.fts_config,
            model.provider,
            model.name,
            model.dimensions,
            model.window,
        ),
    )


def _work(run: Run, options: Options) -> None:
    state = IndexState(store.load_notes(run.conn), adoption.load_adoptable(run.conn))
    plan = _make_plan(run.reader, run.progress, state, options)
    _check_mass_delete(plan, state, run.settings, options)
    run.report = replace(
        run.report,
        notes_seen=len(run.reader.notes),
        notes_unchanged=plan.unchanged,
        failures=(*run.reader.failures, *plan.failures),
        warnings=(*run.report.warnings, *run.reader.warnings),
    )
    run.progress.begin("Indexing notes", len(plan.changes))
    try:
        _write_notes(run, plan.changes)
    except EmbedderError:
        resolve_links(run.conn, run.reader)  # what was stored until now must be whole
        raise
    store.touch_notes(run.conn, plan.touched)
    if plan.deleted:
        store.delete_notes(run.conn, plan.deleted)
        run.count(notes_deleted=len(plan.deleted))
    links, resolved = resolve_links(run.conn, run.reader)
    run.report = replace(run.report, links=links, links_resolved=resolved)


def _make_plan(reader: VaultReader, progress: Progress, state: IndexState, options: Options) -> Plan:
    progress.say(f"{len(reader.notes)} notes in the vault, {len(state.notes)} in the index.")
    return compare_vault(reader.notes, reader.is_kept, state, reader.read, PARSER_VERSION, options.full)


def _check_mass_delete(plan: Plan, state: IndexState, settings: Settings, options: Options) -> None:
    held = len({*state.notes, *state.adoptable})
    lost = len(plan.deleted)
    if options.allow_mass_delete or lost <= max(MASS_DELETE_FLOOR, held * MASS_DELETE_SHARE):
        return
    roots = ", ".join(str(vault.root) for vault in settings.vaults)
    raise VaultError(
        f"{lost} of the {held} notes in the index are not in {roots}; nothing was changed",
        "Check that this is the vault and that it is mounted. To index another vault, set DATABASE_URL to a"
        " database of its own; if the notes are really gone: obsidian-rag index --allow-mass-delete",
    )


def _write_notes(run: Run, changes: Sequence[Change]) -> None:
    """Parse, embed and store in rounds, so that memory does not grow with the vault."""
    waiting: list[Prepared] = []
    for change in changes:
        prepared = _prepare_note(run, change)
        if prepared is None:
            run.progress.advance()
        elif change.kind == "adopted":
            _store(run, prepared, lambda p: adoption.adopt_note(run.conn, p.note, p.change.file, p.file_hash))
        else:
            waiting.append(prepared)
        if sum(len(p.chunks) for p in waiting) >= ROUND_SIZE:
            _finish_round(run, waiting)
            waiting = []
    _finish_round(run, waiting)


def _prepare_note(run: Run, change: Change) -> Prepared | None:
    path = change.file.path
    try:
        data = run.reader.read(path)
        text, remarks = run.reader.decode(data)
        note = parse_note(path, text)
    except NoteError as exc:
        run.fail(Failure(path, "read", str(exc)))
        return None
    except Exception as exc:  # a fault of the parser must cost this note only, and be told
        run.fail(Failure(path, "parse", f"{type(exc).__name__}: {exc}. Please report this note's form."))
        return None
    note = replace(note, warnings=(*remarks, *note.warnings))
    for warning in note.warnings:
        run.warn(f"{path}: {warning}")
    return Prepared(change, note, hash_bytes(data), tuple(split_note(note)))


def _finish_round(run: Run, waiting: Sequence[Prepared]) -> None:
    """Find or make the vectors of some notes and store each note that has all of its own."""
    texts = {
        store.hash_text(text): text
        for prepared in waiting
        for text in map(store.embedding_text, prepared.chunks)
    }
    vectors: dict[bytes, Vector] = dict(store.find_vectors(run.conn, texts))
    missing = {key: text for key, text in texts.items() if key not in vectors}
    refused: dict[bytes, str] = {}
    if missing:
        answers = _open_embedder(run).embed_documents(list(missing.values()))
        run.count(chunks_embedded=len(missing))
        for key, answer in zip(missing, answers, strict=True):
            if isinstance(answer, Exception):
                refused[key] = str(answer)
            else:
                vectors[key] = answer
    for prepared in waiting:
        _store_embedded(run, prepared, vectors, refused, missing.keys())


def _store_embedded(
    run: Run,
    prepared: Prepared,
    vectors: Mapping[bytes, Vector],
    refused: Mapping[bytes, str],
    embedded: Container[bytes],
) -> None:
    hashes = [store.hash_text(store.embedding_text(chunk)) for chunk in prepared.chunks]
    for chunk, key in zip(prepared.chunks, hashes, strict=True):
        if key in refused:
            where = f"lines {chunk.start_line} to {chunk.end_line}"
            run.fail(Failure(prepared.note.file_path, "embed", f"{where}: {refused[key]}"))
            run.progress.advance()
            return

    def write(prepared: Prepared) -> None:
        store.store_note(
            run.conn,
            prepared.note,
            prepared.change.file,
            prepared.file_hash,
            prepared.chunks,
            [vectors[key] for key in hashes],
            run.fts_config,
            PARSER_VERSION,
            prepared.change.old_path,
        )

    if _store(run, prepared, write):
        run.count(chunks_written=len(hashes), chunks_reused=sum(1 for key in hashes if key not in embedded))


def _store(run: Run, prepared: Prepared, write: Callable[[Prepared], None]) -> bool:
    """Write one note; what the database refuses of it is this note's failure and no one else's."""
    run.progress.advance()
    try:
        write(prepared)
    except (psycopg.DataError, psycopg.errors.ProgramLimitExceeded, psycopg.IntegrityError) as exc:
        run.fail(Failure(prepared.note.file_path, "store", str(exc).splitlines()[0]))
        return False
    if prepared.change.kind == "renamed":
        run.count(notes_renamed=1)
    else:
        run.count(notes_indexed=1)
    return True


def _dry_run(settings: Settings, options: Options, progress: Progress, reader: VaultReader) -> RunReport:
    """What a run would do, without writing anything, not even the tables."""
    started = time.monotonic()
    state = IndexState()
    # A setting that is missing means that there is no index yet: everything is new.
    with suppress(SettingsError), connect(locate(settings), read_only=True) as conn:
        if applied_version(conn):
            state = IndexState(store.load_notes(conn), adoption.load_adoptable(conn))
    plan = _make_plan(reader, progress, state, options)
    kinds = Counter(change.kind for change in plan.changes)
    report = RunReport(
        None,
        "ok",
        notes_seen=len(reader.notes),
        notes_indexed=kinds["new"] + kinds["changed"] + kinds["adopted"],
        notes_unchanged=plan.unchanged,
        notes_renamed=kinds["renamed"],
        notes_deleted=len(plan.deleted),
        failures=(*reader.failures, *plan.failures),
        warnings=reader.warnings,
    )
    return _complete(report, None, started)


def main() -> None:
    """The program indexer.py: the same as `obsidian-rag index`."""
    from obsidian_rag.cli import cli

    cli(["index", *sys.argv[1:]], prog_name="indexer.py")
