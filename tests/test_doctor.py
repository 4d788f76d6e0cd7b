"""The doctor: each kind of damage is done for real, told with its mend, and gone once the mend was made."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from click.testing import CliRunner
from conftest import DIMENSIONS, VaultFolder, Workbench, make_url
from ollama_double import Hold, Model
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from obsidian_rag import config, embedded, ledger
from obsidian_rag.cli import cli
from obsidian_rag.config import Settings, parse_vaults
from obsidian_rag.doctor import EXAMINATIONS, Check, Report, embedder, print_checks, run_doctor
from obsidian_rag.doctor import database as database_checks
from obsidian_rag.doctor.examination import Examination, Patient, Surroundings, examine
from obsidian_rag.doctor.report import fail, make_check, ok, open_console
from obsidian_rag.embedding import EmbeddingModel
from obsidian_rag.errors import VaultError
from obsidian_rag.indexing import Options, run_indexer
from obsidian_rag.program import spell_commands
from obsidian_rag.progress import SilentProgress

LONG = "\n\n".join(f"## Part {n}\n\nThe pump of part {n} hums and the valve drips." for n in range(4))
# What cannot be known of a server reached by a URL, and what no test registers.
USUAL = {("disk room", "skipped"), ("registration", "warning")}


@dataclass
class Consultation:
    """A workbench and the doctor who looks at it, in an otherwise empty home."""

    bench: Workbench
    home: Path

    def look(self, **settings: Any) -> Report:
        around = Surroundings(self.home, self.home, {"PATH": str(self.home / "bin")})
        return Report(tuple(run_doctor(replace(self.bench.settings, **settings), around)))

    def find(self, name: str, **settings: Any) -> Check:
        """The line of a check; the worst where there are several."""
        order = ("error", "skipped", "warning", "ok")
        lines = [check for check in self.look(**settings).checks if check.name == name]
        return min(lines, key=lambda check: order.index(check.status))

    def complaints(self, **settings: Any) -> set[tuple[str, str]]:
        """Everything that is not ok, but for what is usual in a test."""
        checks = self.look(**settings).checks
        return {(c.name, c.status) for c in checks if c.status != "ok"} - USUAL

    def mend(self, report: Report) -> None:
        """Do what the doctor says, as far as it is about the index."""
        mends = [c.mend for c in report.checks if (c.name, c.status) not in USUAL and c.mend]
        for mend in mends:
            for statement in re.findall(r'obsidian-rag psql --write -- -c "([^"]+)"', mend):
                self.bench.execute(statement)
        if any("--full" in mend for mend in mends):
            assert self.bench.index(full=True).status == "ok"
        elif any("obsidian-rag index" in mend for mend in mends):
            assert self.bench.index().status == "ok"


@pytest.fixture
def doctor(bench: Workbench, tmp_path: Path) -> Consultation:
    home = tmp_path / "home"
    home.mkdir()
    return Consultation(bench, home)


@pytest.fixture
def indexed(doctor: Consultation) -> Consultation:
    """A small index in order, whose words and vectors are those of its notes."""
    write = doctor.bench.vault.write
    write("Pump.md", f"# Pump\n\nSee [[Valve]].\n\n{LONG}\n")
    write("Valve.md", "---\naliases: [Tap]\n---\n# Valve\n\nIt drips.\n")
    write("Home/Empty.md", "---\ntags: [stub]\n---\n")
    assert doctor.bench.index().status == "ok"
    return doctor


def test_of_an_index_in_order_every_check_passes(indexed: Consultation) -> None:
    report = indexed.look()
    assert {(c.name, c.status) for c in report.checks if c.status != "ok"} == USUAL
    assert report.exit_code == 0
    assert list(dict.fromkeys(check.group for check in report.checks)) == [
        "settings", "vault", "database", "embedder", "index", "mcp",
    ]  # fmt: skip
    shown = json.loads(json.dumps(report.to_json()))
    assert shown["status"] == "warning"
    assert all(set(line) == {"group", "name", "status", "message", "mend"} for line in shown["checks"])
    assert all(check.mend for check in report.checks if check.status != "ok")


def test_the_doctor_writes_nothing(indexed: Consultation) -> None:
    bench, vault = indexed.bench, indexed.bench.vault.root
    bench.execute("DELETE FROM documents WHERE file_path = 'Valve.md'")
    bench.vault.write("New.md", "New.\n")

    def everything() -> tuple[Any, ...]:
        files = sorted(
            (str(f), f.stat().st_mtime_ns) for folder in (vault, indexed.home) for f in folder.rglob("*")
        )
        runs = bench.rows("SELECT * FROM index_runs"), bench.rows("TABLE index_settings")
        return files, runs, bench.tables()

    before = everything()
    assert indexed.look().status == "error"
    assert everything() == before


# --- the runner --------------------------------------------------------------------------------------


def examine_these(consultation: Consultation, *examinations: Examination) -> dict[str, Check]:
    url = make_url(consultation.bench.database_url, password="hunter2")
    patient = Patient(
        replace(consultation.bench.settings, database_url=url), Surroundings(Path("/"), Path("/"), {})
    )
    return {check.name: check for check in examine(patient, examinations)}


def test_a_check_that_breaks_is_an_error_line_and_the_others_go_on(doctor: Consultation) -> None:
    def explode(patient: Patient) -> Any:
        raise RuntimeError("no route to postgresql://u:hunter2@h with hunter2")

    found = examine_these(
        doctor,
        Examination("a", "one", explode),
        Examination("a", "two", lambda patient: ok("fine")),
        Examination("a", "three", lambda patient: ok("fine"), ("one",)),
        Examination("a", "four", lambda patient: ok("fine"), ("three",)),
    )
    assert (found["one"].status, found["two"].status) == ("error", "ok")
    assert "RuntimeError" in found["one"].message
    assert "hunter2" not in str(found)
    for name in ("three", "four"):  # which names the one at fault, and not who waited for it too
        assert found[name].status == "skipped"
        assert found[name].message == 'could not run: the check "one" did not pass'
        assert found[name].mend == found["one"].mend


def test_a_check_that_does_not_end_is_left_and_what_it_held_is_not_touched_again(
    doctor: Consultation,
) -> None:
    never, later = threading.Event(), []

    def hang(patient: Patient) -> Any:
        never.wait(60)
        return ok("at last")

    try:
        found = examine_these(
            doctor,
            Examination("a", "disk", lambda patient: ok("fine")),
            Examination("a", "walk", hang, ("disk",), patience=0.05),
            Examination("a", "next", lambda patient: later.append(1) or ok("fine"), ("disk",)),
            Examination("a", "other", lambda patient: ok("fine")),
        )
    finally:
        never.set()
    assert (found["walk"].status, found["next"].status, found["other"].status) == ("skipped", "skipped", "ok")
    assert "longer than" in found["walk"].message
    assert '"walk" did not pass' in found["next"].message
    assert later == []


def test_a_statement_that_takes_too_long_could_not_run(
    indexed: Consultation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_checks, "STATEMENT_TIMEOUT", "100ms")

    def ask(patient: Patient) -> Any:
        patient.database.execute("SELECT pg_sleep(60)")

    patient = Patient(indexed.bench.settings, Surroundings(Path("/"), Path("/"), {}))
    connection, *_ = database_checks.CHECKS
    found = list(examine(patient, [connection, Examination("index", "slow", ask, ("connection",))]))
    assert [check.status for check in found] == ["ok", "skipped"]
    assert "did not answer in time" in found[1].message


def test_a_line_stays_a_line_and_a_password_stays_out_of_it() -> None:
    check = make_check(
        "g",
        "n",
        fail("a\nb at http://localhost:1 and postgresql://u:p:w@h/d\x1b[2J", "see password='x y' me@home"),
    )
    assert check.message == "a\\x0ab at http://localhost:1 and postgresql://u:***@h/d\\x1b[2J"
    assert "me@home" in check.mend


# --- settings and vault ------------------------------------------------------------------------------


def test_what_is_no_setting_is_told(indexed: Consultation) -> None:
    check = indexed.find(
        "unknown", notices=("/x/.env: EMBED_MODELL is not a setting. Did you mean EMBED_MODEL?",)
    )
    assert (check.group, check.status) == ("settings", "warning")
    assert "Did you mean EMBED_MODEL?" in check.message


def test_a_settings_file_with_a_password_that_others_may_read_is_told(
    indexed: Consultation, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = indexed.home / "settings.env"
    monkeypatch.setattr(config, "settings_file", lambda: file)
    file.write_text("DATABASE_URL=postgresql://u:hunter2@h/d\n")
    file.chmod(0o644)
    check = indexed.find("settings files")
    assert (check.status, check.mend) == ("warning", f"Run: chmod 600 {file}")
    assert "hunter2" not in str(indexed.look())
    file.chmod(0o600)
    assert indexed.find("settings files").status == "ok"
    file.write_text("EMBED_MODEL=x\n")
    file.chmod(0o644)
    assert indexed.find("settings files").status == "ok"


def test_a_vault_that_is_missing_is_an_error_and_what_needs_it_could_not_run(indexed: Consultation) -> None:
    indexed.bench.vault.root.rename(indexed.home / "elsewhere")
    report = indexed.look()
    checks = {check.name: check for check in report.checks}
    assert report.exit_code == 1
    assert checks["folder"].status == "error"
    assert "mount" in checks["folder"].mend
    for name in ("notes", "notes on disk"):
        assert (checks[name].status, checks[name].message) == (
            "skipped", 'could not run: the check "folder" did not pass',
        )  # fmt: skip
    assert (checks["tables"].status, checks["vectors"].status, checks["probe"].status) == ("ok", "ok", "ok")


def test_without_vault_path_the_notes_are_looked_for_where_the_index_was_made(indexed: Consultation) -> None:
    indexed.bench.vault.write("New.md", "New.\n")
    checks = {check.name: check for check in indexed.look(vaults=()).checks}
    assert (checks["folder"].status, checks["notes"].status) == ("warning", "skipped")
    assert "1 is not in the index (New.md)" in checks["notes on disk"].message


def test_a_folder_without_notes_and_files_that_cannot_be_looked_at_are_told(
    indexed: Consultation, tmp_path: Path
) -> None:
    (indexed.bench.vault.root / "Dead.md").symlink_to("nowhere")
    check = indexed.find("notes")
    assert check.status == "warning"
    assert "Dead.md" in check.message
    (tmp_path / "bare").mkdir()
    assert indexed.find("notes", vaults=parse_vaults(str(tmp_path / "bare"))).status == "error"


def test_another_vault_than_that_of_the_index_is_an_error(indexed: Consultation, tmp_path: Path) -> None:
    VaultFolder(tmp_path / "other").write("B.md", "b")
    found = indexed.complaints(vaults=parse_vaults(str(tmp_path / "other")))
    assert found == {("made with", "error"), ("notes on disk", "error")}


# --- the database ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("harm", "name", "words"),
    [
        ("DROP INDEX documents_embedding_idx", "indexes", "documents_embedding_idx is missing"),
        ("DROP INDEX documents_embedding_idx", "vector index", "cannot use the HNSW index"),
        ("DROP INDEX postings_lexeme_idx", "indexes", "postings_lexeme_idx is missing"),
        (
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'documents_embedding_idx'::regclass",
            "indexes",
            "documents_embedding_idx of documents is invalid",
        ),
        (
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'note_names_key_idx'::regclass",
            "indexes",
            "note_names_key_idx of note_names is invalid",
        ),
    ],
)
def test_an_index_that_is_missing_or_invalid_is_an_error_until_it_is_mended(
    indexed: Consultation, harm: str, name: str, words: str
) -> None:
    indexed.bench.execute(harm)
    report = indexed.look()
    assert report.exit_code == 1
    assert any(c.name == name and c.status == "error" and words in c.message for c in report.checks)
    for mend in dict.fromkeys(c.mend for c in report.checks if c.status == "error"):
        for statement in re.findall(r'psql --write -- -c "([^"]+)"', mend):
            for single in statement.split("; "):
                indexed.bench.execute(single.replace("CREATE INDEX", "CREATE INDEX IF NOT EXISTS"))
    assert indexed.complaints() == set()


def test_the_index_of_long_vectors_is_mended_as_what_it_was(doctor: Consultation) -> None:
    doctor.bench.ollama.pull(Model("nomic-embed-text", dimensions=2500))
    doctor.bench.vault.write("A.md", "# A\n\nText.\n")
    doctor.bench.index()
    assert doctor.find("vector index").status == "ok"
    doctor.bench.execute("DROP INDEX documents_embedding_idx")
    assert doctor.find("vector index").status == "error"
    (mend,) = re.findall(r'psql --write -- -c "([^"]+)"', doctor.find("indexes").mend)
    assert "halfvec(2500)" in mend
    doctor.bench.execute(mend)
    assert doctor.complaints() == set()


def test_the_plan_of_a_search_is_looked_at_and_not_only_the_index(
    indexed: Consultation, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "usable; of so few chunks (6) all are read" in indexed.find("vector index").message
    monkeypatch.setattr(database_checks, "FULL_SCAN_CHUNKS", 5)
    check = indexed.find("vector index")
    mend = 'Run: obsidian-rag psql --write -- -c "ANALYZE documents"'
    assert (check.status, check.mend) == ("warning", mend)
    name = sql.Identifier(str(conninfo_to_dict(indexed.bench.database_url)["dbname"]))
    with psycopg.connect(indexed.bench.database_url, autocommit=True) as conn:
        conn.execute(sql.SQL("ALTER DATABASE {} SET enable_seqscan = off").format(name))
    assert indexed.find("vector index").message == "a search for near chunks uses the HNSW index"


def test_a_database_without_an_index_and_one_that_nobody_runs_are_told(
    doctor: Consultation, database_url: str
) -> None:
    checks = {check.name: check for check in doctor.look(database_url=database_url).checks}
    assert checks["schema"].status == "error"
    assert "holds no index yet" in checks["schema"].message
    assert "obsidian-rag index" in checks["schema"].mend
    assert checks["pgvector"].status == "error"
    assert checks["tables"].message == 'could not run: the check "schema" did not pass'

    url = make_url(database_url, port=1, password="hunter2")
    report = doctor.look(database_url=url)
    checks = {check.name: check for check in report.checks}
    assert checks["connection"].status == "error"
    assert "Start PostgreSQL there" in checks["connection"].mend
    assert {checks[name].status for name in ("version", "schema", "indexes", "tables", "age")} == {"skipped"}
    assert checks["probe"].status == "ok"  # what does not need the database is looked at all the same
    assert "hunter2" not in json.dumps(report.to_json())


def test_a_wrong_password_is_told_and_never_shown(indexed: Consultation, server: str) -> None:
    url = make_url(indexed.bench.database_url, user="nobody_at_all", password="hunter2")
    report = indexed.look(database_url=url)
    assert report.exit_code == 1
    assert "hunter2" not in json.dumps(report.to_json())


def test_a_schema_that_is_older_newer_or_other_than_this_program_knows_is_told(indexed: Consultation) -> None:
    bench = indexed.bench
    bench.execute("UPDATE schema_migrations SET checksum = 'other' WHERE version = 2")
    assert indexed.find("schema").status == "warning"
    bench.execute("INSERT INTO schema_migrations (version, name, checksum) VALUES (9999, 'x', 'x')")
    check = indexed.find("schema")
    assert check.status == "error"
    assert "Upgrade" in check.mend
    bench.execute("DELETE FROM schema_migrations WHERE version > 4")
    check = indexed.find("schema")
    assert check.status == "error"
    assert "has schema 4" in check.message
    assert "obsidian-rag index" in check.mend
    assert indexed.find("indexes").status == "skipped"


@pytest.fixture
def new_login(server: str) -> Iterator[Callable[..., str]]:
    """Makes a login role of the workbench's database, with rights given as SQL; gives its URL."""
    made: list[tuple[str, sql.Identifier]] = []

    def make(bench: Workbench, *rights: str) -> str:
        name = f"Login {conninfo_to_dict(bench.database_url)['dbname']} {len(made)}"
        role = sql.Identifier(name)
        made.append((bench.database_url, role))
        with psycopg.connect(bench.database_url, autocommit=True) as conn:
            conn.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'pw'").format(role))
            for right in rights:
                conn.execute(sql.SQL(right).format(role))  # type: ignore[arg-type]
        return make_url(bench.database_url, user=name, password="pw")

    yield make
    for url, role in made:
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute(sql.SQL("DROP OWNED BY {}").format(role))
            conn.execute(sql.SQL("DROP ROLE {}").format(role))


