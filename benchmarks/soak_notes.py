"""The notes of soak.py and what is known of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from conftest import VaultFolder

STABLE, CHANGING, MOVING, PASSING = 200, 40, 12, 8  # notes of each kind
COLOURS = ["red", "green", "blue", "black", "white", "brown", "grey", "yellow", "orange", "purple"]


@dataclass
class Truth:
    """The notes of the vault: what each said in which edition, and which editions the index may hold.

    `begun` and `done` are times of the indexer's runs with the edition that they read: one is certainly in
    the index from `done` on, and may be from `begun` on.
    """

    vault: VaultFolder
    chance: random.Random
    edition: int = 0
    begun: list[tuple[float, int]] = field(default_factory=list)
    done: list[tuple[float, int]] = field(default_factory=list)

    def write_all(self) -> None:
        for n in range(STABLE):
            self.vault.write(stable_path(n), stable_text(n))
        self.write_edition()

    def write_edition(self) -> None:
        """What somebody does between two runs: each note that changes is written anew, some move or pass."""
        for n in range(CHANGING):
            self.vault.write(f"Changing/Note {n}.md", changing_text(n, self.edition))
        for n in range(MOVING):
            for path in moving_paths(n):
                (self.vault.root / path).unlink(missing_ok=True)
            self.vault.write(moving_paths(n)[self.edition % 2], f"# Wanderer{n}\n\nIt is wanderer{n}.\n")
        for n in range(PASSING):
            path = f"Passing/Note {n}.md"
            if (self.edition + n) % 3:
                self.vault.write(path, f"# Guest{n}\n\nIt is guest{n}.\n")
            else:
                (self.vault.root / path).unlink(missing_ok=True)

    def editions(self, first: float, last: float) -> range:
        """The editions that an answer to a call of this time may hold."""
        known = [edition for moment, edition in self.done if moment < first]
        possible = [edition for moment, edition in self.begun if moment < last]
        return range(max(known, default=0), max(possible, default=0) + 1)


def stable_path(n: int) -> str:
    return f"Stable/Note {n}.md"


def stable_text(n: int) -> str:
    links = " ".join(f"[[Stable/Note {other}]]" for other in sorted(stable_links(n)))
    return (
        f"---\ntags: [kind{n % 5}]\n---\n# Subject{n}\n\nThe colour of subject{n} is {COLOURS[n % 10]}.\n\n"
        f"## More\n\nIts number is {n * 7919}. See {links}.\n"
    )


def stable_links(n: int) -> set[int]:
    return {(n + 1) % STABLE, (n * 7 + 3) % STABLE} - {n}


def changing_text(n: int, edition: int) -> str:
    parts = "".join(
        f"## Part {part}\n\nTopic{n} of edition x{edition}x, part {part}. {'And more. ' * (edition % 5)}\n\n"
        for part in range(2 + edition % 3)
    )
    return f"# Topic{n}\n\nAll of edition x{edition}x.\n\n{parts}"


def moving_paths(n: int) -> tuple[str, str]:
    return f"Here/Wanderer {n}.md", f"There/Wanderer {n}.md"
