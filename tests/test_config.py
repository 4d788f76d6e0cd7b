"""Settings: where they come from, which wins, and what may not be read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from obsidian_rag import config
from obsidian_rag.config import Settings, Vault, load_settings, mask_password, parse_vaults
from obsidian_rag.errors import SettingsError

SEP = os.pathsep


@pytest.fixture
def settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes the person's settings file."""
    file = tmp_path / "config" / "settings.env"
    monkeypatch.setattr(config, "settings_file", lambda: file)

    def write(text: str) -> Path:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
        return file

    return write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A working directory."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def load(
    project: Path, environ: dict[str, str] | None = None, flags: dict[str, str | None] | None = None
) -> Settings:
    return load_settings(environ or {}, flags or {}, project)


def test_without_any_setting_the_defaults_hold(project: Path) -> None:
    settings = load(project)
    assert settings == Settings()
    assert (settings.ollama_url, settings.embedder) == ("http://localhost:11434", "auto")


def test_a_flag_beats_the_environment_beats_dotenv_beats_the_settings_file(
    project: Path, settings_file: Callable[[str], Path]
) -> None:
    names = ("EMBED_MODEL", "FTS_CONFIG", "OLLAMA_URL", "DATABASE_URL")
    settings_file("".join(f"{name}=file\n" for name in names))
    (project / ".env").write_text("".join(f"{name}=dotenv\n" for name in names[:3]))
    environ = {name: "environment" for name in names[:2]}

    settings = load(project, environ, {"EMBED_MODEL": "flag"})

    assert (settings.embed_model, settings.fts_config) == ("flag", "environment")
    assert (settings.ollama_url, settings.database_url) == ("dotenv", "file")
    assert settings.from_environment == ("EMBED_MODEL", "FTS_CONFIG")


def test_an_empty_value_is_no_value(project: Path) -> None:
    (project / ".env").write_text("EMBED_MODEL=from-dotenv\nFTS_CONFIG=\n")

    settings = load(project, {"EMBED_MODEL": "", "OLLAMA_URL": ""}, {"EMBED_MODEL": None})

    assert (settings.embed_model, settings.fts_config) == ("from-dotenv", None)
    assert not settings.ollama_url_is_set


def test_values_are_taken_as_they_are_written(project: Path) -> None:
    (project / ".env").write_text("DATABASE_URL='postgresql://u:a$HOME${X}@h/d'\nEMBED_MODEL=\"a b\" # c\n")
    settings = load(project, {"HOME": "/home/me"})
    assert settings.database_url == "postgresql://u:a$HOME${X}@h/d"
    assert settings.embed_model == "a b"


@pytest.mark.parametrize("where", [".", "sub", "sub/folder"])
def test_a_dotenv_inside_a_vault_is_not_read_and_that_is_said(tmp_path: Path, where: str) -> None:
    (tmp_path / "vault" / ".obsidian").mkdir(parents=True)
    folder = tmp_path / "vault" / where
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".env").write_text("DATABASE_URL=postgresql://evil/db\n")

    settings = load(folder)

    assert settings.database_url is None
    assert "is not read: it lies inside the vault" in settings.notices[0]


@pytest.mark.parametrize("source", ["flag", "environment", "settings file", "dotenv", "symbolic link"])
def test_a_vault_without_its_obsidian_folder_is_known_by_the_settings(
    project: Path, settings_file: Callable[[str], Path], tmp_path: Path, source: str
) -> None:
    environ: dict[str, str] = {}
    flags: dict[str, str | None] = {}
    text = "DATABASE_URL=postgresql://evil/db\n"
    if source == "flag":
        flags["VAULT_PATH"] = str(project)
    elif source == "environment":
        environ["VAULT_PATH"] = f"{tmp_path}{SEP}{project}"
    elif source == "settings file":
        settings_file(f"VAULT_PATH={project}\n")
    elif source == "dotenv":
        text += f"VAULT_PATH={project}\n"
    else:
        (tmp_path / "link").symlink_to(project)
        environ["VAULT_PATH"] = str(tmp_path / "link")
    (project / ".env").write_text(text)

    settings = load(project, environ, flags)

    assert settings.database_url is None
    assert len(settings.notices) == 1


def test_a_dotenv_beside_the_vault_is_read(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / ".env").write_text(f"VAULT_PATH={tmp_path}/notes\nEMBEDDER=local\n")
    settings = load(tmp_path)
    assert (settings.vaults, settings.embedder) == ((Vault(tmp_path / "notes"),), "local")


