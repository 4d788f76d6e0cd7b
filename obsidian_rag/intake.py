"""From files to rows: read, parse, chunk, embed and store the notes that a run has to write.

Three things go on at once: a thread reads and parses, one waits for the embedder, and this one writes. Rounds
of notes pass through all three in order.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import psycopg

from obsidian_rag import adoption, index_builds, store
from obsidian_rag.chunks import split_note
from obsidian_rag.diff import Change, hash_bytes
from obsidian_rag.embedding import Embedder, Vector
from obsidian_rag.errors import EmbedderError, EmbeddingRejected, NoteError
from obsidian_rag.keywords import pick_config
from obsidian_rag.link_rows import NoteLinks, type_mentions
from obsidian_rag.models import Failure
from obsidian_rag.notes import parse_note
from obsidian_rag.provenance import use_embedder
from obsidian_rag.run import Run
from obsidian_rag.store import Arrival, ReadNote
from obsidian_rag.terms import ChunkText, NoteText, make_terms
from obsidian_rag.vaults import VaultResolver
from obsidian_rag.worker import Worker

# Raise when the parser or the chunker changes its results: every note is then parsed anew, and only chunks
# whose text changed are embedded.
PARSER_VERSION = 4
# Chunks of a round: enough that equal lengths meet in one batch of the embedder and that a transaction is
# worth its cost, but no more than the embedder makes in a few seconds, which is what a kill may cost.
LEAST_ROUND, MOST_ROUND = 64, 512
ROUND_SECONDS = 2.0
ROUNDS_AHEAD = 2  # that are read, and that are being embedded, before one is written
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
    """A parsed note on its way into the index."""

    change: Change
    arrival: Arrival

    @property
    def path(self) -> str:
        return self.change.file.path


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts at the embedder by their hashes; the result has an answer for each, and the seconds it took."""

    keys: tuple[bytes, ...]
    answers: Future[tuple[Sequence[Vector | EmbeddingRejected], float]]

    def results(self) -> dict[bytes, Vector | EmbeddingRejected]:
        return dict(zip(self.keys, self.answers.result()[0], strict=True))


@dataclass(frozen=True, slots=True)
class Round:
    """Notes that are written together once the vectors of all their texts are there: `known` ones of the
    index, those of the round's `own` batch and of batches before it.
    """

    notes: tuple[Prepared, ...]
    known: Mapping[bytes, Vector]
    own: Batch | None
    before: tuple[Batch, ...]

    @property
    def batches(self) -> tuple[Batch, ...]:
        return (*self.before, self.own) if self.own else self.before

    @property
    def is_ready(self) -> bool:
        return all(batch.answers.done() for batch in self.batches)

    @property
    def has_all(self) -> bool:
        return self.is_ready and not any(batch.answers.exception() for batch in self.batches)


@dataclass(slots=True)
class Pace:
    """How many chunks a round has, by what the embedder makes in ROUND_SECONDS."""

    size: int = field(default_factory=lambda: LEAST_ROUND)

    def adapt(self, chunks: int, seconds: float) -> None:
        self.size = round(min(max(ROUND_SECONDS * chunks / max(seconds, 1e-3), LEAST_ROUND), MOST_ROUND))


def write_notes(run: Run, changes: Sequence[Change]) -> None:
    """Bring the changed notes into the index; of an empty one the indexes are made when they are in.

    Raises EmbedderError where no text can be embedded, with all rounds before written.
    """
    index_builds.restore_indexes(run.conn, run.progress)
    if not changes:
        return
    if len(changes) >= index_builds.LEAST_NOTES and not store.has_chunks(run.conn):
        index_builds.withdraw_indexes(run.conn)
    run.progress.begin("Indexing notes", len(changes))
    try:
        _write_rounds(run, changes)
    finally:
        if not run.conn.broken:
            index_builds.restore_indexes(run.conn, run.progress)