def test_whether_the_server_could_write_and_the_indexer_can_is_told(
    indexed: Consultation, new_login: Callable[..., str]
) -> None:
    def roles(*rights: str) -> tuple[Check, Check]:
        checks = {c.name: c for c in indexed.look(database_url=new_login(indexed.bench, *rights)).checks}
        return checks["reading role"], checks["writing role"]

    reading, writing = roles("GRANT rag_reader TO {}")
    assert (reading.status, writing.status) == ("ok", "warning")
    assert "rag_reader, which cannot write" in reading.message
    assert 'GRANT rag_indexer TO "Login ' in writing.mend
    reading, writing = roles("GRANT rag_indexer TO {}")
    assert (reading.status, writing.status) == ("warning", "ok")
    assert "may also write" in reading.message
    reading, writing = roles("GRANT rag_indexer, rag_reader TO {}")
    assert (reading.status, writing.status) == ("ok", "ok")
    reading, writing = roles("GRANT SELECT ON documents TO {}")
    assert (reading.status, writing.status) == ("error", "warning")
    assert "may not read" in reading.message


def test_statistics_out_of_date_are_told_once_autovacuum_had_its_time(indexed: Consultation) -> None:
    bench = indexed.bench
    bench.execute("ALTER TABLE postings SET (autovacuum_enabled = off)")
    bench.execute(
        "INSERT INTO postings (lexeme, note_id, chunk_index, tf, field_tf, chunk_length, note_length)"
        " SELECT p.lexeme || g, p.note_id, p.chunk_index, p.tf, p.field_tf, p.chunk_length, p.note_length"
        " FROM postings p, generate_series(1, 200) AS g"
    )
    check = indexed.find("statistics")
    assert (check.status, "autovacuum" in check.message) == ("ok", True)
    bench.execute("UPDATE index_runs SET finished_at = now() - interval '1 hour'")
    check = indexed.find("statistics")
    assert check.status == "warning"
    assert "postings (never analyzed" in check.message
    assert check.mend == 'Run: obsidian-rag psql --write -- -c "ANALYZE postings"'
    bench.execute("ANALYZE postings")
    assert indexed.find("statistics").status == "ok"


