"""From files to rows: read, parse, chunk, embed and store the notes that a run has to write."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import psycopg

from obsidian_rag import adoption, store
from obsidian_rag.chunks import split_note
from obsidian_rag.diff import Change, hash_bytes
from obsidian_rag.embedding import Vector
from obsidian_rag.errors import NoteError
from obsidian_rag.keywords import pick_config
from obsidian_rag.link_rows import type_mentions
from obsidian_rag.models import Chunk, Failure
from obsidian_rag.notes import parse_note
from obsidian_rag.provenance import use_embedder
from obsidian_rag.run import Run
from obsidian_rag.store import ReadNote
from obsidian_rag.vaults import VaultResolver

# Raise when the parser or the chunker changes its results: every note is then parsed anew, and only chunks
# whose text changed are embedded.
PARSER_VERSION = 3
# Chunks gathered before a round of embedding: a few batches, so that equal lengths meet in one batch.
ROUND_SIZE = 128
MOST_CHUNKS = 40_000  # of a note: more than the largest one of prose has
# What the database or its adapter says of a value that it cannot hold.
REFUSALS = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.errors.ProgramLimitExceeded,
    ValueError,
    TypeError,
    OverflowError,
    RecursionError,
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A parsed note on its way into the index, with the hashes of its chunks' texts."""

    change: Change
    read: ReadNote
    chunks: tuple[Chunk, ...]
    hashes: tuple[bytes, ...]


def write_notes(run: Run, changes: Sequence[Change]) -> None:
    """Bring the changed notes into the index, in rounds, so that memory does not grow with the vault.

    What a note itself is at fault for is recorded as its failure, and its old version stays. Raises
    EmbedderError where no text can be embedded.
    """
    # Aliases of the last run do for now; the whole vault's links are resolved once all notes are in.
    resolver = run.reader.make_resolver(store.load_aliases(run.conn))
    waiting: list[Prepared] = []
    size = 0
    for change in changes:
        prepared = _prepare_note(run, change, resolver)
        if prepared is None:
            run.progress.advance()
            continue
        if change.kind == "adopted":
            _adopt(run, prepared)
            continue
        waiting.append(prepared)
        size += len(prepared.chunks)
        if size >= ROUND_SIZE:
            _finish_round(run, waiting)
            waiting, size = [], 0
    _finish_round(run, waiting)


def _prepare_note(run: Run, change: Change, resolver: VaultResolver) -> Prepared | None:
    path = change.file.path
    read_at = datetime.now(UTC)
    try:
        data = run.reader.read(path)
        text, remarks = run.reader.decode(data)
        note = parse_note(path, text)
        chunks = tuple(split_note(note))
        if len(chunks) > MOST_CHUNKS:
            raise NoteError(
                f"It would be {len(chunks):,} chunks; a note has at most {MOST_CHUNKS:,}",
                "Split it, or give it another ending than .md.",
            )
        resolutions = tuple(resolver.resolve(link.target, path, link.kind) for link in note.links)
        said = type_mentions(note, run.table)
    except NoteError as exc:
        run.fail(Failure(path, "read", str(exc)))
        return None
    except Exception as exc:  # a fault of the parser must cost this note only, and be told
        run.fail(Failure(path, "parse", f"{type(exc).__name__}: {exc}. Please report this note's form."))
        return None
    note = replace(note, warnings=(*remarks, *note.warnings))
    run.warn(*(f"{path}: {warning}" for warning in note.warnings))
    config = pick_config(run.fts_config, text, run.available_configs)
    read = ReadNote(note, change.file, hash_bytes(data), read_at, PARSER_VERSION, resolutions, said, config)
    return Prepared(change, read, chunks, tuple(store.hash_text(store.embedding_text(c)) for c in chunks))


def _adopt(run: Run, prepared: Prepared) -> None:
    old_path = prepared.change.old_path
    if _store(run, prepared, lambda: adoption.adopt_note(run.conn, prepared.read, old_path)):
        run.count(**{"notes_renamed" if old_path else "notes_indexed": 1})


def _finish_round(run: Run, waiting: Sequence[Prepared]) -> None:
    """Find or make the vectors of some notes and store each note that has all of its own."""
    texts = {
        key: store.embedding_text(chunk)
        for prepared in waiting
        for key, chunk in zip(prepared.hashes, prepared.chunks, strict=True)
    }
    vectors: dict[bytes, Vector] = dict(store.find_vectors(run.conn, texts))
    missing = {key: text for key, text in texts.items() if key not in vectors}
    refused: dict[bytes, str] = {}
    if missing:
        answers = use_embedder(run).embed_documents(list(missing.values()))
        run.count(chunks_embedded=len(missing))
        for key, answer in zip(missing, answers, strict=True):
            if isinstance(answer, Exception):
                refused[key] = str(answer)
            else:
                vectors[key] = answer
    for prepared in waiting:
        failures = _list_refused(prepared, refused)
        if failures:
            run.fail(*failures)
            run.progress.advance()
        else:
            _store_embedded(run, prepared, vectors, missing.keys())


def _list_refused(prepared: Prepared, refused: Mapping[bytes, str]) -> list[Failure]:
    return [
        Failure(
            prepared.change.file.path,
            "embed",
            f"lines {chunk.start_line} to {chunk.end_line}: {refused[key]}",
        )
        for key, chunk in zip(prepared.hashes, prepared.chunks, strict=True)
        if key in refused
    ]


def _store_embedded(
    run: Run, prepared: Prepared, vectors: Mapping[bytes, Vector], embedded: Container[bytes]
) -> None:
    hashes = prepared.hashes

    def write() -> None:
        store.store_note(
            run.conn,
            prepared.read,
            prepared.chunks,
            [vectors[key] for key in hashes],
            prepared.change.old_path,
        )

    if _store(run, prepared, write):
        run.count(
            chunks_written=len(hashes),
            chunks_reused=sum(1 for key in hashes if key not in embedded),
            **{"notes_renamed" if prepared.change.kind == "renamed" else "notes_indexed": 1},
        )


def _store(run: Run, prepared: Prepared, write: Callable[[], None]) -> bool:
    """Write one note; what the database refuses of it is this note's failure and no one else's."""
    run.progress.advance()
    try:
        write()
    except REFUSALS as exc:
        reason = next(iter(str(exc).splitlines()), type(exc).__name__)
        run.fail(Failure(prepared.change.file.path, "store", f"The database cannot hold it: {reason}"))
        return False
    return True
