"""Where an index has come apart: its tables from one another, and the whole of it from the notes on disk.

Nothing here writes. Every kind of drift is told with the command that ends it.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from obsidian_rag import adoption, ledger, store
from obsidian_rag.analysis import list_keys
from obsidian_rag.catalog import load_status
from obsidian_rag.chunks import split_note
from obsidian_rag.config import Settings, Vault, parse_vaults
from obsidian_rag.diff import IndexState, compare_vault
from obsidian_rag.errors import ObsidianRagError, SettingsError
from obsidian_rag.intake import PARSER_VERSION
from obsidian_rag.notes import parse_note
from obsidian_rag.postgres import Connection
from obsidian_rag.postings import COUNT_ALL, KEYWORD_VERSION
from obsidian_rag.provenance import check_vaults
from obsidian_rag.roles import tell_reader
from obsidian_rag.safeguards import spare_empty_folders
from obsidian_rag.vaults import VaultReader, open_vaults

AGAIN = "Run: obsidian-rag index"
ANEW = "Run: obsidian-rag index --full"
EXAMPLES = 5  # notes named of each kind; the counts are of all
LOOKED_AT = 1000  # notes without chunks, or names, that are read again to see whether they should have some

# What to count, and what ends it. Chunks without a content_hash were cut by another program, by rules of its
# own, and are not held against ours.
DISAGREEMENTS: tuple[tuple[str, LiteralString, str], ...] = (
    (
        "chunks of notes that are not in the index",
        "SELECT count(*) FROM documents d WHERE NOT EXISTS ("
        "SELECT FROM notes n WHERE n.file_path = d.file_path)",
        AGAIN,
    ),
    (
        "links of notes that are not in the index",
        "SELECT count(*) FROM note_links l WHERE NOT EXISTS ("
        "SELECT FROM notes n WHERE n.file_path = l.source_path)",
        AGAIN,
    ),
    ("links that were never resolved", "SELECT count(*) FROM note_links WHERE target_type IS NULL", AGAIN),
    (
        "notes with chunks missing",
        """SELECT count(*) FROM (
            SELECT FROM documents GROUP BY file_path
            HAVING bool_and(content_hash IS NOT NULL)
                AND (min(chunk_index) <> 0 OR max(chunk_index) <> count(*) - 1)) AS torn""",
        AGAIN,
    ),
    (
        "chunks of an older state of their note",
        "SELECT count(*) FROM documents d JOIN notes n USING (file_path)"
        " WHERE d.content_hash IS NOT NULL AND d.file_hash <> n.file_hash",
        ANEW,
    ),
    (
        "chunks without words for quoted phrases",
        "SELECT count(*) FROM documents d WHERE (search_tsv IS NULL OR content_tsv IS NULL)"
        " AND EXISTS (SELECT FROM notes n WHERE n.file_path = d.file_path)",
        ANEW,
    ),
    (
        "chunks that no word finds",
        """SELECT count(*) FROM documents d JOIN notes n USING (file_path)
        WHERE length(d.search_tsv) > 0 AND NOT EXISTS (
            SELECT FROM postings p WHERE p.note_id = n.id AND p.chunk_index = d.chunk_index)""",
        ANEW,
    ),
    (
        "chunks that no meaning finds, since the one that stood for them is gone",
        """SELECT count(*) FROM documents d WHERE repeated AND NOT EXISTS (
            SELECT FROM documents r WHERE r.content_hash = d.content_hash AND NOT r.repeated)""",
        ANEW,
    ),
    (
        "words of chunks that are not in the index",
        """SELECT count(*) FROM postings p WHERE NOT EXISTS (
            SELECT FROM notes n JOIN documents d USING (file_path)
            WHERE n.id = p.note_id AND d.chunk_index = p.chunk_index)""",
        ANEW,
    ),
    (
        "names of notes that are not in the index",
        "SELECT count(*) FROM note_names w WHERE NOT EXISTS (SELECT FROM notes n WHERE n.id = w.note_id)",
        ANEW,
    ),
    (
        "notes whose keyword data are of another version",
        f"SELECT count(*) FROM notes WHERE keyword_version IS DISTINCT FROM {KEYWORD_VERSION}",  # noqa: S608
        AGAIN,
    ),
    (
        "sums of words that are wrong",
        f"""SELECT count(*) FROM keyword_stats s FULL JOIN ({COUNT_ALL}) AS c
        ON (s.notes, s.chunks, s.chunk_length, s.note_length)
            = (c.notes, c.chunks, c.chunk_length, c.note_length)
        WHERE s.notes IS NULL OR c.notes IS NULL""",  # noqa: S608 - a constant of postings, no value
        ANEW,
    ),
)
NOTES_WITHOUT_CHUNKS = """
SELECT n.file_path, n.content FROM notes n
WHERE NOT EXISTS (SELECT FROM documents d WHERE d.file_path = n.file_path) ORDER BY n.file_path LIMIT %s
"""
NOTES_WITHOUT_NAMES = """
SELECT n.title FROM notes n
WHERE NOT EXISTS (SELECT FROM note_names w WHERE w.note_id = n.id AND w.kind = 'title')
ORDER BY n.file_path LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Drift:
    """Rows of one table that do not fit another: what they are, how many, and what ends it."""

    what: str
    rows: int
    mend: str

    def __str__(self) -> str:
        return f"{self.what}: {self.rows}"


