"""The bytes of a file as text."""

from __future__ import annotations

import codecs
import re

from obsidian_rag.errors import NoteError

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
REPLACEMENT = "\ufffd"
MAX_LINES = 200_000
"""Lines of a note: what a parser keeps of each takes up to 1.5 KB."""
# What no text file holds in number: control characters other than tab, line ends, form feed and escape.
_CONTROL = re.compile("[\x01-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_RESTORE = "Give it another ending than .md, or restore it from a backup."
_MEND = "Convert it to UTF-8, for example with: iconv -f OLD_ENCODING -t utf-8 NOTE.md > NEW.md"


def decode(data: bytes) -> tuple[str, tuple[str, ...]]:
    """The text of a note with "\\n" line ends, without BOM and NUL, and what had to be mended in it.

    UTF-8, UTF-16 and UTF-32 by their BOM, UTF-16 without one where every other byte is NUL. Single bytes that
    are not UTF-8 become U+FFFD with a warning, as they look in Obsidian. Raises NoteError where more than a
    tenth of a file is not text, or where it has more lines than a note can have.
    """
    warnings: list[str] = []
    encoding, start = _detect_encoding(data)
    if encoding == "utf-8":
        text = data[start:].decode("utf-8", errors="replace")
    else:
        text = data[start:].decode(encoding, errors="replace")
        warnings.append(f"The file is {encoding.upper()}, which Obsidian does not read. {_MEND}")
    if REPLACEMENT in text or "\0" in text:
        warnings += _describe_damage(data[start:], text, encoding)
        text = text.replace("\0", REPLACEMENT)
    elif _is_binary(text, 0):
        raise NoteError("The file is not text", _RESTORE)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.count("\n") + 1
    if lines > MAX_LINES:
        raise NoteError(
            f"The file has {lines:,} lines; a note has at most {MAX_LINES:,}",
            "Split it, or give it another ending than .md.",
        )
    return text, tuple(warnings)


def _detect_encoding(data: bytes) -> tuple[str, int]:
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return encoding, len(bom)
    # Latin text in UTF-16 has a NUL as every second byte; no other text has.
    sample = data[:4096]
    if len(sample) >= 8 and len(data) % 2 == 0 and b"\0" in sample:
        even, odd = sample[0::2].count(0), sample[1::2].count(0)
        half = len(sample) // 2
        if odd > 0.6 * half and even < 0.05 * half:
            return "utf-16-le", 0
        if even > 0.6 * half and odd < 0.05 * half:
            return "utf-16-be", 0
    return "utf-8", 0


def _describe_damage(data: bytes, text: str, encoding: str) -> list[str]:
    nuls = text.count("\0")
    first_bad, bad = _find_bad_bytes(data, text, encoding)
    if _is_binary(text, bad + nuls):
        if nuls == len(text):
            raise NoteError("The file holds nothing but NUL bytes", "Restore it from a backup.")
        if nuls:
            raise NoteError("The file is not text", _RESTORE)
        raise NoteError(f"The file is not {encoding.upper()}: bytes in {bad} places cannot be read", _MEND)
    found = []
    if bad:
        found.append(
            f"The file is not {encoding.upper()}: bytes in {bad} places cannot be read, the first in line "
            f"{_count_lines(data[:first_bad].decode(encoding))}; they show as {REPLACEMENT}. {_MEND}"
        )
    if nuls:
        line = _count_lines(text[: text.index("\0")])
        found.append(
            f"NUL characters in {nuls} places, the first in line {line}, were replaced by {REPLACEMENT}."
        )
    return found


def _find_bad_bytes(data: bytes, text: str, encoding: str) -> tuple[int, int]:
    """Where the first byte is that cannot be read, and how many places there are."""
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        # A replacement character that stands in the file as such is the person's own.
        own = data.decode(encoding, errors="ignore").count(REPLACEMENT)
        return error.start, text.count(REPLACEMENT) - own
    return 0, 0


def _count_lines(text: str) -> int:
    return 1 + len(re.findall(r"\r\n|\r|\n", text))


def _is_binary(text: str, bad: int) -> bool:
    strange = bad + len(_CONTROL.findall(text))
    return strange > 8 and strange * 10 > len(text)
