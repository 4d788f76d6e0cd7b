"""Text of notes on a terminal: nothing in it may move the cursor, change colours or turn the line round."""

from __future__ import annotations

import re

# What a terminal obeys and what turns the direction of the text after it; line ends and tabs are laid out.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def show_text(text: str) -> str:
    """Text of several lines with what a terminal would obey as `\\x1b`."""
    return _CONTROLS.sub(_escape, text.replace("\r\n", "\n"))


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