@pytest.mark.skipif(not embedded.is_installed(), reason="needs the extra `embedded`")
def test_the_embedded_server_is_started_and_its_disk_looked_at_but_never_made(
    doctor: Consultation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "data"
    own: dict[str, Any] = {"database_url": None, "data_dir": home}
    check = doctor.find("connection", **own)
    assert check.status == "error"
    assert "nothing was ever indexed" in check.message
    assert not home.exists()

    doctor.bench.vault.write("A.md", "# A\n\nText.\n")
    settings = replace(doctor.bench.settings, **own)
    try:
        run_indexer(settings, Options(), SilentProgress())
        checks = {check.name: check for check in doctor.look(**own).checks}
        assert checks["connection"].message.endswith("the embedded server")
        assert checks["disk room"].status == "ok"
        assert "free at" in checks["disk room"].message
        monkeypatch.setattr(database_checks, "LEAST_FREE", 10**18)
        assert doctor.find("disk room", **own).status == "error"
    finally:
        embedded.release(home)


# --- the embedder ------------------------------------------------------------------------------------


def test_an_embedder_that_is_down_or_lacks_the_model_is_an_error(indexed: Consultation) -> None:
    bench = indexed.bench
    bench.ollama.remove("nomic-embed-text")
    check = indexed.find("embedder")
    assert (check.status, "ollama pull nomic-embed-text" in check.mend) == ("error", True)
    bench.ollama.stop()
    report = indexed.look()
    checks = {check.name: check for check in report.checks}
    assert report.exit_code == 1
    assert "ollama serve" in checks["embedder"].mend
    for name in ("dimensions", "window", "probe", "stored vectors"):
        assert checks[name].message == 'could not run: the check "embedder" did not pass'
    assert checks["tables"].status == "ok"


@pytest.mark.parametrize(
    "lie", ["nan", "zero", "wrong_dimension", "null", "fewer", "empty", "html", "crash", "drop"]
)
def test_an_embedder_that_lies_is_an_error(indexed: Consultation, lie: str) -> None:
    indexed.bench.ollama.always = lie
    checks = {check.name: check for check in indexed.look().checks}
    assert checks["embedder"].status == "ok"  # it answers and has the model
    assert checks["probe"].status == "error"
    assert checks["probe"].mend
    assert checks["stored vectors"].message == 'could not run: the check "probe" did not pass'


def test_an_embedder_that_hangs_is_not_waited_for(
    indexed: Consultation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedder, "ONCE", replace(embedder.ONCE, timeout=0.2))
    hold = Hold()
    indexed.bench.ollama.always = hold
    try:
        check = indexed.find("probe")
    finally:
        hold.release.set()
    assert check.status == "error"
    assert "too slow" in check.message


@dataclass
class Liar:
    """An embedder of 3 dimensions that answers whatever it was given."""

    answer: Any
    model = EmbeddingModel("local", "liar", 3, 512)

    def embed_query(self, text: str) -> Any:
        return np.array(self.answer, dtype=np.float32)

    def embed_documents(self, texts: Sequence[str]) -> Any:
        return [self.embed_query(text) for text in texts]

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ([1, 0, 0], "ok"),
        ([1, 0], "error"),
        ([[1, 0, 0]], "error"),
        ([1, 0, float("nan")], "error"),
        ([1, 0, float("inf")], "error"),
        ([0, 0, 0], "error"),
    ],
)
def test_a_probe_vector_must_be_a_direction_of_the_right_length(answer: Any, status: str) -> None:
    patient = Patient(Settings(), Surroundings(Path("/"), Path("/"), {}), embedder=Liar(answer))
    assert embedder.check_probe(patient).status == status