def _write_rounds(run: Run, changes: Sequence[Change]) -> None:
    """Bring the changed notes into the index, in rounds, so that memory does not grow with the vault.

    What a note itself is at fault for is recorded as its failure, and its old version stays.
    """
    # Aliases of the last run do for now; the whole vault's links are resolved once all notes are in.
    resolver = run.reader.make_resolver(store.load_aliases(run.conn))
    pace = Pace()
    until = time.monotonic() + index_builds.LONGEST
    embedding: deque[Round] = deque()
    with _started("embedder") as embedder, _started("reader") as reader:
        try:
            for notes in _read_ahead(run, reader, iter(changes), resolver, pace):
                embedding.append(_begin_round(run, embedder, notes, embedding))
                while len(embedding) > ROUNDS_AHEAD or (embedding and embedding[0].is_ready):
                    _finish_round(run, embedding.popleft(), pace)
                if time.monotonic() > until:
                    until = math.inf
                    index_builds.restore_indexes(run.conn, run.progress)
                    run.progress.begin(
                        "Indexing notes", len(changes) - run.report.notes_indexed - run.report.notes_renamed
                    )
            while embedding:
                _finish_round(run, embedding.popleft(), pace)
        except EmbedderError:
            for whole in [waiting for waiting in embedding if waiting.has_all]:
                _finish_round(run, whole, pace)
            raise


@contextmanager
def _started(name: str) -> Iterator[Worker]:
    worker = Worker(name)
    try:
        yield worker
    finally:
        worker.stop()


# --- reading -----------------------------------------------------------------------------------------


def _read_ahead(
    run: Run, reader: Worker, changes: Iterator[Change], resolver: VaultResolver, pace: Pace
) -> Iterator[tuple[Prepared, ...]]:
    """Rounds of notes, read while those before are written; what cannot be read is recorded."""

    def read_round() -> list[Prepared | Failure]:
        return _read_round(run, changes, resolver, pace)

    ahead = deque(reader.submit(read_round) for _ in range(ROUNDS_AHEAD))
    while found := ahead.popleft().result():
        ahead.append(reader.submit(read_round))
        failures = [item for item in found if isinstance(item, Failure)]
        notes = tuple(item for item in found if isinstance(item, Prepared))
        run.fail(*failures)
        run.warn(*(f"{note.path}: {text}" for note in notes for text in note.arrival.read.note.warnings))
        for _ in failures:
            run.progress.advance()
        if notes:
            yield notes


def _read_round(
    run: Run, changes: Iterator[Change], resolver: VaultResolver, pace: Pace
) -> list[Prepared | Failure]:
    found: list[Prepared | Failure] = []
    chunks = 0
    for change in changes:
        found.append(_prepare_note(run, change, resolver))
        last = found[-1]
        chunks += len(last.arrival.chunks) if isinstance(last, Prepared) else 0
        if chunks >= pace.size or len(found) >= MOST_ROUND:
            break
    return found


def _prepare_note(run: Run, change: Change, resolver: VaultResolver) -> Prepared | Failure:
    path = change.file.path
    read_at = datetime.now(UTC)
    try:
        data = run.reader.read(path)
        text, remarks = run.reader.decode(data)
        note = parse_note(path, text)
        note = replace(note, warnings=(*remarks, *note.warnings))
        chunks = tuple(split_note(note))
        if len(chunks) > MOST_CHUNKS:
            raise NoteError(
                f"It would be {len(chunks):,} chunks; a note has at most {MOST_CHUNKS:,}",
                "Split it, or give it another ending than .md.",
            )
        resolutions = tuple(resolver.resolve(link.target, path, link.kind) for link in note.links)
        links = NoteLinks(note, resolutions, type_mentions(note, run.table))
        config = pick_config(run.fts_config, text, run.available_configs)
        words = tuple(
            ChunkText(
                c.chunk_index, c.heading, store.format_heading_path(c.heading_path), c.content, c.overlap
            )
            for c in chunks
        )
        called = note.front_matter.get("title")
        terms = make_terms(NoteText(path, note.title, note.aliases, called, words), config)
    except NoteError as exc:
        return Failure(path, "read", str(exc))
    except Exception as exc:  # a fault of the parser must cost this note only, and be told
        return Failure(path, "parse", f"{type(exc).__name__}: {exc}. Please report this note's form.")
    read = ReadNote(links, change.file, hash_bytes(data), read_at, PARSER_VERSION, config)
    hashes = tuple(store.hash_text(store.embedding_text(chunk)) for chunk in chunks)
    return Prepared(change, Arrival(read, chunks, hashes, terms, change.old_path))


