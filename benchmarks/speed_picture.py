"""The figures of speed.py as tables, and how they grow with the vault as a picture.

usage: python benchmarks/speed_picture.py FIGURES.json… [--svg benchmarks/speed.svg]

Takes what `speed.py --json` wrote, of one or of several runs; of a figure that occurs twice the later holds.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from speed_figures import Figure, show

WIDTH, HEIGHT, LEFT, RIGHT, TOP = 430, 300, 60, 36, 40  # of a panel, and its margins
COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#8250df", "#bf8700", "#57606a")


@dataclass(frozen=True)
class Curve:
    """One line: the figures of one measure over all made vaults of grown notes."""

    part: str
    what: str
    label: str


@dataclass(frozen=True)
class Panel:
    title: str
    unit: str
    curves: tuple[Curve, ...]


PANELS = (
    Panel(
        "First index, instant embedder",
        "seconds",
        (
            Curve("index", "first index", "obsidian-rag"),
            Curve("peer", "first index, qmd", "qmd"),
        ),
    ),
    Panel(
        "Run after it",
        "seconds",
        (
            Curve("again", "no change", "no change"),
            Curve("peer", "no change, qmd", "no change, qmd"),
            Curve("again", "one changed note", "one changed note"),
            Curve("again", "a renamed folder", "a renamed folder"),
        ),
    ),
    Panel(
        "Tool calls, p95",
        "milliseconds",
        (
            Curve("tools", "hybrid, p95", "hybrid"),
            Curve("tools", "keyword, frequent words, p95", "keyword, frequent words"),
            Curve("tools", "keyword, questions, p95", "keyword, questions"),
            Curve("tools", "vector, p95", "vector"),
            Curve("tools", "graph_search, depth 3, p95", "graph_search, depth 3"),
            Curve("tools", "list_topics, p95", "list_topics"),
        ),
    ),
    Panel(
        "Most memory of the indexer",
        "MB",
        (
            Curve("index", "peak memory of the indexer", "obsidian-rag"),
            Curve("peer", "first index, peak memory, qmd", "qmd"),
        ),
    ),
)


def write_tables(figures: Sequence[Figure]) -> str:
    """One Markdown table for each part: a row for each measure, a column for each vault; bold: bar missed."""
    return "\n\n".join(
        f"### {part}\n\n{_write_table([f for f in figures if f.part == part])}"
        for part in dict.fromkeys(figure.part for figure in figures)
    )


def _write_table(figures: Sequence[Figure]) -> str:
    vaults = list(dict.fromkeys(figure.vault for figure in figures))
    cells = {(figure.what, figure.unit, figure.vault): figure for figure in figures}
    lines = [
        "| | " + " | ".join(vaults) + " | |",
        "| --- |" + " ---: |" * len(vaults) + " --- |",
    ]
    for what, unit in dict.fromkeys((figure.what, figure.unit) for figure in figures):
        row = [cells.get((what, unit, vault)) for vault in vaults]
        bars = dict.fromkeys(f.shown_bar for f in row if f is not None and f.bar is not None)
        shown = (_write_cell(figure) for figure in row)
        lines.append(f"| {what}{f', {unit}' if unit else ''} | {' | '.join(shown)} | {' / '.join(bars)} |")
    return "\n".join(lines)


def _write_cell(figure: Figure | None) -> str:
    if figure is None:
        return ""
    return f"**{show(figure.value)}**" if figure.holds is False else show(figure.value)


def draw(figures: Sequence[Figure]) -> str:
    """The panels as SVG, two beside each other; both axes are logarithmic."""
    rows = -(-len(PANELS) // 2)
    width, height = 2 * WIDTH, rows * HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" font-family="sans-serif" font-size="11" fill="#24292f">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for place, panel in enumerate(PANELS):
        x, y = place % 2 * WIDTH, place // 2 * HEIGHT
        parts.append(f'<g transform="translate({x},{y})">{_draw_panel(panel, figures)}</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _draw_panel(panel: Panel, figures: Sequence[Figure]) -> str:
    lines = {curve: _points(curve, figures) for curve in panel.curves}
    lines = {curve: points for curve, points in lines.items() if points}
    parts = [f'<text x="{LEFT}" y="20" font-weight="bold">{escape(panel.title)}, {panel.unit}</text>']
    points = [point for line in lines.values() for point in line]
    if not points:
        return parts[0]
    across = _Axis([x for x, _ in points], LEFT, WIDTH - RIGHT)
    up = _Axis([y for _, y in points], HEIGHT - 30, TOP + 14 * -(-len(lines) // 2))
    for value in up.marks:
        y = up.place(value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in dict.fromkeys(x for x, _ in sorted(points)):
        x = across.place(value)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 12}" text-anchor="middle">{value:,.0f}</text>')
    for number, (curve, line) in enumerate(lines.items()):
        colour = COLOURS[number]
        places = " ".join(f"{across.place(x):.1f},{up.place(y):.1f}" for x, y in line)
        parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{across.place(x):.1f}" cy="{up.place(y):.1f}" r="3" fill="{colour}"/>'
            for x, y in line
        ]
        at_x, at_y = LEFT + number % 2 * 175, 36 + number // 2 * 14
        parts.append(f'<rect x="{at_x}" y="{at_y - 8}" width="8" height="8" fill="{colour}"/>')
        parts.append(f'<text x="{at_x + 12}" y="{at_y}">{escape(curve.label)}</text>')
    return "\n".join(parts)


def _points(curve: Curve, figures: Iterable[Figure]) -> list[tuple[float, float]]:
    return sorted(
        (float(figure.vault.replace(",", "")), figure.value)
        for figure in figures
        if figure.part == curve.part
        and figure.what == curve.what
        and figure.value > 0
        and figure.vault.replace(",", "").isdigit()
    )


class _Axis:
    """A logarithmic axis from one place to another, in whole powers of ten where it is not the notes'."""

    def __init__(self, values: Sequence[float], first: float, last: float) -> None:
        self._low = math.floor(math.log10(min(values)))
        self._high = max(self._low + 1, math.ceil(math.log10(max(values))))
        self._first, self._last = first, last
        self.marks = [10.0**power for power in range(self._low, self._high + 1)]

    def place(self, value: float) -> float:
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return self._first + share * (self._last - self._first)


def read_figures(files: Iterable[Path]) -> list[Figure]:
    """The figures of several runs; the later of two of the same thing."""
    found: dict[tuple[str, str, str], Figure] = {}
    for file in files:
        for entry in json.loads(file.read_text())["figures"]:
            figure = Figure(**entry)
            found[figure.part, figure.vault, figure.what] = figure
    return list(found.values())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Tables and a picture of what speed.py measured.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--svg", type=Path)
    options = parser.parse_args(arguments)
    figures = read_figures(options.files)
    print(write_tables(figures))
    if options.svg:
        options.svg.write_text(draw(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
