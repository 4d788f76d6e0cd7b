"""The words of an error that nobody foresaw, without the passwords of the settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from obsidian_rag.config import Settings, mask_password

_WORD = re.compile(r"\S+")


def mask_words(text: str) -> str:
    """A text without the passwords of its URLs and conninfos. Word by word: over the whole of it, what lies
    between one URL and the @ of another would be hidden too.
    """
    return _WORD.sub(lambda word: mask_password(word.group()), text)


def hide_passwords(text: str, settings: Settings, conninfo: str = "") -> str:
    """A text without the passwords of the settings and that of `conninfo`, in whatever spelling."""
    # The longest first: one may be a part of another.
    for secret in sorted(set(_list_passwords(settings, conninfo)), key=len, reverse=True):
        text = text.replace(secret, "***")
    return mask_words(text)


def _list_passwords(settings: Settings, conninfo: str) -> Iterator[str]:
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict

    for source in filter(None, (conninfo, settings.database_url)):
        try:
            yield from _spell(str(conninfo_to_dict(source).get("password") or ""))
        except (Error, UnicodeError):
            yield source
        yield from _read_url(source)
    yield from _read_url(settings.ollama_url)


def _read_url(url: str) -> Iterator[str]:
    try:
        yield from _spell(urlsplit(url).password or "")
    except ValueError:
        yield url


def _spell(password: str) -> Iterator[str]:
    """A password as it is written, read from a URL, and shown by `repr`."""
    if password:
        yield from (password, unquote(password), repr(password)[1:-1])
