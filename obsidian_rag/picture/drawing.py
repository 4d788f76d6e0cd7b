"""A picture's shapes before they are written as SVG: notes at their places, links as curves around them.

Lengths are in units of the picture, y grows downward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from obsidian_rag.picture import Picture, PictureLink, PictureNote
from obsidian_rag.picture.labels import Box, find_room, measure, wrap
from obsidian_rag.picture.layout import lay_out

NAME_SIZE, KIND_SIZE = 12.5, 10.5  # font sizes; the middle's name is larger
MIDDLE_SIZE = 1.15
NAME_WIDTH, NAME_LINES = 10.5, 2  # em
NAME_WIDTH_OF_MANY, MANY = 8.5, 100  # notes: names are shorter so that they can be larger
LINE = 15.0  # from one line of a name to the next
BESIDE, ABOVE, BELOW = 8.0, 3.0, 10.0  # what the room of a note has around circle and name
START, ARROW = 2.0, 8.0  # from a note to where a link begins, and to where its line ends in an arrow head
BEND = 26.0  # how far two links between the same notes part
ASIDE = 5.0  # between a link and a note that it is none of
ALONG = (0.5, 0.42, 0.58, 0.34, 0.66, 0.27, 0.73)  # where on a link its type is tried
STEPS = 48  # points by which a link is followed

Floats = NDArray[np.float64]
Point = tuple[float, float]
Curve = tuple[Point, Point, Point]  # a quadratic one: start, control point, end


@dataclass(frozen=True, slots=True)
class DrawnNote:
    """A note as it is drawn: a circle with its name below, within `box`."""

    note: PictureNote
    lines: tuple[str, ...]
    box: Box
    radius: float

    @property
    def middle(self) -> Point:
        """Of the circle."""
        return self.box.x, round(self.box.y - self.box.height / 2 + self.radius + ABOVE, 1)


@dataclass(frozen=True, slots=True)
class DrawnLink:
    """A link as it is drawn. `kind` is what is written on it, at `label`; `is_free` says whether there it
    covers nothing else.
    """

    link: PictureLink
    curve: Curve
    kind: str
    label: Box
    is_free: bool


def draw_notes(picture: Picture) -> list[DrawnNote]:
    """Every note at its place, with the room that its name needs."""
    degrees = [0] * len(picture.notes)
    for link in picture.links:
        degrees[link.source] += 1
        degrees[link.target] += 1
    most = NAME_WIDTH if len(picture.notes) < MANY else NAME_WIDTH_OF_MANY
    lines = [tuple(wrap(note.title, most + 3 * (note.hop == 0), NAME_LINES)) for note in picture.notes]
    radii = [12.0 if not n else min(10.0, 4.5 + 1.1 * math.sqrt(degree)) for n, degree in enumerate(degrees)]
    sizes = []
    for name, radius, note in zip(lines, radii, picture.notes, strict=True):
        size = NAME_SIZE * (MIDDLE_SIZE if note.hop == 0 else 1.0)
        width = max(max(map(measure, name), default=0) * size, 2 * radius) + 2 * BESIDE
        height = ABOVE + 2 * radius + ABOVE + len(name) * LINE + BELOW
        sizes.append((round(width, 1), round(height, 1)))
    places = lay_out(
        sizes,
        [note.hop for note in picture.notes],
        picture.parents,
        [(link.source, link.target) for link in picture.links],
    )
    return [
        DrawnNote(note, name, Box(x, y, *size), round(radius, 1))
        for note, name, (x, y), size, radius in zip(picture.notes, lines, places, sizes, radii, strict=True)
    ]


def draw_links(picture: Picture, notes: Sequence[DrawnNote]) -> list[DrawnLink]:
    """Every link as a curve that goes around other notes where it can, with its type where there is room."""
    outlines = Outlines(notes)
    both = {(link.source, link.target) for link in picture.links}
    taken = [one.box for one in notes]
    drawn = []
    for link in picture.links:
        is_mutual = (link.target, link.source) in both
        curve = outlines.lead(link.source, link.target, (BEND,) if is_mutual else (0.0, BEND, -BEND))
        kind = name_kind(link)
        width, height = measure(kind) * KIND_SIZE + 8, KIND_SIZE + 4
        boxes = [Box(*_pair(point), width, height) for point in _points(curve, np.array(ALONG))]
        room = find_room(boxes, taken) if kind else None
        taken += [room] if room else []
        drawn.append(DrawnLink(link, curve, kind, room or boxes[0], room is not None))
    return drawn


def name_kind(link: PictureLink) -> str:
    """What is written on a link: its relation, of several the first and how many more; nothing of none."""
    relations = list(dict.fromkeys(link.relations))
    return f"{relations[0]} +{len(relations) - 1}" if len(relations) > 1 else "".join(relations)


class Outlines:
    """Circles and names of a picture's notes, which links end at or go around."""

    def __init__(self, notes: Sequence[DrawnNote]) -> None:
        self._middles = np.array([one.middle for one in notes])
        self._radii = np.array([one.radius for one in notes])
        boxes = [(one.box.x, one.box.y, one.box.width / 2, one.box.height / 2) for one in notes]
        x, y, half_width, half_height = np.array(boxes).T
        top, bottom = self._middles[:, 1] + self._radii + ABOVE, y + half_height - BELOW
        self._name_middles = np.stack([x, (top + bottom) / 2], axis=1)
        self._name_halves = np.stack([half_width - BESIDE, (bottom - top) / 2], axis=1)

    def lead(self, source: int, target: int, bends: Sequence[float]) -> Curve:
        """A link's curve: of the first bend, also a wider one, that touches no other note; where there is
        none, of the first that touches no other circle, as if it were a link of that note.
        """
        others = np.delete(np.arange(len(self._radii)), [source, target])
        fallback = first = None
        for wider in (1, 2, 3):
            for bend in bends:
                curve = self._trace(source, target, bend * wider)
                on_circle, on_name = self._touching(_points(curve, np.linspace(0, 1, STEPS)), others, ASIDE)
                first = first or curve
                if not on_circle.any():
                    if not on_name.any():
                        return curve
                    fallback = fallback or curve
        assert first is not None
        return fallback or first

    def _trace(self, source: int, target: int, bend: float) -> Curve:
        """A curve between two circles, cut where it leaves one note and its name for good and where it first
        reaches the other, so that its arrow can be seen.
        """
        (x1, y1), (x2, y2) = self._middles[source], self._middles[target]
        length = math.hypot(x2 - x1, y2 - y1) or 1.0
        middle = (x1 + x2) / 2 + (y2 - y1) / length * bend, (y1 + y2) / 2 - (x2 - x1) / length * bend
        curve = (float(x1), float(y1)), (float(middle[0]), float(middle[1])), (float(x2), float(y2))
        steps = np.linspace(0, 1, 2 * STEPS + 1)
        points = _points(curve, steps)
        leaving = np.logical_or(*self._touching(points, np.array([source]), START))[:, 0]
        reaching = np.logical_or(*self._touching(points, np.array([target]), ARROW))[:, 0]
        start = int(np.flatnonzero(leaving[:STEPS]).max(initial=0)) + 1
        end = int(np.flatnonzero(reaching[STEPS:]).min(initial=STEPS)) + STEPS - 1
        return _cut(curve, float(steps[start]), float(steps[max(end, start + 1)]))

    def _touching(
        self, points: Floats, notes: NDArray[np.int_], margin: float
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which points (rows) lie on which notes' circles, and which on their names (columns)."""
        x, y = points[:, 0, None], points[:, 1, None]
        middles, names = self._middles[notes], self._name_middles[notes]
        halves = self._name_halves[notes] + margin
        on_circle = (x - middles[:, 0]) ** 2 + (y - middles[:, 1]) ** 2 < (self._radii[notes] + margin) ** 2
        on_name = (np.abs(x - names[:, 0]) < halves[:, 0]) & (np.abs(y - names[:, 1]) < halves[:, 1])
        return on_circle, on_name


def _points(curve: Curve, t: Floats) -> Floats:
    """Points of a curve by their parameters."""
    start, control, end = (np.array(point) for point in curve)
    s = t[:, None]
    points: Floats = (1 - s) ** 2 * start + 2 * (1 - s) * s * control + s**2 * end
    return points


def _cut(curve: Curve, start: float, end: float) -> Curve:
    """The part of a curve between two parameters; its blossom at both is the control point."""
    first, last = _points(curve, np.array([start, end]))
    a, b, c = (np.array(point) for point in curve)
    control = (1 - start) * ((1 - end) * a + end * b) + start * ((1 - end) * b + end * c)
    return _pair(first), _pair(control), _pair(last)


def _pair(point: Floats) -> Point:
    return round(float(point[0]), 1), round(float(point[1]), 1)
