"""Connecting to PostgreSQL: each thing that can be wrong has its own message, and none shows a password."""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest
from conftest import VaultFolder, make_url
from pgvector import HalfVector, Vector

from obsidian_rag import embedded, embedded_index
from obsidian_rag.config import Settings, Vault
from obsidian_rag.errors import DatabaseError, DatabaseUnavailable, DatabaseUnsuitable, SettingsError
from obsidian_rag.postgres import (
    check_server,
    connect,
    describe,
    external_conninfo,
    locate,
    mapped_errors,
    open_connection,
)

SECRET = "s3cr3t"


def fail_to_connect(url: str) -> str:
    """The message of the error that a wrong DATABASE_URL gives."""
    with pytest.raises((DatabaseUnavailable, SettingsError)) as caught:
        connect(locate(Settings(database_url=url))).close()
    assert SECRET not in str(caught.value)
    return str(caught.value)


def password_of(database_url: str) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(database_url).get("password") or "")


def test_each_wrong_part_of_the_url_has_its_own_message(database_url: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed_port = free.getsockname()[1]
        for change, words, mend in (
            ({"port": closed_port}, "Connection refused", "Start PostgreSQL there, or correct host and port"),
            ({"port": "70000"}, "cannot be reached", "DATABASE_URL"),
            ({"host": "no-such-host.invalid"}, "no-such-host.invalid", "Correct the host"),
            ({"password": SECRET}, "password authentication failed", "Check the user and password"),
            ({"user": "nobody_here", "password": SECRET}, "nobody_here", "Check the user and password"),
            ({"dbname": "no_such_db"}, 'database "no_such_db" does not exist', "createdb"),
        ):
            if change.get("password") and not password_of(database_url):
                continue  # a server that trusts everybody asks for none
            message = fail_to_connect(make_url(database_url, **change))
            assert words in message, change
            assert mend in message, change


@pytest.mark.parametrize(
    "url",
    [
        "not a url",
        f"mysql://u:{SECRET}@h/d",
        f"postgresql://u:{SECRET}%zz@h/d",
        f"postgresql://u:{SECRET}@h:port/d",
        f"postgresql://u:{SECRET}@h/d?nonsense=1",
        f"host=h password='{SECRET}",
        f"postgresql://u:a@{SECRET}@127.0.0.1:1/d",
        f"postgresql://u:a/{SECRET}@127.0.0.1:1/d",
        f"postgresql://u:a#{SECRET}@127.0.0.1:1/d",
        f"postgresql://u:a:{SECRET}@127.0.0.1:1/d",
    ],
)
def test_a_url_that_cannot_be_read_is_told_without_its_password(url: str) -> None:
    message = fail_to_connect(url)
    assert "DATABASE_URL" in message


def test_something_else_than_postgresql_at_the_port_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            for _ in range(2):  # with SSL, then without
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(100)
                    peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        message = fail_to_connect(f"postgresql://u:{SECRET}@127.0.0.1:{listener.getsockname()[1]}/d")
        with socket.create_connection(listener.getsockname()):
            pass  # lets the thread end where libpq came but once
        thread.join()
    assert "Check that PostgreSQL answers at host and port" in message


def test_defaults_are_added_and_what_is_given_wins() -> None:
    known = psycopg.conninfo.conninfo_to_dict(external_conninfo("postgresql://u@h/d?connect_timeout=3"))
    assert known["connect_timeout"] == "3"
    assert (known["application_name"], known["keepalives"]) == ("obsidian-rag", "1")


def test_a_database_is_named_without_its_password() -> None:
    assert describe(f"postgresql://me:{SECRET}@db.example:5433/notes") == "'notes' at me@db.example:5433"


@pytest.mark.parametrize(
    ("statement", "kind", "words"),
    [
        ("SELECT 1 / 0", DatabaseError, "The database refused: division by zero"),
        ("SET ROLE rag_nobody", DatabaseError, "The database refused"),
        ("SET statement_timeout = '1ms'; SELECT pg_sleep(10)", DatabaseError, "statement timeout"),
        (
            "SET default_transaction_read_only = on; CREATE TABLE t (i INT)",
            DatabaseUnsuitable,
            "can only be read",
        ),
        ("SELECT pg_terminate_backend(pg_backend_pid())", DatabaseUnavailable, "was lost"),
    ],
)
def test_what_the_server_refuses_is_told_from_a_lost_connection(
    database_url: str, statement: str, kind: type[Exception], words: str
) -> None:
    with open_connection(database_url) as conn, pytest.raises(kind) as caught, mapped_errors(database_url):
        for part in statement.split("; "):
            conn.execute(part)  # type: ignore[call-overload]
    assert type(caught.value) is kind
    assert words in str(caught.value)
    password = password_of(database_url)
    assert not password or password not in str(caught.value)


def test_a_server_that_is_too_old_or_has_no_pgvector_is_told(database_url: str) -> None:
    """Such servers are not at hand: the answers of one are given in their place."""

    class Info:
        server_version = 180000

    class Answer:
        def __init__(self, row: tuple[str] | None) -> None:
            self.row = row

        def fetchone(self) -> tuple[str] | None:
            return self.row

    class Server:
        info = Info()
        available: tuple[str] | None = None

        def execute(self, statement: str) -> Answer:
            return Answer(self.available if "pg_available_extensions" in statement else None)

    server = Server()
    with pytest.raises(DatabaseUnsuitable, match=r"has no pgvector.*postgresql-18-pgvector"):
        check_server(server, database_url)  # type: ignore[arg-type]
    server.available = ("0.6.2",)
    with pytest.raises(DatabaseUnsuitable, match=r"pgvector 0\.6\.2 of .* is too old"):
        check_server(server, database_url)  # type: ignore[arg-type]
    server.available = ("0.10.0",)
    check_server(server, database_url)  # type: ignore[arg-type]
    Info.server_version = 140012
    with pytest.raises(DatabaseUnsuitable, match=r"PostgreSQL 14 of .* is too old"):
        check_server(server, database_url)  # type: ignore[arg-type]


def test_a_reader_cannot_write(database_url: str, migrated: str, new_database: Callable[..., str]) -> None:
    for url in (database_url, new_database(migrated)):
        with connect(url, read_only=True) as conn, pytest.raises(psycopg.Error):
            conn.execute("CREATE TABLE t (i INT)")


# --- the databases of the embedded server ------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of an embedded server of these tests' own."""
    folder = tmp_path_factory.mktemp("embedded")
    yield folder
    embedded.release(folder)


@pytest.fixture
def server_of(home: Path) -> Iterator[Callable[..., Settings]]:
    """Makes settings for vaults in an embedded server that holds nothing else."""
    yield lambda *roots: Settings(
        vaults=(
            (Vault(roots[0]),) if len(roots) == 1 else tuple(Vault(root, f"{root.name}/") for root in roots)
        ),
        data_dir=home,
    )
    conninfo = embedded.acquire(home)
    with psycopg.connect(conninfo, autocommit=True) as conn:
        for (name,) in conn.execute("SELECT datname FROM pg_database WHERE datname LIKE 'vault%'").fetchall():
            conn.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def fill(settings: Settings, *paths: str) -> str:
    """Make the index of some vaults with notes at these paths, in the database only; its name."""
    conninfo = locate(settings, create=True)
    with psycopg.connect(conninfo, autocommit=True) as conn:
        conn.execute("CREATE TABLE notes (file_path TEXT PRIMARY KEY)")
        for path in paths:
            conn.execute("INSERT INTO notes VALUES (%s)", (path,))
    embedded_index.mark_indexed(conninfo, settings.vaults)
    return name_of(settings)


def name_of(settings: Settings) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(locate(settings))["dbname"])


