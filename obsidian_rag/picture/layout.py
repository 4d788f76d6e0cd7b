"""Where the notes of a picture stand, so that names do not cover one another. Pure, and the same every time.

Forces between notes (repulsion, springs along links, a pull to the ring of their hop) place them roughly;
the whole is drawn in to the shape of a window; then boxes that overlap are pushed apart until none do.
Lengths are in units of the picture, y grows downward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEPS = 320
FIRST_STEP = 60.0  # the farthest a note moves in the first step; less in each later one
SPRING = 0.08
LINK_SPRING = 0.012  # of links that were not walked: they may be long
LINK_ROOM = 62.0  # between two linked boxes, for the link's own label
REPULSION = 2600.0
RING_PULL = 0.04
APART = 0.5  # of an overlap taken back at once; both boxes move
GROWTH = 1.05
ROOMINESS = 4.5  # the picture's area, in that of all boxes: more of it makes names too small to read
ROOMINESS_OF_MANY = 2.4
FEW, MANY = 20, 100  # notes; what is said of many comes in between the two
EVENNESS = 0.65  # of many notes: from where forces put them (0) to the same number in every strip (1)
WIDE = 2.0  # the picture's width, in its height, as of a window
MOST_UNEVEN = 2.0  # how much more it is narrowed one way than the other


def lay_out(
    sizes: Sequence[tuple[float, float]],
    hops: Sequence[int],
    parents: Sequence[int],
    links: Sequence[tuple[int, int]],
) -> list[tuple[float, float]]:
    """The middle of each box, (0, 0) for the first. `sizes` are widths and heights; `parents` and `links`
    count boxes, as in Picture.
    """
    boxes = np.array(sizes, dtype=np.float64).reshape(-1, 2)
    radii = _ring_radii(boxes, hops)
    ring = radii[np.array(hops)]
    places = _spread(boxes, hops, parents, radii)
    walked = {frozenset((n, parent)) for n, parent in enumerate(parents) if n}
    other = {frozenset(link) for link in links} - walked
    pairs = np.array([sorted(pair) for pair in (*_order(walked), *_order(other))], dtype=int).reshape(-1, 2)
    strength = np.array([SPRING] * len(walked) + [LINK_SPRING] * len(other)).reshape(-1, 1)
    for step in range(STEPS):
        places = _move(places, boxes, ring, pairs, strength, FIRST_STEP * (1 - step / STEPS) ** 1.5)
    return [(float(x), float(y)) for x, y in np.round(_separate(_draw_in(places, boxes), boxes), 1)]


def _order(pairs: set[frozenset[int]]) -> list[list[int]]:
    return sorted(sorted(pair) for pair in pairs)


def _ring_radii(boxes: Floats, hops: Sequence[int]) -> Floats:
    """How far from the middle the notes of each hop belong: so far that all have room within."""
    area, radii = 0.0, [0.0]
    hop_of = np.array(hops)
    for hop in range(1, max(hops, default=0) + 1):
        there = boxes[hop_of == hop]
        before = area
        area += float((there[:, 0] * there[:, 1]).sum()) * 2.6
        within, outside = math.sqrt(before / math.pi), math.sqrt(area / math.pi)
        radii.append(max(radii[-1] + 110, (within + outside) / 2 + 30 * hop))
    return np.array(radii)


def _spread(boxes: Floats, hops: Sequence[int], parents: Sequence[int], radii: Floats) -> Floats:
    """A first guess: each note on its ring, in the sector of the note it was reached from."""
    children: dict[int, list[int]] = {}
    for n, parent in enumerate(parents):
        if n:
            children.setdefault(parent, []).append(n)
    weight = [1.0] * len(parents)
    for n in range(len(parents) - 1, 0, -1):  # a note stands behind the one it was reached from
        if n in children:
            weight[n] = 0.4 + sum(weight[child] for child in children[n])
    places = np.zeros_like(boxes)
    sectors = {0: (-math.pi, math.pi)}
    for n in range(len(parents)):
        start, end = sectors[n]
        if n:
            middle = (start + end) / 2
            places[n] = radii[hops[n]] * math.cos(middle), radii[hops[n]] * math.sin(middle)
        at, total = start, sum(weight[child] for child in children.get(n, ()))
        for child in children.get(n, ()):
            width = (end - start) * weight[child] / total
            sectors[child] = at, at + width
            at += width
    return places


def _move(
    places: Floats, boxes: Floats, ring: Floats, pairs: NDArray[np.int_], strength: Floats, most: float
) -> Floats:
    """One step of the forces; nothing moves farther than `most`, the first note not at all."""
    x, y = (places[:, n, None] - places[None, :, n] for n in (0, 1))
    strength_apart = REPULSION / (x * x + y * y + 1.0)
    force = np.stack([(x * strength_apart).sum(axis=1), (y * strength_apart).sum(axis=1)], axis=1)
    if len(pairs):
        first, second = pairs[:, 0], pairs[:, 1]
        along = places[second] - places[first]
        length = np.sqrt((along**2).sum(axis=1, keepdims=True)) + 1e-6
        wanted = (boxes[first].mean(axis=1) + boxes[second].mean(axis=1)).reshape(-1, 1) / 2 + LINK_ROOM
        pull = along / length * (length - wanted) * strength
        np.add.at(force, first, pull)
        np.add.at(force, second, -pull)
    radius = np.sqrt((places**2).sum(axis=1)) + 1e-6
    force += places * ((ring - radius) / radius * RING_PULL)[:, None]
    length = np.sqrt((force**2).sum(axis=1, keepdims=True)) + 1e-6
    moved = places + force / length * np.minimum(length, most)
    moved[0] = 0.0
    pushed: Floats = moved + _push_apart(moved, boxes)
    return pushed


def _push_apart(places: Floats, boxes: Floats) -> Floats:
    """How each box moves to overlap its neighbours less, along the shorter way out. The first stays."""
    (x, over_x), (y, over_y) = (_overlap(places[:, n], boxes[:, n]) for n in (0, 1))
    covered = (over_x > 0) & (over_y > 0)
    np.fill_diagonal(covered, False)
    sideways = over_x < over_y
    push_x = np.where(covered & sideways, over_x * x * APART, 0.0)
    push_y = np.where(covered & ~sideways, over_y * y * APART, 0.0)
    moved = np.stack([push_x, push_y], axis=2)
    moved[:, 0] *= 2  # the first does not make room
    pushed: Floats = moved.sum(axis=1)
    pushed[0] = 0.0
    return pushed


def _overlap(places: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """In one dimension: to which side each box (row) is of each other, and how far the two overlap."""
    apart = places[:, None] - places[None, :]
    # Two boxes at the same place go apart by their order.
    order = np.tri(len(places), k=-1) - np.tri(len(places), k=-1).T
    side = np.where(apart == 0, order, np.sign(apart))
    return side, (sizes[:, None] + sizes[None, :]) / 2 - np.abs(apart)


def _draw_in(places: Floats, boxes: Floats) -> Floats:
    """Places nearer to the first where they take more room than the boxes need; never farther from it. What
    is crowded in the middle of a large picture spreads into its corners.
    """
    count = len(boxes)
    crowding = min(max(count - FEW, 0) / (MANY - FEW), 1.0)
    area = float((boxes[:, 0] * boxes[:, 1]).sum()) * (ROOMINESS + (ROOMINESS_OF_MANY - ROOMINESS) * crowding)
    wanted = np.sqrt([area * WIDE, area / WIDE])
    extent = np.maximum(np.ptp(places, axis=0), 1.0)
    scale = np.minimum(wanted / extent, 1.0)
    # One way alone would make a strip of it.
    places = places * np.minimum(scale, scale[::-1] * MOST_UNEVEN)
    ranks = places.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable") / max(count - 1, 1)
    even = places.min(axis=0) + ranks * np.ptp(places, axis=0)
    spread = places + (even - places) * (EVENNESS * crowding)
    centred: Floats = spread - spread[0]
    return centred


def _separate(places: Floats, boxes: Floats) -> Floats:
    """Places without overlaps: boxes push one another, and where that does not end, all move outward."""
    while True:
        for _ in range(100):
            push = _push_apart(places, boxes)
            if np.abs(push).max(initial=0.0) < 0.05:
                break
            places = places + push
        else:
            places = places * GROWTH
            continue
        return places