# --- embedding ---------------------------------------------------------------------------------------


def _begin_round(run: Run, worker: Worker, notes: tuple[Prepared, ...], before: Sequence[Round]) -> Round:
    """Find the vectors of the notes' texts, in the index or in rounds before, and have the others made."""
    texts = {
        key: store.embedding_text(chunk)
        for note in notes
        if note.change.kind != "adopted"
        for key, chunk in zip(note.arrival.hashes, note.arrival.chunks, strict=True)
    }
    known = store.find_vectors(run.conn, texts)
    batches = tuple(r.own for r in before if r.own and not texts.keys().isdisjoint(r.own.keys))
    coming = {key for batch in batches for key in batch.keys}
    missing = {key: text for key, text in texts.items() if key not in known and key not in coming}
    own = None
    if missing:
        embedder = use_embedder(run)
        wanted = list(missing.values())
        own = Batch(tuple(missing), worker.submit(lambda: _embed(embedder, wanted)))
    return Round(notes, known, own, batches)


def _embed(embedder: Embedder, texts: list[str]) -> tuple[Sequence[Vector | EmbeddingRejected], float]:
    started = time.monotonic()
    return embedder.embed_documents(texts), time.monotonic() - started


# --- writing -----------------------------------------------------------------------------------------


def _finish_round(run: Run, ready: Round, pace: Pace) -> None:
    """Store each note of a round that has all its vectors."""
    vectors = dict(ready.known)
    refused: dict[bytes, str] = {}
    for batch in ready.batches:
        for key, answer in batch.results().items():
            if isinstance(answer, EmbeddingRejected):
                refused[key] = str(answer)
            else:
                vectors[key] = answer
    if ready.own:
        run.count(chunks_embedded=len(ready.own.keys))
        pace.adapt(len(ready.own.keys), ready.own.answers.result()[1])
    embedded = frozenset(ready.own.keys if ready.own else ())
    whole: list[Prepared] = []
    for note in ready.notes:
        run.progress.advance()
        if note.change.kind == "adopted":
            _adopt(run, note)
        elif failures := _list_refused(note, refused):
            run.fail(*failures)
        else:
            whole.append(note)
    for note in _store(run, whole, vectors):
        hashes = note.arrival.hashes
        run.count(
            chunks_written=len(hashes),
            chunks_reused=sum(1 for key in hashes if key not in embedded),
            **{"notes_renamed" if note.change.kind == "renamed" else "notes_indexed": 1},
        )


def _list_refused(note: Prepared, refused: Mapping[bytes, str]) -> list[Failure]:
    return [
        Failure(note.path, "embed", f"lines {chunk.start_line} to {chunk.end_line}: {refused[key]}")
        for key, chunk in zip(note.arrival.hashes, note.arrival.chunks, strict=True)
        if key in refused
    ]


def _adopt(run: Run, note: Prepared) -> None:
    old_path = note.change.old_path
    try:
        adoption.adopt_note(run.conn, note.arrival.read, old_path)
    except REFUSALS as exc:
        _tell_refusal(run, note, exc)
    else:
        run.links_changed = True
        run.count(**{"notes_renamed" if old_path else "notes_indexed": 1})


def _store(run: Run, notes: Sequence[Prepared], vectors: Mapping[bytes, Vector]) -> Sequence[Prepared]:
    """Write notes and return those that are written; what the database refuses of one is this note's failure
    and no one else's.
    """
    if not notes:
        return ()
    try:
        run.links_changed |= store.store_notes(run.conn, [note.arrival for note in notes], vectors)
    except REFUSALS as exc:
        if len(notes) == 1:
            _tell_refusal(run, notes[0], exc)
            return ()
        return [written for note in notes for written in _store(run, [note], vectors)]
    return notes


def _tell_refusal(run: Run, note: Prepared, exc: Exception) -> None:
    reason = next(iter(str(exc).splitlines()), type(exc).__name__)
    run.fail(Failure(note.path, "store", f"The database cannot hold it: {reason}"))