def test_a_model_that_was_replaced_under_its_own_name_is_an_error(indexed: Consultation) -> None:
    bench = indexed.bench
    bench.execute(
        "UPDATE documents SET embedding ="
        " (SELECT array_agg(sin(n + id)) FROM generate_series(1, 64) AS n)::vector"
    )
    check = indexed.find("stored vectors")
    assert check.status == "error"
    assert "--reembed" in check.mend

    bench.ollama.pull(Model("nomic-embed-text", dimensions=32))
    check = indexed.find("embedder")
    assert check.status == "error"
    assert "--reembed" in check.mend
    bench.ollama.pull(Model("nomic-embed-text", dimensions=DIMENSIONS, context=512))
    check = indexed.find("window")
    assert (check.status, "512 tokens" in check.message) == ("warning", True)
    bench.ollama.pull(Model("nomic-embed-text", dimensions=DIMENSIONS, context=100))
    bench.execute("UPDATE index_settings SET embed_window = 100")
    assert indexed.find("window").status == "warning"


def test_another_embedder_than_that_of_the_index_is_an_error(indexed: Consultation) -> None:
    indexed.bench.ollama.pull("bge-m3")
    found = indexed.complaints(embed_model="bge-m3")
    assert ("embedder", "error") in found
    assert ("made with", "error") in found


