"""The hard vault of compare_tools.py: ordinary notes, and those that programs trip over."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

LONGEST = 500_000  # characters of the longest note
PUMP = "Garden/Pond.md"
MOVED = "Garden/Water/Fish pond.md"
PERSON = "People/Johanna Falk.md"
LINKING = {"Journal/2024-03-02.md", "Projects/Kiln shed.md", "Projects/Choir.md"}
OUTSIDE = "xylographer"  # a word that stands only outside the vault
ORDINARY = 40


# --- the vault


def write_vault(folder: Path) -> None:
    """Forty ordinary notes and some that are not; beside `folder`, the files its symlinks point to."""
    chance = random.Random(7)
    words = [_make_word(chance) for _ in range(600)]
    titles = [f"{words[n].capitalize()} {words[n + 50]}" for n in range(ORDINARY)]
    for title, following in zip(titles, [*titles[1:], titles[0]], strict=True):
        paragraphs = [" ".join(_make_sentence(chance, words) for _ in range(6)) for _ in range(4)]
        text = "\n\n".join([f"# {title}", *paragraphs, f"See [[{following}]]."])
        _write(folder, f"Notes/{title}.md", text + "\n")
    for path, text in _odd_notes(chance, words).items():
        _write(folder, path, text)
    (folder / "Old").mkdir(exist_ok=True)
    (folder / "Old/Latin.md").write_bytes(
        "# Küche\n\nDer Sauerteig steht über Nacht, gluckstein.\n".encode("latin-1")
    )
    (folder / "Old/Wide.md").write_bytes("# Preserves\n\nThe quincejam needs two hours.\n".encode("utf-16"))
    outside = folder.parent / "outside"
    _write(outside, "secret.md", f"# Secret\n\nThe {OUTSIDE} keeps the key under the third stone.\n")
    _write(outside, "folder/inner.md", f"# Inner\n\nA {OUTSIDE} again, in a folder.\n")
    (folder / "Linked.md").symlink_to(outside / "secret.md")
    (folder / "Shared").symlink_to(outside / "folder")


def _odd_notes(chance: random.Random, words: Sequence[str]) -> dict[str, str]:
    line = "- 0{}:15 {}\n"
    log = "".join(line.format(n % 10, _make_sentence(chance, words)) for n in range(LONGEST // 60))
    return {
        PUMP: (
            "---\ntags: [garden]\n---\n# Pond\n\n"
            "## Water\n\nThe water was green in April. Twelve goldfish.\n\n"
            "## Upkeep\n\nChanged the pump's filter on 14 May 2024; the old one was full of duckweed.\n\n"
            "## Plants\n\nTwo water lilies, one of them poor.\n"
        ),
        "厨房/茶.md": (
            "# 茶\n\n昨天晚上我发现绿茶的水温不能超过八十度,否则会发苦。\n\n朋友送的乌龙茶要用沸水冲泡。\n"
        ),
        "Travel/Hội An.md": "# Hội An\n\nCon đường từ sân bay rất dài, nhưng đẹp.\n",
        "Music/Concerts.md": "# Concerts\n\nThe cello concerto of Dvořák, in the town hall.\n",
        "Projects/Kiln.md": (
            '---\ntitle: "Kiln log\ntags: [clay, fire\nstarted: 2024: May\n---\n'
            "# Kiln\n\nBisque firing with quillwort ash.\n"
        ),
        PERSON: "---\naliases: [Hannchen]\n---\n# Johanna Falk\n\n## Address\n\nMill Lane 4, by the weir.\n",
        "Journal/2024-03-02.md": "Met [[Johanna Falk|Hannchen]] at the market.\n",
        "Projects/Kiln shed.md": "Bricks come from [[Johanna Falk#Address]].\n\nWater is at the [[Pond]].\n",
        "Projects/Choir.md": "Tenor: [Johanna](../People/Johanna%20Falk.md). No more.\n",
        "Log/Long.md": "# Long\n\n" + log[:LONGEST] + "\n## Last\n\nThe end of it: zwieback.\n",
    }


def _write(folder: Path, path: str, text: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text, encoding="utf-8")


def _make_word(chance: random.Random) -> str:
    return "".join(
        chance.choice("bdfgklmnprstv") + chance.choice("aeiou") for _ in range(chance.randint(2, 4))
    )


def _make_sentence(chance: random.Random, words: Sequence[str]) -> str:
    small = ("the", "of", "when", "I", "in", "was", "did", "a")
    middle = " ".join(chance.choice(words if turn % 2 else small) for turn in range(8))
    return f"{chance.choice(words).capitalize()} {middle} {chance.choice(words)}."


# --- the model server
