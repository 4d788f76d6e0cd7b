"""What all tests share: a real PostgreSQL with pgvector, an Ollama double, a vault to write notes into."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psycopg
import pytest
from ollama_double import OllamaDouble
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from obsidian_rag import config, embedded, intake
from obsidian_rag.config import Settings, parse_vaults
from obsidian_rag.indexing import Options, run_indexer
from obsidian_rag.migrate import apply_migrations
from obsidian_rag.models import RunReport
from obsidian_rag.postgres import connect
from obsidian_rag.progress import SilentProgress

if TYPE_CHECKING:
    from obsidian_rag.search.pipeline import Answer

IMAGE = "pgvector/pgvector:pg18"
DIMENSIONS = 64


# A shell's background job ignores these, and so would every program that a test starts and then signals.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


def docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    try:
        asked = subprocess.run(["docker", "info"], capture_output=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A conninfo that may create databases: TEST_DATABASE_URL, a container, or the embedded server."""
    url = os.environ.get("TEST_DATABASE_URL")
    if url:
        yield url
    elif docker_answers():
        from testcontainers.postgres import PostgresContainer

        with PostgresContainer(IMAGE, driver=None) as container:
            yield container.get_connection_url()
    else:
        home = tmp_path_factory.mktemp("postgres")
        conninfo = embedded.acquire(home)
        with psycopg.connect(conninfo, autocommit=True) as conn:  # nothing here must outlive the machine
            for name in ("fsync", "synchronous_commit", "full_page_writes"):
                conn.execute(sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(name)))
            conn.execute("SELECT pg_reload_conf()")
        yield conninfo
        embedded.release(home)


def create_database(server: str, template: str = "template0") -> str:
    """Make a database; its URL."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        )
    return make_url(server, dbname=name)


def make_url(conninfo: str, **changes: Any) -> str:
    """A conninfo as a DATABASE_URL, with some parts changed."""
    known = {"host": "localhost", "port": "5432", "password": ""} | conninfo_to_dict(conninfo) | changes
    user, password = quote(str(known["user"]), safe=""), quote(str(known["password"]), safe="")
    return f"postgresql://{user}:{password}@{known['host']}:{known['port']}/{known['dbname']}"


def drop_database(server: str, url: str) -> None:
    name = str(conninfo_to_dict(url)["dbname"])
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def migrated(server: str) -> Iterator[str]:
    """The name of a database with the migrations applied, to be copied: quicker than to apply them."""
    url = create_database(server)
    with connect(url) as conn:
        apply_migrations(conn)
    yield str(conninfo_to_dict(url)["dbname"])
    drop_database(server, url)


@pytest.fixture
def new_database(server: str) -> Iterator[Callable[..., str]]:
    """Makes databases, empty or from a template; gives their URLs."""
    made: list[str] = []

    def make(template: str = "template0") -> str:
        made.append(create_database(server, template))
        return made[-1]

    yield make
    for url in made:
        drop_database(server, url)


@pytest.fixture
def database_url(new_database: Callable[..., str]) -> str:
    """An empty database of its own, as a DATABASE_URL."""
    return new_database()


@pytest.fixture(autouse=True)
def no_settings_of_the_person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the machine may reach a test."""
    for name in config.NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(config, "settings_file", lambda: tmp_path / "no-settings.env")


@pytest.fixture
def ollama() -> Iterator[OllamaDouble]:
    """A running Ollama double with the default model, 64 dimensions."""
    with OllamaDouble(dimensions=DIMENSIONS) as double:
        yield double


