"""What schema.sql says of the tables and indexes that an index has."""

from __future__ import annotations

import re

from obsidian_rag.migrate import sql_folder

_TABLES = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
_INDEXES = re.compile(r"^CREATE (?:UNIQUE )?INDEX (\w+) ON (\w+)[^;]*;", re.MULTILINE)
_REMARK = re.compile(r"--.*$", re.MULTILINE)


def list_tables() -> list[str]:
    """The tables of the schema."""
    return _TABLES.findall(_read())


def list_indexes() -> dict[str, str]:
    """Indexes by name, with the statement that makes each, in one line and without its end."""
    return {m.group(1): " ".join(m.group().split()).rstrip(";") for m in _INDEXES.finditer(_read())}


def _read() -> str:
    return _REMARK.sub("", (sql_folder() / "schema.sql").read_text(encoding="utf-8"))
