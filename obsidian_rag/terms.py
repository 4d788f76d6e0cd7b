"""The terms of a note: the words of its chunks and names as keyword search counts and looks for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from obsidian_rag.analysis import (
    LONGEST_NAME,
    LONGEST_TERM,
    Terms,
    analyze,
    list_keys,
    list_trigrams,
    strip_extension,
)
from obsidian_rag.naming import list_parts

# kind, name, key, words and trigrams, those two where they are looked for
NameRow = tuple[str, str, str, list[str], list[str]]


@dataclass(frozen=True, slots=True)
class ChunkText:
    """What of a chunk has terms; the first `overlap` characters of `content` repeat earlier text."""

    chunk_index: int
    heading: str | None
    heading_path: str
    content: str
    overlap: int = 0


@dataclass(frozen=True, slots=True)
class NoteText:
    """What of a note has terms. `called` is its property title, whatever that holds."""

    file_path: str
    title: str
    aliases: tuple[str, ...]
    called: Any
    chunks: tuple[ChunkText, ...]


@dataclass(frozen=True, slots=True)
class ChunkTerms:
    """Words, separated by blanks: of the heading path, of the text, and `own` of it without its overlap, None
    where it has none. `wholes` are those of the own text.
    """

    chunk_index: int
    heading: str
    words: str
    own: str | None
    wholes: str


@dataclass(frozen=True, slots=True)
class NoteTerms:
    """The terms of a note: words of its path, of its path and aliases, of each chunk, and rows of its names.
    `config` is the text search configuration that makes lexemes of them.
    """

    config: str
    path: str
    names: str
    name_wholes: str
    chunks: tuple[ChunkTerms, ...]
    name_rows: tuple[NameRow, ...]


def make_terms(note: NoteText, config: str) -> NoteTerms:
    """Analyse a note's chunks and names."""
    path = strip_extension(note.file_path)
    names = analyze(" ".join((path, *note.aliases)))
    headings = {text: analyze(text).words for text in {chunk.heading_path for chunk in note.chunks}}
    return NoteTerms(
        config=config,
        path=analyze(path).words,
        names=names.words,
        name_wholes=_join_wholes(names),
        chunks=tuple(_make_chunk_terms(chunk, headings[chunk.heading_path]) for chunk in note.chunks),
        name_rows=tuple(_list_names(note)),
    )


def _make_chunk_terms(chunk: ChunkText, heading: str) -> ChunkTerms:
    terms = analyze(chunk.content)
    own = analyze(chunk.content[chunk.overlap :]) if chunk.overlap else None
    return ChunkTerms(
        chunk.chunk_index, heading, terms.words, own.words if own else None, _join_wholes(own or terms)
    )


def _join_wholes(terms: Terms) -> str:
    return " ".join(terms.wholes)


def _list_names(note: NoteText) -> Iterator[NameRow]:
    seen: set[tuple[str, str]] = set()
    called = list(_list_called(note))
    kinds = [("title", note.title), *(("alias", a) for a in note.aliases)]
    kinds += [("heading", heading) for heading in dict.fromkeys(c.heading for c in note.chunks) if heading]
    kinds += [("called", name) for name in called]
    for kind, name in kinds:
        for key in list_keys(name):
            if (kind, key) in seen:
                continue
            seen.add((kind, key))
            trigrams = list_trigrams(key[: LONGEST_TERM * 2]) if kind in ("title", "alias") else []
            words = {word for word in key.split() if len(word) <= LONGEST_TERM} if kind != "called" else ()
            yield kind, name, key, sorted(words), trigrams
    whole = {key for kind, key in seen if kind != "heading"}
    for kind, name, key in list_parts([note.title, *note.aliases, *called]):
        if key not in whole:
            yield kind, name, key, [], []


def _list_called(note: NoteText) -> Iterable[str]:
    """What a note calls itself: its property title, and its first heading if that is of the first level."""
    if isinstance(note.called, str) and note.called.strip() and len(note.called) <= LONGEST_NAME:
        yield note.called
    first = next((chunk for chunk in note.chunks if chunk.heading), None)
    if first and first.heading and first.content[first.overlap :].lstrip().startswith("# "):
        yield first.heading