def compare_tables(conn: Connection) -> tuple[Drift, ...]:
    """Every way in which the tables disagree; empty where they do not. `conn` is in autocommit mode."""
    found = []
    for what, statement, mend in DISAGREEMENTS:
        row = conn.execute(statement).fetchone()
        if row and row[0]:
            found.append(Drift(what, int(row[0]), mend))
    # Only the parser knows whether a note has text: it may hold properties alone, or a plugin's data.
    torn = sum(
        1
        for path, text in conn.execute(NOTES_WITHOUT_CHUNKS, (LOOKED_AT,)).fetchall()
        if split_note(parse_note(path, text))
    )
    # A title without any word has no name to be found by, and is looked for as it is written.
    nameless = sum(
        1 for (title,) in conn.execute(NOTES_WITHOUT_NAMES, (LOOKED_AT,)).fetchall() if list_keys(title)
    )
    counted = (
        ("notes with text of which no chunk is there", torn),
        ("notes that no name finds", nameless),
    )
    return (*found, *(Drift(what, rows, ANEW) for what, rows in counted if rows))


@dataclass(frozen=True, slots=True)
class DiskState:
    """How the notes on disk differ from the index. The lists name a few of each kind, the counts are of all.

    `reread` have not changed, but the next run reads them anew, as after an update of this program. Notes
    that the last run recorded as failed are `failed` and nothing else. `unreadable` are files and folders
    that cannot be looked at now; `excluded` those that the vault's own setting leaves out.
    """

    vaults: tuple[str, ...]
    notes: int
    missing: int
    changed: int
    reread: int
    renamed: int
    gone: int
    failed: int
    unreadable: int
    excluded: int
    examples: dict[str, list[str]]

    @property
    def differs(self) -> bool:
        """Whether another run of the indexer would change the index."""
        return bool(self.missing or self.changed or self.reread or self.renamed or self.gone)

    def to_json(self) -> dict[str, Any]:
        """The object that `status --json` prints under `disk`."""
        return asdict(self)


def find_vaults(settings: Settings, row: ledger.IndexSettings | None) -> tuple[Vault, ...]:
    """The vaults of the settings, else those that the index was made of. Raises SettingsError for none."""
    if settings.vaults:
        return settings.vaults
    if row and len(row.vaults) == 1:
        return (Vault(Path(row.vaults[0])),)
    if row and row.vaults:
        return parse_vaults(os.pathsep.join(row.vaults))
    raise SettingsError("No vault is named", "Set VAULT_PATH to the vault's folder.")


def open_disk(settings: Settings, row: ledger.IndexSettings | None) -> VaultReader:
    """Walk the vaults of an index. Raises VaultError, SettingsError, and IndexMismatch for another vault."""
    if row and settings.vaults:
        check_vaults(settings, row)
    return open_vaults(find_vaults(settings, row))


def compare_disk(conn: Connection, reader: VaultReader) -> DiskState:
    """Compare the notes on disk with those in the index, by the rules the indexer goes by."""
    state = IndexState(store.load_notes(conn), adoption.load_adoptable(conn))
    reader = reader.admit({*state.notes, *state.adoptable})
    plan = spare_empty_folders(
        compare_vault(reader.notes, reader.is_kept, state, reader.read, PARSER_VERSION, full=False), reader
    )
    recorded = {row[0] for row in conn.execute("SELECT file_path FROM failures").fetchall()}
    on_disk = {file.path for file in reader.notes}
    kinds: dict[str, list[str]] = {"missing": [], "changed": [], "reread": [], "renamed": []}
    for change in plan.changes:
        if change.file.path in recorded:
            continue
        kind = {"new": "missing", "renamed": "renamed", "reread": "reread"}.get(change.kind, "changed")
        kinds[kind].append(change.file.path)
    kinds["gone"] = list(plan.deleted)
    failures = [f.file_path for f in (*reader.failures, *plan.failures) if f.file_path not in recorded]
    return DiskState(
        vaults=tuple(vault.place for vault, _ in reader.listings),
        notes=len(reader.notes),
        missing=len(kinds["missing"]),
        changed=len(kinds["changed"]),
        reread=len(kinds["reread"]),
        renamed=len(kinds["renamed"]),
        gone=len(kinds["gone"]),
        failed=len(recorded & on_disk),
        unreadable=len(failures),
        excluded=sum(1 for _, listing in reader.listings for file in listing.notes if file.excluded),
        examples={kind: paths[:EXAMPLES] for kind, paths in (kinds | {"unreadable": failures}).items()},
    )


def load_full_status(conn: Connection, settings: Settings) -> dict[str, Any]:
    """What `load_status` tells, with `disk` (a DiskState, or `error` where the vault cannot be looked at),
    `drift` (a list of Drift; None with `drift_error` where that takes too long), and who reads (`reader`).
    """
    status = load_status(conn) | {"reader": tell_reader(conn)}
    try:
        reader = open_disk(settings, ledger.load_settings_row(conn))
        disk = compare_disk(conn, reader).to_json()
    except ObsidianRagError as exc:
        disk = {"error": str(exc)}
    try:
        return status | {"disk": disk, "drift": [asdict(found) for found in compare_tables(conn)]}
    except psycopg.errors.QueryCanceled as exc:
        return status | {"disk": disk, "drift": None, "drift_error": str(exc)}
