"""Whatever happens to a vault, an incremental run gives the index that a first run would give."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import VaultFolder, Workbench

NAMES = ["Alpha", "beta", "Gamma ray", "Delta", "épsilon", "Zeta", "Ключ"]
FOLDERS = ["", "Projects/", "Projects/Deep/", "people/", "Архив/"]
WORDS = ["pump", "garden", "bread", "river", "stone", "letter", "window", "music", "engine", "cloud"]


class Gardener:
    """Somebody who changes a vault at random, always the same way for a seed."""

    def __init__(self, vault: VaultFolder, seed: int) -> None:
        self.vault = vault
        self.chance = random.Random(seed)

    def notes(self) -> list[Path]:
        return sorted(self.vault.root.rglob("*.md"))

    def any_note(self) -> Path | None:
        notes = self.notes()
        return self.chance.choice(notes) if notes else None

    def new_place(self) -> Path:
        name = f"{self.chance.choice(NAMES)}{self.chance.choice(['', ' 2', ' 3'])}.md"
        place = self.vault.root / self.chance.choice(FOLDERS) / name
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def section(self) -> str:
        words = " ".join(self.chance.choices(WORDS, k=self.chance.randrange(1, 12)))
        heading = self.chance.choice(["", f"## {self.chance.choice(WORDS)}\n\n"])
        link = self.chance.choice(
            ["", f" [[{self.chance.choice(NAMES)}]]", f" ![[{self.chance.choice(WORDS)}]]"]
        )
        return f"{heading}{words}{link}\n\n"

    def text(self) -> str:
        alias = f"---\naliases: [{self.chance.choice(WORDS)}]\n---\n" if self.chance.random() < 0.3 else ""
        return alias + "".join(self.section() for _ in range(self.chance.randrange(0, 5)))

    def change(self) -> None:
        step = self.chance.choice(
            [self.write, self.write, self.append, self.rename, self.rename, self.swap, self.copy, self.delete,
             self.move_section, self.rename_folder, self.rename_in_case, self.exclude]
        )  # fmt: skip
        step()

    def write(self) -> None:
        self.new_place().write_text(self.text(), "utf-8")

    def append(self) -> None:
        if note := self.any_note():
            note.write_text(note.read_text("utf-8") + self.section(), "utf-8")

    def rename(self) -> None:
        if note := self.any_note():
            note.rename(self.new_place())

    def rename_in_case(self) -> None:
        if note := self.any_note():
            note.rename(note.with_name(note.name.swapcase()))

    def swap(self) -> None:
        one, other = self.any_note(), self.any_note()
        if one and other and one != other:
            text = one.read_text("utf-8")
            one.write_text(other.read_text("utf-8"), "utf-8")
            other.write_text(text, "utf-8")

    def copy(self) -> None:
        if note := self.any_note():
            target = self.new_place()
            if target != note:
                shutil.copyfile(note, target)

    def delete(self) -> None:
        if note := self.any_note():
            note.unlink()

    def move_section(self) -> None:
        one, other = self.any_note(), self.any_note()
        if one and other and one != other:
            head, _, tail = one.read_text("utf-8").partition("## ")
            one.write_text(head, "utf-8")
            other.write_text(other.read_text("utf-8") + (f"## {tail}" if tail else ""), "utf-8")

    def rename_folder(self) -> None:
        folders = sorted(f for f in self.vault.root.iterdir() if f.is_dir() and not f.name.startswith("."))
        if folders:
            folder = self.chance.choice(folders)
            folder.rename(folder.with_name(f"{folder.name[:20]}{self.chance.randrange(1000)}"))

    def exclude(self) -> None:
        filters = self.chance.choice(["[]", '["people/"]', '["/Gamma/"]'])
        self.vault.write(".obsidian/app.json", f'{{"userIgnoreFilters": {filters}}}')


@pytest.mark.parametrize("seed", range(6))
def test_any_sequence_of_changes_ends_in_the_index_of_a_full_run(
    bench: Workbench, new_bench: Callable[[VaultFolder], Workbench], seed: int
) -> None:
    gardener = Gardener(bench.vault, seed)
    for _ in range(12):
        gardener.write()
    bench.index()
    for _ in range(6):
        for _ in range(gardener.chance.randrange(1, 8)):
            gardener.change()
        bench.vault.write("Stays.md", "One note is always there: [[Alpha]].\n")
        known = set(bench.rows("SELECT content_hash FROM documents"))
        bench.ollama.forget()

        report = bench.index(full=gardener.chance.random() < 0.2)

        assert report.status == "ok"
        new = set(bench.rows("SELECT content_hash FROM documents")) - known
        assert len(bench.ollama.texts) == len(new), "text that was known was embedded again"
        assert bench.index().notes_unchanged == report.notes_seen
    fresh = new_bench(bench.vault)
    fresh.index()
    assert bench.tables() == fresh.tables()
