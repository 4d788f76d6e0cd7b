"""Links: what a written one says, and which file it leads to, by Obsidian's rules."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from urllib.parse import unquote_to_bytes

from obsidian_rag.models import Link, LinkKind, Resolution

_SIZE = re.compile(r"\d+(?:x\d+)?")
_ESCAPE = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
# `decodeURI` of JavaScript leaves these encoded: they would change how the address is split.
_RESERVED = frozenset(";/?:@&=+$,#")
# Parts of these are a page or a time, not a heading.
_MEDIA = re.compile(
    r"\.(?:pdf|avif|bmp|gif|jpe?g|png|svg|webp|flac|m4a|mp3|ogg|wav|webm|3gp|mkv|mov|mp4|ogv)$", re.IGNORECASE
)
LONGEST_PART = 765  # characters of a file's or folder's name, decomposed; systems take 255 composed ones
_UNRESOLVED = Resolution(None, "unresolved")
_NO_ALIASES: Mapping[str, Iterable[str]] = MappingProxyType({})


def read_wikilink(
    inner: str, kind: LinkKind = "wikilink", *, line: int = 1, property: str | None = None
) -> Link | None:
    """The link that `[[inner]]` is; None for a blank one, which is text."""
    bar = inner.find("|", 1)
    path, display = (inner[:bar], inner[bar + 1 :].strip()) if bar > 0 else (inner, "")
    if bar > 0 and path.endswith("\\"):
        path = path[:-1]  # in a table the bar is written `\|`
    if not path.strip():
        return None
    target, heading, block = _split_path(path)
    if kind == "embed":
        display = _drop_size(display)
    return Link(kind, target, heading, block, display or None, property, line)


def read_markdown_link(
    destination: str, label: str, kind: LinkKind = "markdown", *, line: int = 1
) -> Link | None:
    """The link that `[label](destination)` is, its escapes resolved; None for an external one."""
    destination = destination.strip()
    if not destination or (":" in destination and not destination.startswith(("./", "../"))):
        return None
    target, heading, block = _split_path(decode_uri(destination))
    display = " ".join(label.split())
    if kind == "markdown_embed":
        display = _drop_size(display)
    return Link(kind, target, heading, block, display or None, None, line)


def _split_path(path: str) -> tuple[str, str | None, str | None]:
    target, _, subpath = path.partition("#")
    target, subpath = target.strip(), subpath.strip()
    if _MEDIA.search(target):
        return target, None, None
    heading, mark, block = subpath.rpartition("^")
    if mark and (not heading or heading.endswith("#")):
        return target, heading.rstrip("#").strip() or None, block.strip() or None
    return target, subpath or None, None


def _drop_size(display: str) -> str:
    words, _, last = display.rpartition("|")
    return words.strip() if _SIZE.fullmatch(last.strip()) else display


def decode_uri(address: str) -> str:
    """JavaScript's `decodeURI`: percent escapes decoded but for reserved characters.

    An address with an escape that is none, or is not UTF-8, is returned as it is.
    """
    if "%" not in address:
        return address
    if re.search(r"%(?![0-9A-Fa-f]{2})", address):
        return address
    try:
        return _ESCAPE.sub(_decode_escapes, address)
    except UnicodeDecodeError:
        return address


def _decode_escapes(match: re.Match[str]) -> str:
    text = unquote_to_bytes(match.group()).decode("utf-8")
    return "".join(f"%{ord(c):02X}" if c in _RESERVED else c for c in text)


def normalize_name(name: str) -> str:
    """A name or path as names are compared: NFC, a no-break space as a space, without case."""
    if name.isascii():
        return name.lower()
    name = unicodedata.normalize("NFC", name).replace("\xa0", " ").replace("\u202f", " ")
    return unicodedata.normalize("NFC", name.lower())


class LinkResolver:
    """Finds the file a link leads to, as Obsidian's `getFirstLinkpathDest` does.

    `files` are the paths of all files of a vault, notes and attachments. `aliases` gives the other names of
    notes, which Obsidian does not look at: they only answer where no file does.
    """

    def __init__(self, files: Iterable[str], aliases: Mapping[str, Iterable[str]] = _NO_ALIASES) -> None:
        self._by_name: dict[str, list[tuple[str, str]]] = {}
        for path in files:
            normal = normalize_name(path)
            self._by_name.setdefault(normal.rpartition("/")[2], []).append((normal, path))
        self._by_alias: dict[str, list[tuple[str, str]]] = {}
        for path, names in aliases.items():
            for alias in {normalize_name(name.strip()) for name in names}:
                self._by_alias.setdefault(alias, []).append((normalize_name(path), path))

    def resolve(self, target: str, source: str, kind: LinkKind = "wikilink") -> Resolution:
        """Where a link of the note `source` leads. A Markdown link names a path, so no alias answers it."""
        if not target:
            return Resolution(source, "note", "name")
        if any(len(part) > LONGEST_PART for part in target.split("/")):
            return _UNRESOLVED
        link = normalize_name(target)
        folder = normalize_name(source).rpartition("/")[0]
        if path := self._find_file(link, folder):
            return Resolution(path, "note" if path.lower().endswith(".md") else "attachment", "name")
        if kind not in ("markdown", "markdown_embed") and (named := self._by_alias.get(link)):
            return Resolution(_choose(named, folder), "note", "alias")
        return _UNRESOLVED

    def _find_file(self, link: str, folder: str) -> str | None:
        name = link.rpartition("/")[2]
        candidates = self._by_name.get(name) if "." in name else None
        candidates = candidates or self._by_name.get(name + ".md")
        if not candidates:
            return None
        if len(candidates) == 1 and "/" not in link:
            return candidates[0][1]
        if link.startswith(("./", "../")):
            link = _join(folder, link)
            return _find_exact(candidates, link) or _find_suffix(candidates, link, folder)
        if exact := _find_exact(candidates, link.removeprefix("/")):
            return exact
        return None if link.startswith("/") else _find_suffix(candidates, link, folder)


def _join(folder: str, link: str) -> str:
    """A relative path from a folder; going up stops at the vault's root."""
    parts = folder.split("/") if folder else []
    while link.startswith(("./", "../")):
        step, _, link = link.partition("/")
        if step == ".." and parts:
            parts.pop()
    return "/".join([*parts, link])


def _find_exact(candidates: list[tuple[str, str]], link: str) -> str | None:
    found = [entry for entry in candidates if entry[0] in (link, link + ".md")]
    # Paths that differ in case only: the one earlier in the alphabet, so that every run says the same.
    return min(found)[1] if found else None


def _find_suffix(candidates: list[tuple[str, str]], link: str, folder: str) -> str | None:
    endings = (f"/{link}", f"/{link}.md")
    found = [entry for entry in candidates if f"/{entry[0]}".endswith(endings)]
    return _choose(found, folder) if found else None


def _choose(found: list[tuple[str, str]], folder: str) -> str:
    """The one below the source's folder, else any; of several the shortest path, as JavaScript counts."""
    near = [entry for entry in found if not folder or entry[0].startswith(folder + "/")]
    return min(near or found, key=lambda entry: (_count_units(entry[0]), entry))[1]


def _count_units(text: str) -> int:
    return len(text) + sum(1 for character in text if character > "\uffff")
