"""Priors: what speaks for or against a note beside its match. Its folder, and how many notes link to it.

A factor multiplies the strength of a note's match in each list, before lists are fused by rank. It is not put
on the fused score: there a rank is worth 1 to 2 %, so that 1.1 would lift the tenth note to the fourth place
however weak its match. On strengths, a factor of 1.1 passes what matches less than 10 % better.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from obsidian_rag.config import Boost
from obsidian_rag.postgres import Connection
from obsidian_rag.search.query import Intent, Request

# Many links are a sign of a note's weight and of its vagueness alike: any more than this gained on questions
# about people and companies and cost on questions about concepts. So it decides between near ties alone.
POPULARITY = 0.001
MANY_LINKS = 32  # as many as any more
# What a place is worth in a list that has no strengths, as a share of the place before.
A_PLACE = 0.98

# `Archive`, `archives`, `99 Archive`, `4-Archives`, `_archive`.
_ARCHIVE = re.compile(r"[\W\d_]*archives?[\W_]*", re.IGNORECASE)

# Of a note that everything links to, more than so many rows tell nothing new.
INBOUND = """
SELECT path, n.links FROM unnest(%(paths)s::text[]) AS path CROSS JOIN LATERAL (
    SELECT count(DISTINCT source_path) AS links FROM (
        SELECT source_path FROM note_links
        WHERE target_path = path AND target_type = 'note' AND source_path <> path
        LIMIT %(most)s) AS l) AS n
WHERE n.links > 0
"""


@dataclass(frozen=True, slots=True)
class Prior:
    """Of one note: the factor of its folder, named as in the setting or, for an archive, as in the vault; and
    how many notes link to it. A factor of 1 and no links change nothing.
    """

    factor: float = 1.0
    folder: str = ""
    is_archive: bool = False
    links: int = 0

    def weigh(self, strength: float) -> float:
        """A match's strength, 0 for a text that has nothing to do with the query, under this prior."""
        popularity = min(1.0, math.log1p(self.links) / math.log1p(MANY_LINKS))
        factor = self.factor * (1 + POPULARITY * popularity)
        return strength * factor if strength >= 0 else strength / factor

    def __str__(self) -> str:
        parts = []
        if self.factor != 1:
            kind = "archive" if self.is_archive else "boost"
            parts.append(f"{kind} {self.folder} × {self.factor:g}")
        if self.links:
            count = f"{MANY_LINKS} or more" if self.links >= MANY_LINKS else str(self.links)
            parts.append(f"{count} {'note links' if self.links == 1 else 'notes link'} to it")
        return ", ".join(parts)


Priors = Mapping[str, Prior]


def find_priors(conn: Connection, request: Request, intent: Intent, paths: Sequence[str]) -> dict[str, Prior]:
    """The priors of those of the notes that have one. None at all for a question about a time: what was
    archived then is what is asked for.
    """
    if not uses_priors(request, intent):
        return {}
    links = {} if "popularity" in request.without else count_inbound(conn, paths)
    found: dict[str, Prior] = {}
    for path in paths:
        prior, linked = find_prior(path, request), links.get(path, 0)
        if linked or prior.factor != 1:
            found[path] = replace(prior, links=linked)
    return found


def uses_priors(request: Request, intent: Intent) -> bool:
    """Whether folders and links count for this request."""
    return intent != "temporal" and "priors" not in request.without


def find_prior(path: str, request: Request) -> Prior:
    """The factor of the innermost folder of a note that has one. A boost counts before what the same folder
    has as an archive, and one that was asked for before that of the settings.
    """
    boosts = _fold_boosts(request.usual_boosts + request.boosts)
    parts = path.split("/")
    folded = fold(path).split("/")
    for depth in range(len(parts), 0, -1):
        boost = boosts.get("/".join(folded[:depth]))
        if boost:
            return Prior(boost[1], boost[0])
        if depth < len(parts) and _ARCHIVE.fullmatch(parts[depth - 1]):
            return Prior(request.archive, "/".join(parts[:depth]), is_archive=True)
    return Prior()


@lru_cache(maxsize=16)  # asked for every note of an answer
def _fold_boosts(boosts: tuple[Boost, ...]) -> Mapping[str, Boost]:
    """Boosts by folded folder; of two for one folder the later."""
    return {fold(folder): (folder, factor) for folder, factor in boosts}


def find_idle(conn: Connection, boosts: Sequence[Boost]) -> list[str]:
    """The folders among these in which no note lies, most likely misspelt."""
    if not boosts:
        return []
    paths = [fold(path) for (path,) in conn.execute("SELECT file_path FROM notes").fetchall()]
    starts = {folder: f"{fold(folder)}/" for folder, _ in boosts}
    return [
        folder for folder, start in starts.items() if not any(f"{path}/".startswith(start) for path in paths)
    ]


def count_inbound(conn: Connection, paths: Sequence[str]) -> dict[str, int]:
    """How many other notes link to each of these, at most about 3 * MANY_LINKS; those that none links to are
    left out.
    """
    return dict(conn.execute(INBOUND, {"paths": list(paths), "most": 3 * MANY_LINKS}).fetchall())


def weigh_list(paths: Sequence[str], strengths: Mapping[str, float], priors: Priors) -> list[str]:
    """A list, best first, in the order that the strengths have under the priors."""
    none = Prior()
    return sorted(paths, key=lambda path: -priors.get(path, none).weigh(strengths[path]))


def grade(paths: Sequence[str]) -> dict[str, float]:
    """Strengths for a list that is only an order."""
    return {path: A_PLACE**place for place, path in enumerate(paths)}


def fold(path: str) -> str:
    """A path for comparison: without regard to case and to how accents are encoded."""
    return unicodedata.normalize("NFC", path).casefold()
