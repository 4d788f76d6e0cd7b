"""The day a note is about, as it says itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any

_DAY = re.compile(r"(?<!\d)((?:19|20)\d\d)-?(0[1-9]|1[0-2])-?([0-2]\d|3[01])(?!\d)")
DATE_PROPERTIES = ("date", "day", "created", "date created", "created_at", "creation date")


def find_note_date(title: str, front_matter: Mapping[str, Any]) -> date | None:
    """A date property, else a date in the note's name, else None: then only the file's time tells."""
    for name in DATE_PROPERTIES:
        value = front_matter.get(name)
        match = _DAY.match(value.strip()) if isinstance(value, str) else None
        if match and (found := make_date(*match.groups())):
            return found
    match = _DAY.search(title)
    return make_date(*match.groups()) if match else None


def make_date(year: str, month: str, day: str) -> date | None:
    """A date from its digits; None for a day that is not in the calendar."""
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None
