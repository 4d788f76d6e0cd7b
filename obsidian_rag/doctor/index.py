"""Checks of the index itself: its last run, its rows, and the notes on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from obsidian_rag import ledger, provenance
from obsidian_rag.counts import choose, count
from obsidian_rag.doctor.database import KNOWN, PSQL
from obsidian_rag.doctor.examination import Examination, Patient
from obsidian_rag.doctor.report import Finding, fail, ok, skip, warn
from obsidian_rag.drift import AGAIN, EXAMPLES, compare_disk, compare_tables, find_vaults, open_disk
from obsidian_rag.errors import FIRST_RUN
from obsidian_rag.render import describe_disk, show_age, show_time, show_when
from obsidian_rag.run import Options
from obsidian_rag.search.filters import count_hidden
from obsidian_rag.search.notices import AHEAD_AFTER, STALE_AFTER
from obsidian_rag.vaults import VaultReader

WARNINGS = 'obsidian-rag psql -- -c "SELECT file_path, unnest(warnings) FROM notes ORDER BY 1"'
LOST_SHARE = 0.5  # of the index missing on disk: a vault that is not mounted, more likely than a wish


def check_last_run(patient: Patient) -> Finding:
    """How the last run of the indexer ended."""
    status = patient.standing
    last = status["last_run"]
    if last is None and not status["notes"]:
        return fail("Nothing was ever indexed", FIRST_RUN)
    if last is None:
        return warn("No run is recorded", AGAIN)
    started = f"run {last['run_id']}, started {show_time(last['started_at'])}"
    if status["cut_short"] or last["error"] == "interrupted":
        return warn(f"The last run was cut short ({started}); some notes may be missing", AGAIN)
    if last["status"] == "failed":
        reason = str(last["error"] or "no reason is recorded").rstrip(".")
        return fail(f"The last run failed ({started}): {reason}", f"Mend that, then run it again. {AGAIN}")
    if last["status"] == "running":
        return ok(f"a run is under way ({started}); what follows may change until it has finished")
    if not status["notes"]:
        return fail(f"The index is empty although its last run ended as {last['status']}", AGAIN)
    return ok(
        f"{last['status']} ({started}); {count(status['notes'], 'note')},"
        f" {count(status['chunks'], 'chunk')}, {count(status['links'], 'link')}"
    )


def check_age(patient: Patient) -> Finding:
    """When a run last came to its end."""
    good = patient.standing["last_good_run"]
    if good is None:
        return fail("No run has ever come to its end", AGAIN)
    age = good["age_seconds"]
    text = f"The last run that came to its end did so {show_when(age)}"
    if -age > AHEAD_AFTER:
        return warn(text, f"Set the clocks of this machine and of the database's. {AGAIN}")
    if age > STALE_AFTER:
        return warn(text, f"{AGAIN} (and look why cron or the timer does not)")
    return ok(f"{show_age(age)} since the last run that came to its end")


def check_failed_notes(patient: Patient) -> Finding:
    """Notes that the last finished run could not bring in."""
    failures = patient.standing["failures"]
    if not failures:
        return ok("none")
    named = "; ".join(f"{f['file_path']} ({f['stage']}): {f['error']}" for f in failures[:EXAMPLES])
    more = f"; and {len(failures) - EXAMPLES} more" if len(failures) > EXAMPLES else ""
    return warn(
        f"{count(len(failures), 'note')} {choose(len(failures), 'is', 'are')} not in the index as on disk:"
        f" {named}{more}",
        f"Mend what is said of each. {AGAIN}. All of them: obsidian-rag status",
    )


def check_warnings(patient: Patient) -> Finding:
    """Notes that are in the index with a remark on how they were read."""
    marked, first = patient.standing["notes_with_warnings"], patient.standing["warnings"]
    if not marked:
        return ok("none")
    named = "; ".join(
        f"{note['file_path']}: {' '.join(note['warnings']).rstrip('.')}" for note in first[:EXAMPLES]
    )
    more = f"; and {marked - EXAMPLES} more" if marked > EXAMPLES else ""
    command = "obsidian-rag status" if marked <= len(first) else WARNINGS
    return warn(
        f"{count(marked, 'note')} {choose(marked, 'was', 'were')} indexed with a warning: {named}{more}",
        f"Mend what is said of each. {AGAIN}. All of them: {command}",
    )


def check_made_with(patient: Patient) -> Finding:
    """Whether the settings ask for what the index was made with: vault, embedder, words."""
    row = patient.row
    if row is None:
        return skip("the index records nothing of what it was made with", AGAIN)
    settings = replace(patient.settings, vaults=find_vaults(patient.settings, row))
    provenance.check_settings(patient.database, settings, Options(), row)
    return ok(f"{', '.join(row.vaults)}; {ledger.recorded_model(row)}; words {row.fts_config}")


def check_reembedding(patient: Patient) -> Finding:
    """Whether a change of the embedder was begun and not finished."""
    if patient.begun is None:
        return ok("none is under way")
    return warn(f"{patient.begun}", ledger.GO_ON)


def check_agreement(patient: Patient) -> list[Finding]:
    """Whether the tables fit one another: nothing orphaned, nothing missing."""
    found = compare_tables(patient.database)
    last = patient.standing["last_run"]
    if found and last and last["status"] == "running" and not patient.standing["cut_short"]:
        return [
            warn(
                f"While a run is at work: {', '.join(map(str, found))}",
                "Look again when it has finished.",
            )
        ]
    return [fail(str(drift), drift.mend) for drift in found] or [ok("no orphaned and no missing rows")]


BAD_VECTORS = """
SELECT count(*) FILTER (WHERE embedding IS NULL),
       count(*) FILTER (WHERE embedding IS NOT NULL AND NOT vector_norm(embedding) > 0),
       count(*) FILTER (WHERE content_hash IS NULL), count(*)
