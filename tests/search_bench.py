"""An index that the tests of one module share: written once, only read afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from conftest import DIMENSIONS, VaultFolder, Workbench, create_database, drop_database
from ollama_double import OllamaDouble

from obsidian_rag.index_reader import IndexReader
from obsidian_rag.postgres import Connection
from obsidian_rag.search.facts import load_facts
from obsidian_rag.search.keyword import KeywordResult, search_keywords
from obsidian_rag.search.pipeline import Answer, search
from obsidian_rag.search.query import make_filters, make_request
from obsidian_rag.search.retrieval import Retrieved, retrieve


@dataclass(frozen=True)
class SearchBench:
    """A workbench with an open reader."""

    bench: Workbench
    reader: IndexReader

    def ask(self, query: str, mode: str = "hybrid", limit: int = 10, **others: Any) -> Answer:
        """An answer. `others` are filters, an intent, or stages to leave out."""
        intent, without = others.pop("intent", None), frozenset(others.pop("without", ()))
        request = make_request(query, mode, limit, make_filters(**others), intent, without)
        return search(self.reader, request)

    def found(self, query: str, mode: str = "hybrid", limit: int = 10, **others: Any) -> list[str]:
        """The notes of an answer, best first, without `.md`."""
        hits = self.ask(query, mode, limit, **others).results
        return list(dict.fromkeys(hit.file_path.removesuffix(".md") for hit in hits))

    def keywords(self, query: str, count: int = 30) -> KeywordResult:
        return self.run(lambda conn: search_keywords(conn, load_facts(conn), query, count))

    def words(self, query: str) -> list[str]:
        """The notes that keyword search alone finds, best first, without `.md`."""
        return [hit.file_path.removesuffix(".md") for hit in self.keywords(query).hits]

    def retrieve(self, query: str, limit: int = 10) -> Retrieved:
        vector = self.reader.embed_query(query)
        return self.run(lambda conn: retrieve(conn, make_request(query, limit=limit), vector, None, None))

    def run(self, work: Callable[[Connection], Any]) -> Any:
        return self.reader.run(work)


@contextmanager
def open_search_bench(
    folder: Path, server: str, migrated: str, notes: Mapping[str, str], **settings: Any
) -> Iterator[SearchBench]:
    """Index `notes` (text by path without `.md`) in a database of their own."""
    root = folder / "vault"
    root.mkdir()
    url = create_database(server, migrated)
    try:
        with OllamaDouble(dimensions=DIMENSIONS) as ollama:
            bench = Workbench(VaultFolder(root), url, ollama)
            for path, text in notes.items():
                bench.vault.write(f"{path}.md", text)
            assert bench.index(settings).failures == ()
            reader = IndexReader(bench.settings, lambda text: None)
            try:
                yield SearchBench(bench, reader)
            finally:
                reader.close()
    finally:
        drop_database(server, url)


def local_today() -> date:
    """Today as the search takes it."""
    return datetime.now(UTC).astimezone().date()
