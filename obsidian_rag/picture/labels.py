"""Names and link types as text in a picture: how wide it is, where it breaks, where there is room for it."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

NARROW, WIDE_LATIN = frozenset("iljtfrI.,:;'|!()[] "), frozenset("mwMW@%")


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle by its middle."""

    x: float
    y: float
    width: float
    height: float

    def covers(self, other: Box) -> bool:
        """Whether the two have any area in common."""
        return (
            abs(self.x - other.x) * 2 < self.width + other.width
            and abs(self.y - other.y) * 2 < self.height + other.height
        )


def measure(text: str) -> float:
    """About how wide a text is, in em: no font is at hand, so rather too wide than too narrow."""
    return sum(map(_measure_sign, text))


def _measure_sign(sign: str) -> float:
    if unicodedata.combining(sign) or unicodedata.category(sign) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(sign) in "WF" or ord(sign) > 0xFFFF:
        return 1.05
    if sign in NARROW:
        return 0.34
    if sign in WIDE_LATIN or not sign.isascii():
        return 0.86 if sign in WIDE_LATIN else 0.68
    return 0.7 if sign.isupper() else 0.58


def wrap(text: str, width: float, lines: int) -> list[str]:
    """A text in at most `lines` lines of at most `width` em, broken between words where that is possible;
    what does not fit ends in an ellipsis.
    """
    rest, wrapped = " ".join(text.split()), list[str]()
    while rest and len(wrapped) < lines - 1:
        cut = _fitting(rest, width)
        if cut < len(rest):
            space = rest.rfind(" ", 1, cut + 1)
            dash = max(rest.rfind(sign, 1, cut) for sign in "-/_·") + 1
            cut = max(space, dash) if max(space, dash) > cut // 3 else cut
        wrapped.append(rest[:cut].strip())
        rest = rest[cut:].strip()
    if rest:
        cut = _fitting(rest, width)
        wrapped.append(rest if cut == len(rest) else rest[: _fitting(rest, width - 1)].rstrip() + "…")
    return wrapped


def _fitting(text: str, width: float) -> int:
    """How many first characters fit, at least one; none that belongs to the one before is parted from it."""
    used = 0.0
    for n, sign in enumerate(text):
        used += _measure_sign(sign)
        if used > width and n:
            while n > 1 and (_measure_sign(text[n]) == 0.0 or text[n - 1] == "\N{ZERO WIDTH JOINER}"):
                n -= 1
            return n
    return len(text)


def find_room(candidates: Sequence[Box], taken: Sequence[Box]) -> Box | None:
    """The first candidate that covers nothing taken."""
    return next((box for box in candidates if not any(box.covers(other) for other in taken)), None)
