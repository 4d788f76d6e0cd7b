"""The rows that BM25 and the search for names read: written with each note, in its transaction.

Made from a note's chunks as they are stored, never from the vault, so that they can be made anew whenever
the analysis changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from obsidian_rag.postgres import Connection
from obsidian_rag.terms import NoteTerms

# Raise when the analysis changes: the next run makes the postings of all notes anew, embedding nothing.
KEYWORD_VERSION = 4

# Measured on five collections: names at 3 gain where titles are asked for and cost nothing elsewhere; the
# heading path beyond 1 gains nothing, since the heading is in the text as well.
NAME_WEIGHT = 3
HEADING_WEIGHT = 1

# Robertson and Zaragoza give 1.2 to 2 and .5 to .8 for long documents; chunks and notes of a few hundred
# words saturate sooner and vary less. Measured flat around these on five collections.
K1 = 0.9
B = 0.4

# The words of chunks on their way into the index; each text is parsed once, as it comes.
ARRIVING_TERMS = """
DROP TABLE IF EXISTS pg_temp.arriving_terms;
CREATE TEMPORARY TABLE arriving_terms (
    note_id INTEGER NOT NULL,
    chunk_index INTEGER NOT NULL,
    config REGCONFIG NOT NULL,
    path TEXT NOT NULL,                         -- words of the path
    heading TEXT NOT NULL,                      -- words of the heading path
    words TEXT NOT NULL,
    own TEXT,                                   -- without the overlap; NULL where there is none
    wholes TEXT NOT NULL,
    names TEXT NOT NULL,                        -- words of path and aliases
    name_wholes TEXT NOT NULL,
    word_tsv TSVECTOR GENERATED ALWAYS AS (to_tsvector(config, words)) STORED,
    heading_tsv TSVECTOR GENERATED ALWAYS AS (to_tsvector(config, heading)) STORED
)
"""
COPY_TERMS = """
COPY arriving_terms (note_id, chunk_index, config, path, heading, words, own, wholes, names, name_wholes)
FROM STDIN (FORMAT BINARY)
"""
# COPY in binary takes no names of configurations.
CONFIG_OIDS = "SELECT name, name::regconfig::oid::int8 FROM unnest(%s::text[]) AS name"
TERM_TYPES = ("int4", "int4", "oid", "text", "text", "text", "text", "text", "text", "text")
TOTALS = """
SELECT count(DISTINCT note_id), count(*), coalesce(sum(chunk_length), 0), coalesce(sum(note_length), 0) FROM (
    SELECT note_id, chunk_index, max(chunk_length) AS chunk_length,
           CASE WHEN row_number() OVER (PARTITION BY note_id ORDER BY chunk_index) = 1
                THEN max(note_length) ELSE 0 END AS note_length
    FROM postings WHERE note_id = ANY(%s) GROUP BY note_id, chunk_index) AS chunk
"""
SUBTRACT_TOTALS = """
UPDATE keyword_stats SET notes = notes - %s, chunks = chunks - %s, chunk_length = chunk_length - %s,
    note_length = note_length - %s
"""
# The sums as they should be, over everything.
COUNT_ALL = """
WITH chunk AS (
    SELECT note_id, max(chunk_length) AS chunk_length, max(note_length) AS note_length
    FROM postings GROUP BY note_id, chunk_index),
note AS (SELECT max(note_length) AS note_length FROM chunk GROUP BY note_id)
SELECT (SELECT count(*) FROM note) AS notes, count(*) AS chunks,
       coalesce(sum(chunk_length), 0)::bigint AS chunk_length,
       coalesce((SELECT sum(note_length) FROM note), 0)::bigint AS note_length
FROM chunk
"""
SAVE_TOTALS = f"""
INSERT INTO keyword_stats (notes, chunks, chunk_length, note_length) {COUNT_ALL}
ON CONFLICT (only_row) DO UPDATE SET notes = excluded.notes, chunks = excluded.chunks,
    chunk_length = excluded.chunk_length, note_length = excluded.note_length