def test_a_change_of_the_embedder_that_is_not_finished_is_told(indexed: Consultation) -> None:
    indexed.bench.execute(
        "INSERT INTO reembedding (embedder, embed_model, dimensions, embed_window, texts)"
        " VALUES ('ollama', 'bge-m3', 64, 2048, 10)"
    )
    check = indexed.find("re-embedding")
    assert (check.status, check.mend) == ("warning", ledger.GO_ON)


# --- the index ---------------------------------------------------------------------------------------


GHOST = """
INSERT INTO documents (file_path, file_hash, chunk_index, content, embedding)
SELECT 'Ghost.md', md5('ghost'), 0, 'Boo.', embedding FROM documents LIMIT 1
"""


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        ("DELETE FROM notes WHERE file_path = 'Pump.md'", "chunks of notes that are not in the index: 5"),
        ("DELETE FROM notes WHERE file_path = 'Pump.md'", "links of notes that are not in the index: 1"),
        (GHOST, "chunks of notes that are not in the index: 1"),
        (
            "INSERT INTO note_links (source_path, target_name, target_type)"
            " VALUES ('Ghost.md', 'x', 'unresolved')",
            "links of notes that are not in the index: 1",
        ),
        ("UPDATE note_links SET target_type = NULL", "links that were never resolved: 1"),
        (
            "DELETE FROM documents WHERE file_path = 'Pump.md' AND chunk_index = 1",
            "notes with chunks missing: 1",
        ),
        (
            "DELETE FROM documents WHERE file_path = 'Pump.md' AND chunk_index = 0",
            "notes with chunks missing: 1",
        ),
        (
            "DELETE FROM documents WHERE file_path = 'Pump.md' AND chunk_index = 4",
            "words of chunks that are not in the index",
        ),
        (
            "DELETE FROM documents WHERE file_path = 'Valve.md'",
            "notes with text of which no chunk is there: 1",
        ),
        (
            "UPDATE documents SET file_hash = repeat('0', 64) WHERE file_path = 'Valve.md'",
            "chunks of an older state of their note: 1",
        ),
        (
            "UPDATE documents SET search_tsv = NULL WHERE file_path = 'Valve.md'",
            "chunks without words for quoted phrases: 1",
        ),
        (
            "DELETE FROM postings WHERE note_id = (SELECT id FROM notes WHERE file_path = 'Valve.md')",
            "chunks that no word finds: 1",
        ),
        (
            "INSERT INTO postings"
            " SELECT lexeme, 999, 0, tf, field_tf, chunk_length, note_length FROM postings LIMIT 3",
            "words of chunks that are not in the index: 3",
        ),
        (
            "INSERT INTO note_names SELECT 999, kind, name, key, words, trigrams FROM note_names LIMIT 1",
            "names of notes that are not in the index: 1",
        ),
        (
            "DELETE FROM note_names WHERE note_id = (SELECT id FROM notes WHERE file_path = 'Valve.md')",
            "notes that no name finds: 1",
        ),
        ("UPDATE keyword_stats SET chunks = chunks + 5", "sums of words that are wrong"),
        ("TRUNCATE keyword_stats", "sums of words that are wrong"),
        (
            "UPDATE notes SET keyword_version = NULL WHERE file_path = 'Valve.md'",
            "notes whose keyword data are of another version: 1",
        ),
    ],
)
def test_tables_that_disagree_are_an_error_until_they_are_mended(
    indexed: Consultation, harm: str, words: str
) -> None:
    before = indexed.bench.tables()
    indexed.bench.execute(harm)

    report = indexed.look()

    assert report.exit_code == 1
    lines = [check for check in report.checks if check.name == "tables"]
    assert any(line.status == "error" and words in line.message for line in lines), lines
    for _ in range(2):  # what one run brings in may need another to fit
        if indexed.complaints():
            indexed.mend(indexed.look())
    assert indexed.complaints() == set()
    assert indexed.bench.tables() == before