@dataclass(frozen=True)
class VaultFolder:
    """A vault on disk that a test writes into."""

    root: Path

    def write(self, path: str, text: str | bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return file

    def read(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def move(self, old: str, new: str) -> None:
        target = self.root / new
        target.parent.mkdir(parents=True, exist_ok=True)
        (self.root / old).rename(target)

    def delete(self, path: str) -> None:
        file = self.root / path
        shutil.rmtree(file) if file.is_dir() else file.unlink()


@pytest.fixture
def vault(tmp_path: Path) -> VaultFolder:
    """An empty vault."""
    root = tmp_path / "vault"
    root.mkdir()
    return VaultFolder(root)


@dataclass
class Workbench:
    """A vault, a database and an embedder, ready to be indexed and searched in this process."""

    vault: VaultFolder
    database_url: str
    ollama: OllamaDouble

    @property
    def settings(self) -> Settings:
        return Settings(
            vaults=parse_vaults(str(self.vault.root)),
            database_url=self.database_url,
            ollama_url=self.ollama.url,
            ollama_url_is_set=True,
        )

    @property
    def environment(self) -> dict[str, str]:
        """What a program in another process needs to use the same index."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        return kept | {
            "VAULT_PATH": str(self.vault.root),
            "DATABASE_URL": self.database_url,
            "OLLAMA_URL": self.ollama.url,
            "XDG_CONFIG_HOME": str(self.vault.root.parent / "config"),
        }

    def index(self, settings: dict[str, Any] | None = None, **options: Any) -> RunReport:
        return run_indexer(replace(self.settings, **(settings or {})), Options(**options), SilentProgress())

    def search(self, query: str, mode: str = "hybrid", limit: int = 10) -> Answer:
        from obsidian_rag.index_reader import IndexReader
        from obsidian_rag.search.pipeline import search
        from obsidian_rag.search.query import make_request

        reader = IndexReader(self.settings, lambda text: None)
        try:
            return search(reader, make_request(query, mode, limit))
        finally:
            reader.close()

    def found(self, query: str, mode: str = "hybrid") -> list[str]:
        """Paths of the notes found, best first."""
        return list(dict.fromkeys(hit.file_path for hit in self.search(query, mode).results))

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database_url) as conn:
            return conn.execute(statement, values or None).fetchall()  # type: ignore[call-overload]

    def execute(self, statement: str, *values: Any) -> None:
        with psycopg.connect(self.database_url, autocommit=True) as conn:
            conn.execute(statement, values or None)  # type: ignore[call-overload]

    def tables(self) -> dict[str, list[tuple[Any, ...]]]:
        """The index without what differs between two runs that end alike: row ids and times."""
        return {name: self.rows(statement) for name, statement in CONTENTS.items()}


CONTENTS = {
    "documents": "SELECT file_path, file_hash, chunk_index, heading, content, embedding::text,"
    " content_tsv::text, metadata::text, heading_path, path_terms, start_line, end_line, overlap,"
    " encode(content_hash, 'hex'), search_tsv::text FROM documents ORDER BY 1, 3",
    "notes": "SELECT file_path, file_hash, title, aliases, tags, front_matter::text, content, warnings,"
    " size, parser_version FROM notes ORDER BY 1",
    "note_links": "SELECT source_path, target_name, target_path, kind, display_text, heading, block,"
    " property, line, occurrences, target_type, via, relation, sentence FROM note_links"
    " ORDER BY 1, 9, 2, 4, 5, 6, 7, 8, 10",
    "link_mentions": "SELECT m.source_path, target_name, kind, property, sentence_no, m.line, m.sentence,"
    " first, last, context, label, relations::text FROM link_mentions m JOIN note_links l ON l.id = link_id"
    " ORDER BY 1, 5, 6, 8, 2, 3, 4",
    "link_names": "SELECT text, node, key, uses, share FROM link_names ORDER BY 1, 2",
    "postings": "SELECT file_path, chunk_index, lexeme, tf, field_tf, chunk_length, note_length"
    " FROM postings LEFT JOIN notes ON notes.id = note_id ORDER BY 1, 2, 3",
    "note_names": "SELECT file_path, kind, name, key, words, trigrams"
    " FROM note_names LEFT JOIN notes ON notes.id = note_id ORDER BY 1, 2, 3, 4",
    "keyword_stats": "TABLE keyword_stats",
}


@pytest.fixture
def bench(
    vault: VaultFolder, new_database: Callable[..., str], migrated: str, ollama: OllamaDouble
) -> Workbench:
    """A workbench with an empty vault and a database without notes."""
    return Workbench(vault, new_database(migrated), ollama)


@pytest.fixture
def new_bench(
    new_database: Callable[..., str], migrated: str, ollama: OllamaDouble
) -> Callable[[VaultFolder], Workbench]:
    """Makes further workbenches, each with a database of its own."""
    return lambda vault: Workbench(vault, new_database(migrated), ollama)


@pytest.fixture
def two_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of two notes of three chunks each, so that a few notes are several rounds."""
    monkeypatch.setattr(intake, "LEAST_ROUND", 6)
    monkeypatch.setattr(intake, "MOST_ROUND", 6)
