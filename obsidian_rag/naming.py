"""By which words a note is meant inside a sentence: its names without additions, and their parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from obsidian_rag.analysis import analyze

MOST_WORDS = 12  # of a name whose parts are listed
# What stands behind one of these tells things of one name apart: `Mercury (planet)`, `Acme - a startup`.
_ADDITION = re.compile(r"\s+[-–—|·]\s+|\s*[(\[（【]|[:：]\s+|,\s+|\s+#")
_NUMBER = re.compile(r"^(?:\d+(?: |$))+|(?: \d+)+$")


def list_parts(names: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """(kind, name, key) of what names mean besides themselves, each key once.

    `short`: without what stands behind a dash, a colon, a comma or in brackets, or without numbers around;
    `part`: the beginning or the end of the name.
    """
    seen: set[str] = set()
    for name in names:
        whole = analyze(name).key
        head = analyze(_ADDITION.split(name, maxsplit=1)[0]).key
        for key in (head, _NUMBER.sub("", whole), _NUMBER.sub("", head)):
            if key and key != whole and key not in seen:
                seen.add(key)
                yield "short", name, key
        for words in (head.split(), whole.split()):
            for length in range(1, len(words) if len(words) <= MOST_WORDS else 1):
                for key in (" ".join(words[:length]), " ".join(words[-length:])):
                    if key not in seen and not key.replace(" ", "").isdigit():
                        seen.add(key)
                        yield "part", name, key