@pytest.mark.parametrize("vector", [None, [0.0] * DIMENSIONS])
def test_chunks_without_a_usable_vector_are_an_error_until_they_are_mended(
    indexed: Consultation, vector: list[float] | None
) -> None:
    before = indexed.bench.tables()
    indexed.bench.execute("ALTER TABLE documents ALTER COLUMN embedding DROP NOT NULL")
    indexed.bench.execute(
        "UPDATE documents SET embedding = %s::float4[]::vector WHERE file_path = 'Pump.md'", vector
    )
    report = indexed.look()
    check = next(check for check in report.checks if check.name == "vectors")
    assert (check.status, "5 chunks have" in check.message) == ("error", True)
    indexed.mend(report)
    assert indexed.complaints() == set()
    assert indexed.bench.tables() == before


def test_chunks_that_another_program_made_are_counted_and_no_fault(indexed: Consultation) -> None:
    indexed.bench.execute("UPDATE documents SET content_hash = NULL")
    checks = {check.name: check for check in indexed.look().checks}
    assert checks["vectors"].message == "6 chunks have one, 6 of them made by another program and taken over"
    assert checks["tables"].status == "ok"
    assert checks["stored vectors"].status == "skipped"  # nothing is known of how they were embedded


def test_an_index_that_was_never_filled_is_an_error(doctor: Consultation) -> None:
    doctor.bench.vault.write("A.md", "Text.\n")
    checks = {check.name: check for check in doctor.look().checks}
    assert (checks["last run"].status, checks["age"].status) == ("error", "error")
    assert "obsidian-rag index" in checks["last run"].mend
    assert "1 is not in the index (A.md)" in checks["notes on disk"].message
    assert checks["made with"].status == "skipped"


