"""The indexer: walk, diff, parse, chunk, embed, store, resolve, report."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

import psycopg

from obsidian_rag import (
    adoption,
    embedded_index,
    frequent_lexemes,
    keywords,
    ledger,
    postings,
    provenance,
    reembedding,
    store,
)
from obsidian_rag.config import Settings
from obsidian_rag.counts import count
from obsidian_rag.diff import IndexState, Plan, compare_vault
from obsidian_rag.errors import (
    FIRST_RUN,
    EmbedderError,
    IndexerBusy,
    ObsidianRagError,
    SettingsError,
    VaultError,
)
from obsidian_rag.intake import PARSER_VERSION, write_notes
from obsidian_rag.keywords import list_configs
from obsidian_rag.linking import begin_links, finish_links, take_relation_rules
from obsidian_rag.masking import hide_passwords
from obsidian_rag.migrate import applied_version, apply_migrations, check_not_newer, check_schema
from obsidian_rag.models import Failure, RunReport
from obsidian_rag.postgres import Connection, check_server, connect, locate, mapped_errors
from obsidian_rag.progress import Progress
from obsidian_rag.relations import load_table
from obsidian_rag.run import Options, Run
from obsidian_rag.safeguards import check_mass_delete, spare_empty_folders
from obsidian_rag.search import calibration
from obsidian_rag.vaults import VaultReader, open_vaults
from obsidian_rag.vector_adapters import register_vectors

__all__ = ["Options", "main", "run_indexer"]

# From so many new chunks on, waiting for the database's own clean-up makes searches slow meanwhile.
MANY_CHUNKS = 1000

Observer = Callable[[RunReport], None]


def run_indexer(
    settings: Settings, options: Options, progress: Progress, on_failure: Observer = lambda report: None
) -> RunReport:
    """Make the index equal to the vault.

    Returns the report: "ok" where every note is in, "partial" where some failed. Raises an ObsidianRagError
    where the run could not be done, after giving `on_failure` the report as far as it came; what was stored
    until then stays, and the next run goes on from there.
    """
    started = time.monotonic()
    if not settings.vaults:
        raise SettingsError("No vault is named", FIRST_RUN)
    if options.reembed and options.drop_reembedding:
        raise SettingsError("--reembed goes on with what --drop-reembedding gives up", "Choose one of them.")
    try:
        reader = open_vaults(settings.vaults, allow_empty=options.allow_mass_delete)
    except VaultError as exc:
        if not options.dry_run:
            _record_attempt(settings, exc)
        raise
    if options.dry_run:
        return _finish(_dry_run(settings, options, progress, reader), started)
    conninfo = locate(settings, create=True)
    with mapped_errors(conninfo), connect(conninfo) as conn, _prepared(conn, conninfo):
        run_id = ledger.start_run(conn)
        run: Run | None = None
        try:
            with mapped_errors(conninfo):  # so that the ledger has the words that the person is told
                run = _open_run(conn, settings, options, progress, reader)
                _work(run)
        except BaseException as exc:
            failed = replace(run.report if run else RunReport(None, "failed"), run_id=run_id)
            failed = replace(_finish(failed, started), status="failed")
            on_failure(failed)
            # Where the connection is what failed, the next run closes this one as interrupted.
            with suppress(psycopg.Error):
                ledger.finish_run(conn, failed, hide_passwords(_describe(exc), settings))
            raise
        finally:
            if run:
                run.close()
        report = _finish(replace(run.report, run_id=run_id), started)
        ledger.finish_run(conn, report)
    if not settings.database_url:
        embedded_index.mark_indexed(conninfo, settings.vaults)
    return report


def _finish(report: RunReport, started: float) -> RunReport:
    status: Literal["ok", "partial"] = "partial" if report.failures else "ok"
    return replace(
        report,
        status=status,
        notes_failed=len(_list_notes(report.failures)),
        seconds=round(time.monotonic() - started, 3),
    )


def _list_notes(failures: Iterable[Failure]) -> set[str]:
    """The notes among what failed; a folder that cannot be read is none."""
    return {failure.file_path for failure in failures if failure.file_path.lower().endswith(".md")}


def _count_notes(reader: VaultReader) -> int:
    """The notes on disk, with those that the walk could not read: each is then one of a report's counts."""
    return len({note.path for note in reader.notes} | _list_notes(reader.failures))