"""
DELETE_STRAY_POSTINGS = "DELETE FROM postings p WHERE NOT EXISTS (SELECT FROM notes n WHERE n.id = p.note_id)"
DELETE_STRAY_NAMES = "DELETE FROM note_names w WHERE NOT EXISTS (SELECT FROM notes n WHERE n.id = w.note_id)"
INSERT_POSTINGS = """
WITH found AS (
    SELECT note_id, chunk_index, v.lexeme, cardinality(v.positions) AS tf, 0 AS field_tf
    FROM arriving_terms, unnest(CASE WHEN own IS NULL THEN word_tsv ELSE to_tsvector(config, own) END) AS v
    UNION ALL
    SELECT note_id, chunk_index, whole, 1, 0
    FROM arriving_terms, unnest(string_to_array(wholes, ' ')) AS whole
    UNION ALL
    SELECT note_id, chunk_index, v.lexeme, 0, cardinality(v.positions) * %(heading_weight)s
    FROM arriving_terms, unnest(heading_tsv) AS v
    UNION ALL
    SELECT note_id, chunk_index, v.lexeme, 0, cardinality(v.positions) * %(name_weight)s
    FROM arriving_terms, unnest(to_tsvector(config, names)) AS v
    UNION ALL
    SELECT note_id, chunk_index, whole, 0, %(name_weight)s
    FROM arriving_terms, unnest(string_to_array(name_wholes, ' ')) AS whole
), term AS (
    SELECT note_id, chunk_index, lexeme, sum(tf) AS tf, sum(field_tf) AS field_tf
    FROM found WHERE lexeme <> '' AND octet_length(lexeme) <= 1000 GROUP BY 1, 2, 3
), chunk AS (
    SELECT note_id, chunk_index, sum(tf) AS tf, sum(field_tf) AS field_tf FROM term GROUP BY 1, 2
), sized AS (
    SELECT note_id, chunk_index, tf + field_tf AS chunk_length,
           sum(tf) OVER note + max(field_tf) OVER note AS note_length
    FROM chunk WINDOW note AS (PARTITION BY note_id)
), added AS (
    INSERT INTO postings (lexeme, note_id, chunk_index, tf, field_tf, chunk_length, note_length)
    SELECT lexeme, note_id, chunk_index, least(tf, 32767), least(field_tf, 32767), chunk_length, note_length
    FROM term JOIN sized USING (note_id, chunk_index)
    ORDER BY lexeme, note_id, chunk_index
)
UPDATE keyword_stats SET notes = keyword_stats.notes + new.notes, chunks = keyword_stats.chunks + new.chunks,
    chunk_length = keyword_stats.chunk_length + new.chunk_length,
    note_length = keyword_stats.note_length + new.note_length
FROM (SELECT count(*) AS notes, coalesce(sum(chunks), 0) AS chunks,
             coalesce(sum(chunk_length), 0) AS chunk_length, coalesce(sum(note_length), 0) AS note_length
      FROM (SELECT count(*) AS chunks, sum(chunk_length) AS chunk_length, max(note_length) AS note_length
            FROM sized GROUP BY note_id) AS note) AS new
"""
COPY_NAMES = "COPY note_names (note_id, kind, name, key, words, trigrams) FROM STDIN (FORMAT BINARY)"
NAME_TYPES = ("int4", "text", "text", "text", "text[]", "text[]")


def gather_terms(conn: Connection, notes: Sequence[tuple[int, NoteTerms]]) -> None:
    """Bring the terms of some notes, by their ids, to where `write_postings` finds them, and no others."""
    conn.execute(ARRIVING_TERMS)
    oids = dict(conn.execute(CONFIG_OIDS, (list({note.config for _, note in notes}),)).fetchall())
    with conn.cursor() as cur, cur.copy(COPY_TERMS) as copy:
        copy.set_types(TERM_TYPES)
        for row in _term_rows(notes, oids):
            copy.write_row(row)


def _term_rows(
    notes: Sequence[tuple[int, NoteTerms]], config_oids: dict[str, int]
) -> Iterator[tuple[object, ...]]:
    for note_id, note in notes:
        config = config_oids[note.config]
        for c in note.chunks:
            yield (
                note_id, c.chunk_index, config, note.path, c.heading, c.words, c.own, c.wholes,
                note.names, note.name_wholes,
            )  # fmt: skip


def write_postings(conn: Connection, notes: Sequence[tuple[int, NoteTerms]]) -> None:
    """Write the postings of the gathered terms and the notes' names, and bring the sums up to date, in the
    notes' transaction. What was there of them must have been deleted.
    """
    conn.execute(INSERT_POSTINGS, {"heading_weight": HEADING_WEIGHT, "name_weight": NAME_WEIGHT})
    with conn.cursor() as cur, cur.copy(COPY_NAMES) as copy:
        copy.set_types(NAME_TYPES)
        for note_id, note in notes:
            for row in note.name_rows:
                copy.write_row((note_id, *row))


def delete_postings(conn: Connection, note_ids: Sequence[int]) -> None:
    """Remove the postings and names of notes. Call it in the transaction that removes the notes."""
    row = conn.execute(TOTALS, (list(note_ids),)).fetchone()
    assert row is not None
    if any(row):
        conn.execute(SUBTRACT_TOTALS, row)
        conn.execute("DELETE FROM postings WHERE note_id = ANY(%s)", (list(note_ids),))
    conn.execute("DELETE FROM note_names WHERE note_id = ANY(%s)", (list(note_ids),))


def repair_postings(conn: Connection) -> None:
    """Remove what belongs to no note and count the sums anew, in one transaction. For a table that somebody
    changed by hand: with every note the rows of that note are replaced, but no others.
    """
    with conn.transaction():
        conn.execute(DELETE_STRAY_POSTINGS)
        conn.execute(DELETE_STRAY_NAMES)
        conn.execute(SAVE_TOTALS)


def tidy_postings(conn: Connection) -> None:
    """After many changes: let index-only scans see that the rows are settled, and the planner their number.

    Without ownership of the table PostgreSQL skips it with a warning; searches are only slower then.
    """
    conn.execute("VACUUM (ANALYZE) postings")
