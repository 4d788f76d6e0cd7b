"""The keyword retriever: words of text, heading path and path."""

from __future__ import annotations

from dataclasses import dataclass

from obsidian_rag.postgres import Connection
from obsidian_rag.search.candidates import Candidate

# Normalisation 1 divides by 1 + log(length), so that a long chunk does not win by its length alone.
MATCH = """
SELECT d.id, d.file_path, d.chunk_index, ts_rank_cd(d.search_tsv, q.query, 1) AS rank
FROM documents d, (SELECT %(tsquery)s::tsquery AS query) AS q
WHERE d.search_tsv @@ q.query
ORDER BY rank DESC, d.file_path, d.chunk_index
LIMIT %(count)s
"""
# ts_rank_cd needs words near one another; where any word may do, ts_rank counts the words that are there.
MATCH_ANY = MATCH.replace("ts_rank_cd", "ts_rank")
PARSE = "SELECT websearch_to_tsquery((SELECT fts_config FROM index_settings)::regconfig, %s::text)::text"


@dataclass(frozen=True, slots=True)
class KeywordResult:
    """Candidates, best first. `parsed` is empty for a query of stop words only; `any_word` tells that no
    chunk holds all words and those with some of them are shown.
    """

    candidates: tuple[Candidate, ...]
    parsed: str
    any_word: bool


def search_keywords(conn: Connection, query: str, count: int) -> KeywordResult:
    """Chunks that match as `websearch_to_tsquery` reads the query; if none, those with any of its words."""
    row = conn.execute(PARSE, (query,)).fetchone()
    parsed: str = row[0] if row else ""
    if not parsed:
        return KeywordResult((), "", False)
    found = _match(conn, MATCH, parsed, count)
    if found:
        return KeywordResult(found, parsed, False)
    loose = loosen(parsed)
    return KeywordResult(_match(conn, MATCH_ANY, loose, count) if loose != parsed else (), parsed, True)


def loosen(tsquery: str) -> str:
    """A tsquery in which any required part suffices: `'a' & 'b' & !'c'` -> `( 'a' | 'b' ) & !'c'`.

    Parts are split at the outermost `&` only; a phrase stays a phrase.
    """
    parts = _split_conjunction(tsquery)
    wanted = [part for part in parts if not part.startswith("!")]
    excluded = [part for part in parts if part.startswith("!")]
    if len(wanted) < 2:
        return tsquery
    return " & ".join(["( " + " | ".join(wanted) + " )", *excluded])


def _split_conjunction(tsquery: str) -> list[str]:
    parts, depth, quoted, start = [], 0, False, 0
    for at, character in enumerate(tsquery):
        if character == "'":
            quoted = not quoted
        elif not quoted and character in "()":
            depth += 1 if character == "(" else -1
        elif not quoted and not depth and character == "&":
            parts.append(tsquery[start:at].strip())
            start = at + 1
    return [*parts, tsquery[start:].strip()]


def _match(conn: Connection, statement: str, tsquery: str, count: int) -> tuple[Candidate, ...]:
    rows = conn.execute(statement, {"tsquery": tsquery, "count": count}).fetchall()  # type: ignore[arg-type]
    return tuple(Candidate(*row) for row in rows)