FROM documents
"""
DELETE_BAD = PSQL.format("DELETE FROM documents WHERE embedding IS NULL OR NOT vector_norm(embedding) > 0")


def check_vectors(patient: Patient) -> Finding:
    """Whether each chunk has a vector that means something."""
    row = patient.database.execute(BAD_VECTORS).fetchone()
    assert row is not None
    missing, zero, foreign, chunks = row
    if missing or zero:
        what = [f"{count(missing, 'chunk')} {choose(missing, 'has', 'have')} no vector"] * bool(missing)
        what += [f"{count(zero, 'chunk')} {choose(zero, 'has', 'have')} a vector of length 0"] * bool(zero)
        return fail(
            f"{' and '.join(what)}: no search by meaning finds them", f"{DELETE_BAD}; then {AGAIN} --full"
        )
    adopted = f", {foreign} of them made by another program and taken over" if foreign else ""
    return ok(f"{count(chunks, 'chunk')} {choose(chunks, 'has', 'have')} one{adopted}")


def check_disk(patient: Patient) -> Finding:
    """Whether the notes on disk are those of the index."""
    disk = compare_disk(patient.database, _find_reader(patient))
    text = describe_disk(disk.to_json())
    held = patient.standing["notes"]
    if held and disk.gone > LOST_SHARE * held:
        return fail(
            text, "Check that this is the vault and that it is mounted, before the indexer runs again."
        )
    if disk.differs or disk.unreadable:
        return warn(text, AGAIN)
    return ok(text)


def _find_reader(patient: Patient) -> VaultReader:
    if patient.reader is None:
        patient.reader = open_disk(patient.settings, patient.row)
    elif patient.row is not None:
        provenance.check_vaults(patient.settings, patient.row)
    return patient.reader


def check_hidden_notes(patient: Patient) -> Finding:
    """How many notes the settings hide from every search, and whether each exclude hides any."""
    excludes = patient.settings.search_excludes
    hidden = count_hidden(patient.database, excludes)
    idle = [exclude for exclude, notes in hidden.by_exclude.items() if not notes]
    by_exclude = ", ".join(f"{exclude}: {notes}" for exclude, notes in hidden.by_exclude.items())
    notes = count(patient.standing["notes"], "note")
    text = f"SEARCH_EXCLUDES hides {hidden.notes} of {notes} ({by_exclude})"
    if idle:
        return warn(text, f"Correct or remove what hides nothing: {', '.join(idle)}")
    if hidden.notes > LOST_SHARE * patient.standing["notes"]:
        return warn(text, "Check SEARCH_EXCLUDES: it hides most of the index.")
    return ok(text if excludes else "none")


WHOLE_TABLES = 60.0  # seconds for what reads every row
CHECKS: Sequence[Examination] = (
    Examination("index", "last run", check_last_run, KNOWN),
    Examination("index", "age", check_age, KNOWN),
    Examination("index", "failed notes", check_failed_notes, KNOWN),
    Examination("index", "warnings", check_warnings, KNOWN),
    Examination("index", "made with", check_made_with, KNOWN),
    Examination("index", "re-embedding", check_reembedding, KNOWN),
    Examination("index", "tables", check_agreement, KNOWN, WHOLE_TABLES),
    Examination("index", "vectors", check_vectors, KNOWN, WHOLE_TABLES),
    Examination("index", "hidden notes", check_hidden_notes, KNOWN),
    Examination("index", "notes on disk", check_disk, ("folder", *KNOWN), WHOLE_TABLES),
)