def _describe(exc: BaseException) -> str:
    if isinstance(exc, SystemExit | KeyboardInterrupt):
        return "stopped by a signal"
    return str(exc) or type(exc).__name__


def _record_attempt(settings: Settings, exc: VaultError) -> None:
    """Leave a trace of a run that cannot start in the index that it was for, if that is there.

    Otherwise a nightly run whose vault is not mounted would look like one that goes well. The person is told
    why the run failed; that this could not be recorded too would only hide it.
    """
    with suppress(ObsidianRagError, psycopg.Error, OSError):
        if settings.database_url or embedded_index.is_there(settings):
            with connect(locate(settings)) as conn:
                check_schema(conn)
                ledger.record_attempt(conn, hide_passwords(_describe(exc), settings))


@contextmanager
def _prepared(conn: Connection, conninfo: str) -> Iterator[None]:
    """The database at this program's schema, with no other indexer at work on it."""
    _prepare_database(conn, conninfo)
    try:
        yield
    finally:
        with suppress(psycopg.Error):
            ledger.release_indexer_lock(conn)


def _prepare_database(conn: Connection, conninfo: str) -> None:
    check_server(conn, conninfo)
    if not ledger.take_indexer_lock(conn):
        raise IndexerBusy("Another indexer is at work on this database", "Wait until it has finished.")
    if apply_migrations(conn):
        register_vectors(conn)
    store.create_departed(conn)


def _open_run(
    conn: Connection, settings: Settings, options: Options, progress: Progress, reader: VaultReader
) -> Run:
    if options.drop_reembedding:
        given_up = reembedding.drop_reembedding(conn)
        progress.say(f"{given_up}; it is given up." if given_up else "There is no re-embedding to give up.")
    row = ledger.load_settings_row(conn)
    fts_config = provenance.check_settings(conn, settings, options, row)
    run = Run(
        conn,
        settings,
        options,
        reader,
        progress,
        fts_config,
        list_configs(conn),
        ledger.recorded_model(row),
        load_table(settings.link_relations),
    )
    try:
        if run.recorded is None and not options.reembed:
            # Before anything is written: an index must know whose vectors it holds, adopted ones included.
            provenance.use_embedder(run)
        provenance.tell_unused_address(run)
        provenance.tell_reembedding(run)
        provenance.take_fts_config(run, row)
    except BaseException:
        run.close()
        raise
    return run


def _work(run: Run) -> None:
    compared_at = datetime.now(UTC)
    plan = _compare(run)
    if run.options.reembed:
        _reembed(run, plan)
        compared_at = datetime.now(UTC)
        plan = _compare(run)
    provenance.record_vaults(run)
    typed = take_relation_rules(run.conn, run.table)
    if typed:
        run.progress.say(f"{count(typed, 'link')} typed anew by the relations as they are now.")
    kept = "notes_indexed" if run.options.reembed else "notes_unchanged"
    run.count(notes_seen=_count_notes(run.reader), **{kept: plan.unchanged})
    run.fail(*run.reader.failures, *plan.failures)
    run.warn(*run.reader.warnings)
    before = begin_links(run.conn, changes=bool(plan.changes or plan.deleted), anew=run.options.full)
    try:
        write_notes(run, plan.changes)
    except EmbedderError:
        finish_links(
            run.conn, run.reader, before, run.links_changed
        )  # what was stored until now must be whole
        raise
    store.touch_notes(run.conn, plan.touched, compared_at)
    _delete_gone(run, plan)
    links, resolved = finish_links(run.conn, run.reader, before, run.links_changed)
    run.count(links=links, links_resolved=resolved)
    if run.options.full:
        postings.repair_postings(run.conn)
        frequent_lexemes.forget_frequent(run.conn)
    if run.report.chunks_written >= MANY_CHUNKS:
        postings.tidy_postings(run.conn)
    frequent_lexemes.count_frequent(run.conn)
    keywords.record_configs(run.conn)
    _calibrate(run)


def _compare(run: Run) -> Plan:
    state = IndexState(store.load_notes(run.conn), adoption.load_adoptable(run.conn))
    run.reader = run.reader.admit({*state.notes, *state.adoptable})
    return _make_plan(run.reader, run.progress, state, run.options)