def test_how_the_last_run_ended_is_told(indexed: Consultation) -> None:
    bench = indexed.bench
    bench.vault.root.rename(bench.vault.root.with_name("away"))
    with pytest.raises(VaultError):
        bench.index()
    bench.vault.root.with_name("away").rename(bench.vault.root)
    check = indexed.find("last run")
    assert check.status == "error"
    assert "does not exist" in check.message

    bench.execute("INSERT INTO index_runs DEFAULT VALUES")
    check = indexed.find("last run")
    assert (check.status, "cut short" in check.message) == ("warning", True)
    assert check.mend == "Run: obsidian-rag index"
    with psycopg.connect(bench.database_url, autocommit=True) as at_work:
        assert ledger.take_indexer_lock(at_work)
        check = indexed.find("last run")
        assert (check.status, "under way" in check.message) == ("ok", True)
        bench.execute("DELETE FROM documents WHERE file_path = 'Valve.md'")
        assert indexed.find("tables").status == "warning"  # it may be about to write them


def test_a_last_good_run_of_long_ago_is_told(indexed: Consultation) -> None:
    indexed.bench.execute("UPDATE index_runs SET finished_at = now() - interval '9 days'")
    check = indexed.find("age")
    assert (check.status, "9 days ago" in check.message) == ("warning", True)


def test_notes_that_failed_are_named_and_not_told_again_as_missing(indexed: Consultation) -> None:
    indexed.bench.vault.write("Bad.md", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)
    assert indexed.bench.index().status == "partial"
    checks = {check.name: check for check in indexed.look().checks}
    assert checks["failed notes"].status == "warning"
    assert "Bad.md (read): " in checks["failed notes"].message
    assert checks["notes on disk"].message == "4 notes: 1 failed in the last run"


def test_edits_since_the_last_run_are_counted_and_named(indexed: Consultation) -> None:
    vault = indexed.bench.vault
    vault.write("New.md", "New.\n")
    vault.write("Valve.md", "Changed.\n")
    vault.move("Home/Empty.md", "Home/Renamed.md")
    check = indexed.find("notes on disk")
    assert (check.status, check.mend) == ("warning", "Run: obsidian-rag index")
    assert "1 is not in the index (New.md)" in check.message
    assert "1 changed since (Valve.md)" in check.message
    assert "1 was renamed (Home/Renamed.md)" in check.message


def test_a_vault_of_which_most_is_gone_is_an_error_with_a_warning(indexed: Consultation) -> None:
    indexed.bench.vault.delete("Pump.md")
    indexed.bench.vault.delete("Valve.md")
    check = indexed.find("notes on disk")
    assert check.status == "error"
    assert "mounted" in check.mend


def test_notes_that_settings_hide_are_counted(indexed: Consultation) -> None:
    assert indexed.find("hidden notes").message == "none"
    check = indexed.find("hidden notes", search_excludes=("Home",))
    assert (check.status, "hides 1 of 3 notes (Home: 1)" in check.message) == ("ok", True)
    check = indexed.find("hidden notes", search_excludes=("Homme",))
    assert (check.status, "hides nothing: Homme" in check.mend) == ("warning", True)
    assert indexed.find("hidden notes", search_excludes=("*.md",)).status == "warning"


def test_every_check_is_documented() -> None:
    text = (Path(__file__).parent.parent / "docs" / "operations.md").read_text(encoding="utf-8")
    names = [examination.name for examination in EXAMINATIONS if examination.group != "mcp"]
    assert [name for name in names if f"`{name}`" not in text] == []