def make_vault(root: Path, *paths: str) -> Path:
    for path in paths:
        VaultFolder(root).write(path, "Text.\n")
    root.mkdir(parents=True, exist_ok=True)
    return root


def test_each_vault_has_a_database_of_its_own(server_of: Callable[..., Settings], tmp_path: Path) -> None:
    one, two = make_vault(tmp_path / "one"), make_vault(tmp_path / 'two\'s "notes"')
    names = {
        fill(server_of(one), "A.md"),
        fill(server_of(two), "A.md"),
        fill(server_of(one, two), "one/A.md"),
    }
    assert len(names) == 3
    assert name_of(server_of(two, one)) == name_of(server_of(one, two))


def test_without_a_vault_the_index_written_last_is_used(
    server_of: Callable[..., Settings], tmp_path: Path, home: Path
) -> None:
    nothing = Settings(data_dir=home)
    with pytest.raises(SettingsError, match="No vault has been indexed yet"):
        locate(nothing)
    first, second = server_of(make_vault(tmp_path / "a")), server_of(make_vault(tmp_path / "b"))
    fill(first, "A.md")
    fill(second, "A.md")
    assert name_of(nothing) == name_of(second)
    embedded_index.mark_indexed(locate(first), first.vaults)
    assert name_of(nothing) == name_of(first)


