"""Note -> [Chunk]: one chunk or more per section, cut where a reader would, nothing lost and nothing doubled.

The text of the chunks without their overlap, joined, is the body of the note without its hidden spans. What
is blank makes no chunk of its own: it stays with the chunk before it, or with the first one of the note. A
note of blanks only has no chunks.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from obsidian_rag.analysis import LONGEST_NAME
from obsidian_rag.cuts import QUARTERS, Body, Joints, best_cut, best_overlap, find_joints, measure
from obsidian_rag.models import Block, Chunk, Note, Section

__all__ = ["CHUNK_SIZE", "LEAST", "OVERLAP", "measure", "split_note"]

CHUNK_SIZE = 300
"""The most a chunk measures, in estimated tokens: about 1,200 Latin characters or 300 ideographs.

Small enough that a chunk is about one thing and fits, but for a rest, the shortest window among usual
embedding models (256 word pieces); large enough that most sections of most notes are one chunk.
"""

OVERLAP = 0.15
"""How much of `CHUNK_SIZE` a piece repeats of the piece before it."""

LEAST = 0.3
"""How much of `CHUNK_SIZE` a piece holds at least; only a fence that must stay whole makes one shorter."""

_BOUND = CHUNK_SIZE * QUARTERS
_REPEAT = round(_BOUND * OVERLAP)
_FLOOR = round(_BOUND * LEAST)


def split_note(note: Note) -> list[Chunk]:
    """The chunks of a note, in order.

    No chunk crosses the border of a section, is blank, or measures more than `CHUNK_SIZE`, its overlap
    included. The pieces of one section overlap by about `OVERLAP`; a piece that begins among the rows of a
    table has the table's header for its overlap instead. `start_line` and `end_line` are those of the first
    and last character of the content that is not white space, a repeated table header aside.
    """
    view = _view(note)
    body = Body(view.text)
    blocks = sorted(_seen_blocks(note.blocks, view), key=lambda block: block.start)
    starts = [block.start for block in blocks]
    chunks: list[Chunk] = []
    line_ends = [match.start() for match in re.finditer("\n", note.text)]
    for section, start, end in _spans(note.sections, view):
        for piece in _pieces(body, start, end, blocks[bisect_left(starts, start) : bisect_left(starts, end)]):
            fresh = view.text[piece.start : piece.end]
            shown = view.text[piece.shown_from : piece.end]
            first = view.to_file(piece.end - len(shown.lstrip()))
            last = view.to_file(piece.start + len(fresh.rstrip()) - 1)
            chunks.append(
                Chunk(
                    chunk_index=len(chunks),
                    heading=_shorten(section.heading) if section and section.heading is not None else None,
                    heading_path=tuple(map(_shorten, section.heading_path)) if section else (),
                    content=piece.repeated + fresh,
                    overlap=len(piece.repeated),
                    start_line=bisect_left(line_ends, first) + 1,
                    end_line=bisect_left(line_ends, last) + 1,
                )
            )
    return chunks


def _shorten(heading: str) -> str:
    """A heading as every chunk below it carries it; the whole of a longer one is in the text."""
    return heading if len(heading) <= LONGEST_NAME else f"{heading[: LONGEST_NAME - 1]}…"


@dataclass(frozen=True, slots=True)
class _View:
    """The body without its hidden spans, and the way from its offsets to those of the file and back.

    The runs of the file that are kept begin at `file_starts` there and at `view_starts` in `text`.
    """

    text: str
    view_starts: list[int]
    file_starts: list[int]

    def to_view(self, offset: int) -> int:
        """The offset in `text`; one in a hidden span is where the span was."""
        run = bisect_right(self.file_starts, offset) - 1
        if run < 0:
            return 0
        run_end = self.view_starts[run + 1] if run + 1 < len(self.view_starts) else len(self.text)
        return min(self.view_starts[run] + offset - self.file_starts[run], run_end)

    def to_file(self, offset: int) -> int:
        """The offset in the file's text of the character at an offset of `text`."""
        run = bisect_right(self.view_starts, offset) - 1
        return self.file_starts[run] + offset - self.view_starts[run]


def _view(note: Note) -> _View:
    parts: list[str] = []
    view_starts: list[int] = []
    file_starts: list[int] = []
    at, length = note.body_start, 0
    for start, end in [*sorted(note.hidden), (len(note.text), len(note.text))]:
        if start > at:
            parts.append(note.text[at:start])
            view_starts.append(length)
            file_starts.append(at)
            length += start - at
        at = max(at, end)
    return _View("".join(parts), view_starts, file_starts)


def _seen_blocks(blocks: Sequence[Block], view: _View) -> Iterator[Block]:
    """The blocks at their places in the view, without those that are hidden."""
    for block in blocks:
        start, end = view.to_view(block.start), view.to_view(block.end)
        if start < end:
            seams = tuple(view.to_view(seam) for seam in block.seams)
            yield Block(block.kind, start, end, seams, max(start, view.to_view(block.head_end)))


def _spans(sections: Sequence[Section], view: _View) -> list[tuple[Section | None, int, int]]:
    """The sections as spans that cover the view, each with a character that is not white space."""
    spans: list[tuple[Section | None, int, int]] = []
    owner: Section | None = None
    start = 0
    for section in (*sections, None):
        border = view.to_view(section.start) if section else len(view.text)
        if view.text[start:border].strip():
            spans.append((owner, start, border))
            start = border
        elif spans:
            spans[-1] = (*spans[-1][:2], border)
            start = border
        owner = section
    return spans


@dataclass(frozen=True, slots=True)
class _Piece:
    """The new text [start, end) of a chunk, and the text that it repeats before that: from `shown_from` on,
    or a table's header from elsewhere.
    """

    repeated: str
    start: int
    end: int
    shown_from: int


def _pieces(body: Body, start: int, end: int, blocks: Sequence[Block]) -> Iterator[_Piece]:
    """The pieces of a section that fills [start, end)."""
    if body.weight(start, end) <= _BOUND:
        yield _Piece("", start, end, start)
        return
    joints = find_joints(body, blocks, end, _BOUND)
    before, at = start, start
    while at < end:
        if table := joints.table_around(at):
            lead, repeated = at, table.header
            stop = _stop(body, joints, at, end, _BOUND - table.header_weight)
        else:
            lead = best_overlap(body, joints, before, at, _REPEAT)
            stop = _stop(body, joints, at, end, _BOUND - body.weight(lead, at))
            if lead < at and body.weight(at, stop) < _FLOOR:
                # What follows must stay whole; it may have room where nothing is repeated.
                alone = _stop(body, joints, at, end, _BOUND)
                lead, stop = (at, alone) if alone > stop else (lead, stop)
            repeated = body.text[lead:at]
        yield _Piece(repeated, at, stop, lead)
        before, at = at, stop


def _stop(body: Body, joints: Joints, at: int, end: int, room: int) -> int:
    """Where a piece ends that begins at `at` and holds no more than `room`.

    That is `at`, or leaves only blanks, where a solid span follows that has no room: never if `room` is all.
    """
    fit = body.last_within(at, room)
    if fit >= end:
        return end
    least = min(_FLOOR, body.weight(at, end) // 3)
    low = body.first_beyond(at, least)
    # Leave enough for a last piece that is worth reading; less where only that keeps a fence whole.
    for top in (min(fit, body.last_within(end, -least)), fit):
        solid = joints.solid_around(top)
        top = solid[0] if solid else top
        if top >= low:
            return best_cut(body, joints, at, low, top)
    return top