# --- the command -------------------------------------------------------------------------------------


@pytest.fixture
def run(indexed: Consultation, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(indexed.home)
    monkeypatch.setattr(embedded, "leave_on_sigterm", lambda: None)

    def call(*arguments: str, **variables: str) -> Any:
        environment = indexed.bench.environment | {"HOME": str(indexed.home), "PATH": ""} | variables
        return CliRunner().invoke(cli, ["doctor", *arguments], env=environment, prog_name="obsidian-rag")

    return call


def test_the_exit_code_tells_errors_from_warnings_and_from_a_doctor_who_could_not_look(
    indexed: Consultation, run: Callable[..., Any]
) -> None:
    for variables, code, status in (
        ({}, 0, "warning"),
        ({"VAULT_PATH": "/nowhere"}, 1, "error"),
        ({"EMBEDDER": "openai"}, 2, "error"),
    ):
        done = run("--json", **variables)
        shown = json.loads(done.stdout)
        assert (done.exit_code, shown["status"], isinstance(shown["checks"], list)) == (code, status, True)
        assert run(**variables).exit_code == code
    assert "error" in shown  # of the last, that could not run


def test_a_report_in_a_pipe_is_plain_aligned_and_has_no_password(
    indexed: Consultation, run: Callable[..., Any]
) -> None:
    url = make_url(indexed.bench.database_url, port=1, password="hunter2")
    done = run(DATABASE_URL=url, OLLAMA_URL="http://me:hunter2@127.0.0.1:1")
    assert done.exit_code == 1
    assert "hunter2" not in done.output
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0] == "settings"
    told = [line for line in lines if re.match(r"  (ok|warning|error|skipped) ", line)]
    assert {line[10] for line in told} == {" "}
    assert all(line[11] != " " and line[28] == " " and line[29] != " " for line in told)
    assert sum("Start PostgreSQL there" in line for line in lines) == 1  # a mend is told once
    assert re.fullmatch(r"\d+ ok, \d+ warnings?, 2 errors, \d+ could not run", lines[-1])


def test_what_waits_for_a_check_that_did_not_pass_is_one_line_for_a_person_and_whole_in_json(
    indexed: Consultation, run: Callable[..., Any]
) -> None:
    url = make_url(indexed.bench.database_url, port=1)
    told = run(DATABASE_URL=url).stdout.splitlines()
    waiting = [line for line in told if 'the check "connection" did not pass' in line]
    assert len(waiting) == 1
    checks = json.loads(run("--json", DATABASE_URL=url).stdout)["checks"]
    names = [check["name"] for check in checks if "did not pass" in check["message"]]
    assert len(names) > 10
    assert f"  skipped  {len(names)} checks" in waiting[0]
    assert waiting[0].endswith(f"({', '.join(names)})")


def test_notes_that_were_indexed_with_a_warning_are_counted_and_the_first_named(doctor: Consultation) -> None:
    bench = doctor.bench
    bench.vault.write("A.md", "Text.\n")
    bench.index()
    assert (doctor.find("warnings").status, doctor.find("warnings").message) == ("ok", "none")
    bench.vault.write("Bad.md", "---\na: [x\n---\nText.\n")
    bench.index()
    bench.index()  # which finds it unchanged, and has nothing to say of it
    check = doctor.find("warnings")
    assert check.status == "warning"
    assert check.message.startswith(
        "1 note was indexed with a warning: Bad.md: The properties cannot be read"
    )
    assert check.mend.endswith("All of them: obsidian-rag status")
    for number in range(30):
        bench.vault.write(f"Bad {number:02}.md", f"---\na: [x{number}\n---\nText {number}.\n")
    bench.index()
    check = doctor.find("warnings")
    assert check.message.startswith("31 notes were indexed with a warning: Bad 00.md: ")
    assert check.message.endswith("; and 26 more")
    statement = re.search(r'obsidian-rag psql -- -c "([^"]+)"', check.mend)
    assert statement
    assert len(bench.rows(statement[1])) == 31


def test_a_terminal_gets_colours_and_commands_that_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    console = open_console()
    mend = 'Run: obsidian-rag psql --write -- -c "REINDEX INDEX documents_embedding_idx"'
    with console.capture() as captured:
        print_checks(console, [Check("database", "indexes", "error", "word " * 30, mend)])
    shown = captured.get()
    assert "\x1b[1;31m" in shown
    assert spell_commands(mend) in shown
    folded = [line for line in shown.splitlines() if "word" in line]
    assert len(folded) > 1
    assert all(len(re.sub(r"\x1b\[[\d;]*m", "", line)) <= 60 for line in folded)
