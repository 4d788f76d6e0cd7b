"""Compare the links of a vault with a reference: precision, recall, and every difference.

    python benchmarks/compare_links.py VAULT EDGES.tsv [LINKS.jsonl] [--variant crlf-bom|nfd]

EDGES.tsv has a row for each pair of source and target file: both paths and how many links lead from one to
the other. LINKS.jsonl has a row for each distinct link as it is written: `source`, `target_name`, `kind`
("frontmatter" is a property), `heading`, `block`, `line`, `count`, `resolved_path`, and `uncertain`, a list
of reasons why an implementation may decide either way; such links are left out on both sides. With
`--variant` a copy of the vault is compared whose notes have a BOM and CRLF line ends, or whose names are all
in NFD.

Exit status 0 means that precision and recall are 1 for all edges and that no link differs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from obsidian_rag.links import LinkResolver
from obsidian_rag.models import Link
from obsidian_rag.notes import parse_note
from obsidian_rag.vault import decode, read_note_bytes, walk

Edges = Counter[tuple[str, str]]
Row = tuple[str, str, str, str | None, str | None, str | None]


def main(arguments: list[str] | None = None) -> int:
    """Print the comparison; 0 where nothing differs."""
    parser = argparse.ArgumentParser(description="Compare the links of a vault with a reference.")
    parser.add_argument("vault", type=Path)
    parser.add_argument("edges", type=Path)
    parser.add_argument("links", type=Path, nargs="?")
    parser.add_argument("--variant", choices=("crlf-bom", "nfd"))
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        vault = options.vault
        if options.variant:
            vault = Path(folder) / "vault"
            make_variant(options.vault, vault, options.variant)
        found = read_vault(vault)
    rows = read_links(options.links) if options.links else []
    skipped = {(row["source"], row["target_name"]) for row in rows if row["uncertain"]}
    found = [entry for entry in found if (entry[0], to_nfc(entry[1].target)) not in skipped]
    edges, wanted = count_edges(found), read_edges(options.edges)
    for row in rows:
        if row["uncertain"] and row["resolved_path"] is not None:
            wanted[row["source"], row["resolved_path"]] -= row["count"]
    wanted = +wanted
    same = report("note-to-note edges", only_notes(edges), only_notes(wanted))
    same &= report("all edges", edges, wanted)
    if rows:
        same &= compare_rows(found, rows)
    return 0 if same else 1


def read_vault(root: Path) -> list[tuple[str, Link, str | None]]:
    """Every link of a vault with its source and the path it leads to; paths in NFC."""
    listing = walk(root)
    notes = [parse_note(file.path, decode(read_note_bytes(root, file.path))[0]) for file in listing.notes]
    resolver = LinkResolver([note.file_path for note in notes] + list(listing.attachments))
    found = []
    for note in notes:
        for link in note.links:
            path = resolver.resolve(link.target, note.file_path, link.kind).path
            found.append((to_nfc(note.file_path), link, None if path is None else to_nfc(path)))
    return found


def count_edges(found: Iterable[tuple[str, Link, str | None]]) -> Edges:
    """How many links lead from each file to each file."""
    edges: Edges = Counter()
    for source, link, path in found:
        if path is not None:
            edges[source, path] += link.count
    return edges


def read_edges(file: Path) -> Edges:
    """The edges of a reference."""
    edges: Edges = Counter()
    for line in file.read_text(encoding="utf-8").splitlines():
        source, target, count = line.split("\t")
        edges[to_nfc(source), to_nfc(target)] += int(count)
    return edges


def read_links(file: Path) -> list[dict[str, Any]]:
    """The links of a reference."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
    for row in rows:
        for key in ("source", "resolved_path", "target_name"):
            row[key] = None if row[key] is None else to_nfc(row[key])
    return rows


def only_notes(edges: Edges) -> Edges:
    """Edges between two different notes."""
    return Counter(
        {
            (source, target): count
            for (source, target), count in edges.items()
            if target.lower().endswith(".md") and source != target
        }
    )


def report(name: str, edges: Edges, wanted: Edges) -> bool:
    """Print precision, recall and what differs; whether nothing does."""
    right = len(edges.keys() & wanted.keys())
    precision = right / len(edges) if edges else 1.0
    recall = right / len(wanted) if wanted else 1.0
    counts = [pair for pair in edges.keys() & wanted.keys() if edges[pair] != wanted[pair]]
    print(f"{name}: {len(wanted)} wanted, {len(edges)} found, precision {precision:.3f}, recall {recall:.3f}")
    for mark, pairs in (("+", edges.keys() - wanted.keys()), ("-", wanted.keys() - edges.keys())):
        for source, target in sorted(pairs):
            print(f"  {mark} {source} -> {target}")
    for source, target in sorted(counts):
        counted = edges[source, target], wanted[source, target]
        print(f"  # {source} -> {target}: {counted[0]} links instead of {counted[1]}")
    return edges == wanted


def compare_rows(found: Iterable[tuple[str, Link, str | None]], rows: list[dict[str, Any]]) -> bool:
    """Whether each link is found as often, of the same kind, with the same part, in the block it stands in.

    A reference gives the first line of the paragraph or properties that hold a link; ours is its own line.
    """
    certain = [row for row in rows if not row["uncertain"]]
    wanted = merge((make_row(row), row["line"], row["count"]) for row in certain)
    ours = merge((_row_of(source, link, path), link.line, link.count) for source, link, path in found)
    same = True
    print(f"links: {len(wanted)} wanted, {len(ours)} found")
    for row in sorted(ours.keys() | wanted.keys(), key=str):
        one, other = ours.get(row), wanted.get(row)
        if one is None or other is None or one[0] < other[0] or one[1] != other[1]:
            print(f"  {row}: (line, count) {one} instead of {other}")
            same = False
    return same


def merge(links: Iterable[tuple[Row, int, int]]) -> dict[Row, tuple[int, int]]:
    """Links that differ in their display text or property only, as one: first line, how often."""
    merged: dict[Row, tuple[int, int]] = {}
    for row, line, count in links:
        known = merged.get(row)
        merged[row] = (line, count) if known is None else (min(line, known[0]), count + known[1])
    return merged


def make_row(row: dict[str, Any]) -> Row:
    """A reference's link as compared."""
    kind = "property" if row["kind"] == "frontmatter" else row["kind"]
    return (row["source"], row["target_name"], kind, row["heading"], row["block"], row["resolved_path"])


def _row_of(source: str, link: Link, path: str | None) -> Row:
    kind = "embed" if link.kind == "markdown_embed" else link.kind
    return (source, to_nfc(link.target), kind, link.heading, link.block, path)


def make_variant(vault: Path, copy: Path, variant: str) -> None:
    """Copy a vault with a BOM and CRLF line ends in every note, or with every name in NFD."""
    if variant == "crlf-bom":
        shutil.copytree(vault, copy, symlinks=True)
        for note in copy.rglob("*.[mM][dD]"):
            if note.is_file():
                note.chmod(0o600)
                data = note.read_bytes().removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
                note.write_bytes(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"))
        return
    for file in vault.rglob("*"):
        target = copy / unicodedata.normalize("NFD", file.relative_to(vault).as_posix())
        if file.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


def to_nfc(path: str) -> str:
    """A path in the spelling that both sides are compared in."""
    return unicodedata.normalize("NFC", path)


if __name__ == "__main__":
    sys.exit(main())