def test_an_embedder_that_is_none_is_an_error(project: Path) -> None:
    with pytest.raises(SettingsError, match=r"EMBEDDER is 'openai'.*auto, ollama, local"):
        load(project, {"EMBEDDER": "openai"})
    assert load(project, {"EMBEDDER": "Local"}).embedder == "local"


@pytest.mark.parametrize("written", ["{home}/model", "~/model", "./model", "../project/model"])
def test_a_reranker_that_is_written_as_a_path_is_a_folder_wherever_the_program_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(project))
    settings = load(project, {"RERANK_MODEL": written.format(home=project)})
    assert settings.rerank_model == str(project / "model")


def test_a_reranker_that_is_written_as_a_name_never_means_a_folder_that_lies_there(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    (project / "Owner" / "model").mkdir(parents=True)
    settings = load(project, {"RERANK_MODEL": "Owner/model", "EXPAND_MODEL": "writer:1b"})
    assert (settings.rerank_model, settings.expand_model) == ("Owner/model", "writer:1b")


def test_a_misspelt_setting_is_pointed_out(project: Path, settings_file: Callable[[str], Path]) -> None:
    settings_file("EMBEDER=local\nCOLOUR=red\nEMBED_MODEL=x\n")
    (project / ".env").write_text("DATABASE_URI=x\nSECRET_KEY=another program's\n")

    notices = load(project).notices

    assert len(notices) == 3
    assert "EMBEDER is not a setting. Did you mean EMBEDDER?" in notices[0]
    assert "COLOUR is not a setting" in notices[1]
    assert "DATABASE_URI is not a setting. Did you mean DATABASE_URL?" in notices[2]


def test_a_settings_file_that_cannot_be_read_is_an_error(
    project: Path, settings_file: Callable[[str], Path]
) -> None:
    settings_file("").write_bytes(b"EMBED_MODEL=\xff\xfe\n")
    with pytest.raises(SettingsError, match=r"settings\.env cannot be read"):
        load(project)


def test_a_home_that_nobody_has_is_an_error(project: Path) -> None:
    with pytest.raises(SettingsError, match="Write its full path"):
        load(project, {"VAULT_PATH": "~no-such-user/notes"})


def test_a_path_with_the_separator_in_it_is_one_vault_if_it_exists(tmp_path: Path) -> None:
    both = tmp_path / f"a{SEP}b"
    both.mkdir()
    assert parse_vaults(str(both)) == (Vault(both),)


def test_several_vaults_get_their_names_as_prefix(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    assert parse_vaults(f"{one}{SEP}{two}/{SEP}") == (Vault(one, "one/"), Vault(two, "two/"))
    assert parse_vaults(f"{one}{SEP}{one}/") == (Vault(one),)
    assert parse_vaults("") == ()


def test_two_vaults_of_one_name_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="two vaults called 'notes'"):
        parse_vaults(f"{tmp_path}/a/notes{SEP}{tmp_path}/b/notes")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:secret@h:1/d", "postgresql://u:***@h:1/d"),
        ("+ OLLAMA_URL='http://h:11434'", "+ OLLAMA_URL='http://h:11434'"),
        ('it is "http://h:11434".', 'it is "http://h:11434".'),
        ("(http://h:11434), and", "(http://h:11434), and"),
        ("http://h:114'secret", "http://h:***"),
        ("postgresql://u@h:1/d", "postgresql://u@h:1/d"),
        ("postgresql://h:1/d", "postgresql://h:1/d"),
        ("postgresql://u:se@cret@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u:se#cret@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u:se/cret?x@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u:sec:ret@[::1]:5/d", "postgresql://u:***@[::1]:5/d"),
        ("postgresql://h/d?user=u&password=secret&x=1", "postgresql://h/d?user=u&password=***&x=1"),
        ("postgresql://h/d?sslpassword=secret", "postgresql://h/d?sslpassword=***"),
        ("host=h password=secret dbname=d", "host=h password=*** dbname=d"),
        ("host=h password='sec ret' dbname=d", "host=h password=*** dbname=d"),
        (r"host=h password = 'sec\' ret' dbname=d", "host=h password = *** dbname=d"),
        ("host=h password='secret unclosed", "host=h password=***"),
        ("mysql://u:secret@h/d", "mysql://u:***@h/d"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert mask_password(url) == shown


def test_settings_do_not_show_their_secrets() -> None:
    shown = repr(Settings(database_url="postgresql://u:secret@h/d", ollama_url="http://u:secret@h"))
    assert "secret" not in shown