def _reembed(run: Run, plan: Plan) -> None:
    """Change the vectors of what the index holds, without notes that are gone; edits come in afterwards, from
    a vault that is walked again, since this may have taken hours.
    """
    told = run.report
    before = begin_links(run.conn, changes=True)
    write_notes(run, [change for change in plan.changes if change.kind == "adopted"])
    run.report = told  # these notes are cut and stored anew afterwards, and then told of
    _delete_gone(run, plan)
    finish_links(run.conn, run.reader, before, run.links_changed)
    reembedding.reembed(run)
    run.reader = open_vaults(run.settings.vaults, allow_empty=run.options.allow_mass_delete)


def _calibrate(run: Run) -> None:
    """Measure how far vectors can be trusted, where the index has changed in size since that was done.

    A run that embeds little does not call the embedder for it, unless everything was asked for. A
    measurement that fails loses nothing.
    """
    if run.report.chunks_embedded < calibration.LEAST_CHUNKS and not run.options.full:
        return
    chunks, measured_at = ledger.load_calibration(run.conn)
    if not calibration.needs_measuring(chunks, measured_at):
        return
    try:
        measured = calibration.measure(run.conn, provenance.use_embedder(run).embed_query)
    except EmbedderError as exc:
        run.warn(f"How words and vectors are weighed could not be measured: {exc}")
        return
    if measured is not None:
        ledger.save_calibration(run.conn, measured, chunks)
        run.count(chunks_embedded=measured.questions)
        run.progress.say(
            f"Weighed words and vectors with {count(measured.questions, 'sentence')} of the notes:"
            f" g = {measured.g}."
        )


def _make_plan(reader: VaultReader, progress: Progress, state: IndexState, options: Options) -> Plan:
    progress.say(f"{count(len(reader.notes), 'note')} in the vault, {len(state.notes)} in the index.")
    plan = compare_vault(reader.notes, reader.is_kept, state, reader.read, PARSER_VERSION, options.full)
    if not options.allow_mass_delete:
        plan = spare_empty_folders(plan, reader)
        check_mass_delete(plan, state, reader)
    return plan


def _delete_gone(run: Run, plan: Plan) -> None:
    if plan.deleted:
        run.reader.check_there()  # the walk may have been hours ago
        store.forget_notes(run.conn, plan.deleted)
        run.links_changed = True
        run.count(notes_deleted=len(plan.deleted))


def _dry_run(settings: Settings, options: Options, progress: Progress, reader: VaultReader) -> RunReport:
    """What a run would do, without writing anything, not even the tables."""
    state = IndexState()
    if settings.database_url or embedded_index.is_there(settings):
        conninfo = locate(settings)
        with mapped_errors(conninfo), connect(conninfo) as conn:
            conn.execute("SET default_transaction_read_only = on")
            state = _read_state(conn, conninfo, settings, options)
    reader = reader.admit({*state.notes, *state.adoptable})
    plan = _make_plan(reader, progress, state, replace(options, full=options.full or options.reembed))
    kinds = Counter("renamed" if change.old_path else change.kind for change in plan.changes)
    return RunReport(
        None,
        "ok",
        notes_seen=_count_notes(reader),
        notes_indexed=kinds["new"] + kinds["changed"] + kinds["reread"] + kinds["adopted"],
        notes_unchanged=plan.unchanged,
        notes_renamed=kinds["renamed"],
        notes_deleted=len(plan.deleted),
        failures=(*reader.failures, *plan.failures),
        warnings=reader.warnings,
    )


def _read_state(conn: Connection, conninfo: str, settings: Settings, options: Options) -> IndexState:
    """What the index holds, read only; raises what a run would raise."""
    check_server(conn, conninfo)
    check_not_newer(conn)
    if not applied_version(conn):
        adoption.check_tables(conn)
        return IndexState(adoptable=adoption.load_adoptable(conn))
    provenance.check_settings(conn, settings, options, ledger.load_settings_row(conn))
    return IndexState(store.load_notes(conn), adoption.load_adoptable(conn))


def main() -> None:
    """The program indexer.py: the same as `obsidian-rag index`."""
    from obsidian_rag.cli import cli

    cli(["index", *sys.argv[1:]], prog_name="indexer.py")