def test_a_vault_that_was_never_indexed_is_told(server_of: Callable[..., Settings], tmp_path: Path) -> None:
    fill(server_of(make_vault(tmp_path / "a", "A.md")), "A.md")
    settings = server_of(make_vault(tmp_path / "b"))
    with pytest.raises(SettingsError, match=r"has not been indexed yet.*obsidian-rag index"):
        locate(settings)
    assert not embedded_index.is_there(settings)


def test_a_symbolic_link_to_a_vault_leads_to_its_index(
    server_of: Callable[..., Settings], tmp_path: Path
) -> None:
    root = make_vault(tmp_path / "vault")
    name = fill(server_of(root), "A.md")
    (tmp_path / "link").symlink_to(root)
    assert name_of(server_of(tmp_path / "link")) == name


def test_a_moved_vault_is_known_by_its_notes_and_keeps_its_index(
    server_of: Callable[..., Settings], tmp_path: Path
) -> None:
    old = make_vault(tmp_path / "old", "A.md", "sub/B.md")
    name = fill(server_of(old), "A.md", "sub/B.md", "Deleted meanwhile.md")
    new = old.rename(tmp_path / "other name")

    moved = server_of(new)
    assert name_of(moved) == name  # for a reader too
    assert embedded_index.is_there(moved)
    assert locate(moved, create=True) == locate(moved)
    embedded_index.mark_indexed(locate(moved), moved.vaults)

    # A new vault at the old place is another one.
    again = server_of(make_vault(old, "Else.md"))
    assert fill(again, "Else.md") != name
    assert name_of(moved) == name


def test_a_vault_that_is_not_mounted_is_not_taken_for_another_of_the_same_name(
    server_of: Callable[..., Settings], tmp_path: Path
) -> None:
    gone = make_vault(tmp_path / "usb" / "Notes", "A.md", "B.md")
    name = fill(server_of(gone), "A.md", "B.md")
    gone.rename(tmp_path / "away")

    other = server_of(make_vault(tmp_path / "disk" / "Notes", "C.md", "D.md"))
    assert fill(other, "C.md", "D.md") != name


def test_a_database_whose_making_was_interrupted_does_no_harm(
    server_of: Callable[..., Settings], tmp_path: Path, home: Path
) -> None:
    with psycopg.connect(embedded.acquire(home), autocommit=True) as conn:
        conn.execute("CREATE DATABASE vault_broken")
        conn.execute("CREATE DATABASE vault_odd")
        conn.execute("COMMENT ON DATABASE vault_odd IS 'not what is expected'")
    settings = server_of(make_vault(tmp_path / "a"))
    assert fill(settings, "A.md") not in ("vault_broken", "vault_odd")


def test_asking_whether_there_is_an_index_makes_nothing(tmp_path: Path) -> None:
    home = tmp_path / "never used"
    settings = Settings(vaults=(Vault(tmp_path),), data_dir=home)
    assert not embedded_index.is_there(settings)
    assert not home.exists()


def test_a_connection_that_is_closed_leaves_nothing_behind_in_the_process(
    new_database: Callable[..., str], migrated: str
) -> None:
    """A class made for each connection would stay for ever: psycopg keeps those it was given."""
    url = new_database(migrated)

    def count_classes() -> int:
        gc.collect()
        return sum(isinstance(thing, type) for thing in gc.get_objects())

    def use() -> None:
        with connect(url, read_only=True) as conn:
            conn.execute("SELECT %s::vector, '[1,2]'::halfvec", (Vector([1, 2]),)).fetchall()

    use()
    before = count_classes()
    for _ in range(5):
        use()
    assert count_classes() == before


def test_vectors_go_in_and_come_out_in_both_formats(new_database: Callable[..., str], migrated: str) -> None:
    with connect(new_database(migrated)) as conn:
        for binary in (False, True):
            for value in (Vector([1, 2.5]), np.array([1, 2.5], np.float32), HalfVector([1, 2.5])):
                with conn.cursor(binary=binary) as cur:
                    row = cur.execute("SELECT pg_typeof(%(v)s)::text, %(v)s", {"v": value}).fetchone()
                assert row is not None
                kind, read = row
                assert (kind, read.to_list()) == (
                    "halfvec" if isinstance(value, HalfVector) else "vector",
                    [1, 2.5],
                )


def test_a_database_whose_extension_is_made_anew_is_written_to_as_before(database_url: str) -> None:
    for _ in range(2):
        with connect(database_url) as conn:
            conn.execute("DROP EXTENSION IF EXISTS vector; CREATE EXTENSION vector")
        with connect(database_url) as conn:
            assert conn.execute("SELECT %s <-> '[1,2]'", (Vector([1, 2]),)).fetchone() == (0.0,)
