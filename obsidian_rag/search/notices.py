"""What an answer must say of itself: a stale or failed index, a weak match, and why nothing was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from obsidian_rag.counts import choose, count
from obsidian_rag.errors import FIRST_RUN
from obsidian_rag.ledger import was_cut_short
from obsidian_rag.models import Hit
from obsidian_rag.postgres import Connection
from obsidian_rag.search.dates import Period, is_date_word
from obsidian_rag.search.evidence import CERTAIN, STRONG, is_sure
from obsidian_rag.search.facts import list_configs
from obsidian_rag.search.filters import find_exclude
from obsidian_rag.search.idle_filters import explain_filters
from obsidian_rag.search.keyword import KeywordResult
from obsidian_rag.search.priors import find_idle, uses_priors
from obsidian_rag.search.query import Intent, Request, read_operators
from obsidian_rag.search.retrieval import Retrieved
from obsidian_rag.search.unknown_words import find_meant

INDEX_STATE = """
SELECT r.run_id, r.status, r.error,
       extract(epoch FROM now() - good.finished_at)::float8, extract(epoch FROM good.started_at)::float8,
       (SELECT count(*) FROM failures),
       coalesce((SELECT vaults FROM index_settings), '{}')
FROM last_run r LEFT JOIN (
    SELECT started_at, finished_at FROM index_runs
    WHERE status IN ('ok', 'partial') ORDER BY run_id DESC LIMIT 1) AS good ON true
"""
STALE_AFTER = 7 * 24 * 3600.0  # seconds; a nightly job that has failed for a week is not working
# Between two nightly runs there are always edits that the index lacks. From here on a run was left out.
OVERDUE_AFTER = 26 * 3600.0
AHEAD_AFTER = 3600.0  # seconds in the future; no two clocks in order differ by that

# Given where the index says its vaults are, the time (Unix seconds) of the newest edit of a note there.
FindEdit = Callable[[Sequence[str]], float | None]


def describe_index(conn: Connection, find_edit: FindEdit) -> tuple[str, ...]:
    """Notices about the index itself: the last run failed, was killed, left notes out, was long ago, or a run
    is overdue and notes were edited since the last one.
    """
    row = conn.execute(INDEX_STATE).fetchone()
    if row is None:
        return ()
    run_id, status, error, age, good_since, failures, vaults = row
    notices = []
    if status == "failed":
        notices.append(
            f"The last run of the indexer failed: {(error or '').rstrip('.')}. Newer edits may be missing."
        )
    elif status == "running" and was_cut_short(conn, run_id):
        notices.append(
            "The last run of the indexer was cut short; some notes may be missing. Run: obsidian-rag index"
        )
    elif status == "running" and age is None:
        notices.append("The first run of the indexer is under way; some notes are still missing.")
    if failures:
        notices.append(f"{count(failures, 'note')} could not be indexed; `obsidian-rag status` tells which.")
    if age is not None and age > STALE_AFTER:
        notices.append(f"The index is {age / 86400:.0f} days old. Run: obsidian-rag index")
    elif age is not None and -age > AHEAD_AFTER:
        notices.append(
            f"The last run of the indexer is dated {-age / 86400:.1f} days in the future: a clock was wrong,"
            " and how old the index is cannot be told. Run: obsidian-rag index"
        )
    elif age is not None and age > OVERDUE_AFTER and (find_edit(vaults) or 0) > good_since:
        notices.append(
            f"Notes were edited after the last run of the indexer, {age / 3600:.0f} hours ago; those edits"
            " are missing. Run: obsidian-rag index"
        )
    return tuple(notices)


def explain_weakness(hits: Sequence[Hit], retrieved: Retrieved) -> tuple[str, ...]:
    """A notice where nothing found is clearly about the query."""
    if any(hit.evidence in CERTAIN | STRONG for hit in hits):
        return ()
    if any(hit.evidence in ("fuzzy_title", "date") for hit in hits):
        return ()
    if is_sure(retrieved):
        return ()
    return ("No note clearly answers this: these are only the nearest. The vault may hold nothing on it.",)


def explain_boosts(conn: Connection, request: Request, intent: Intent) -> tuple[str, ...]:
    """Notices of boosts that were asked for and do nothing."""
    if not request.boosts:
        return ()
    if not uses_priors(request, intent):
        return ("The boosts were not used: the query asks about a time, where every folder counts the same.",)
    idle = find_idle(conn, request.boosts)
    return (f"Boosts that do nothing, since no note lies in the folder: {', '.join(idle)}.",) if idle else ()


def explain_excludes(request: Request, hidden: Sequence[str]) -> tuple[str, ...]:
    """A notice of notes that would fill the answer up, were they not hidden."""
    if not hidden:
        return ()
    reasons = dict.fromkeys(str(find_exclude(path, request.excludes)) for path in hidden)
    return (
        f"SEARCH_EXCLUDES ({', '.join(reasons)}) hides {count(len(hidden), 'more note')} that may answer."
        f" To see {choose(len(hidden), 'it', 'them')}, search with include_excluded=true"
        " (--include-excluded).",
    )


def explain_nothing(conn: Connection, request: Request, allowed: Sequence[int] | None) -> tuple[str, ...]:
    """Why an answer is empty: no index, no text, a filter that nothing passes, or truly no match."""
    row = conn.execute("SELECT EXISTS (SELECT FROM documents), EXISTS (SELECT FROM notes)").fetchone()
    has_chunks, has_notes = row if row else (False, False)
    if not has_notes and not has_chunks:
        return (f"The index is empty. {FIRST_RUN}",)
    if allowed == [] and not request.filters:
        return ("SEARCH_EXCLUDES hides every note. Search with include_excluded=true (--include-excluded).",)
    if allowed == []:
        return (explain_filters(conn, request.filters, request.excludes),)
    if not has_chunks:
        return ("The notes in the index hold no text.",)
    operators = read_operators(request.query)
    if operators and operators.required:
        return (
            f"No passage fits {operators.required} as it is written. Leave out the quotes or the minus to"
            " search for the words.",
        )
    among = " that passes the filters" * bool(request.filters)
    if request.mode == "keyword":
        return (f"No note{among} holds any of these words. Try mode=hybrid, or other words.",)
    return (f"No note{among} matches. Try other words{', or leave a filter out' * bool(among)}.",)


def explain_unknown(conn: Connection, keyword: KeywordResult, period: Period | None) -> tuple[str, ...]:
    """A notice of words that are in no note, with those of the notes that may be meant."""
    if keyword.loosened and keyword.hits:  # which words were passed over is said already
        return ()
    words = [word for word in keyword.missing if period is None or not is_date_word(word)]
    if not words:
        return ()
    meant = find_meant(conn, list_configs(conn), words)
    offered = [" or ".join(meant[word]) for word in words if word in meant]
    told = f"Not found anywhere: {', '.join(words)}."
    return (f"{told} Did you mean: {', '.join(offered)}?" if offered else told,)
