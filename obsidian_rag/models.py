"""The values that cross module borders. Frozen, without behaviour beyond what they state of themselves.

Offsets are positions in `Note.text`, half open `[start, end)`; lines are those of the file, from 1.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

LinkKind = Literal["wikilink", "embed", "markdown", "markdown_embed", "property"]
TargetType = Literal["note", "attachment", "unresolved"]
Via = Literal["name", "alias"]
BlockKind = Literal[
    "heading", "paragraph", "list", "table", "fence", "quote", "html", "comment", "math", "rule"
]


@dataclass(frozen=True, slots=True)
class Block:
    """A top-level block of a note. The blocks of a note, in order, cover its body without gap or overlap.

    `seams` are offsets inside the block where it may be cut next best: before a list item, a table's body
    row, a paragraph of a quote, a line of a fence. `head_end` ends what the pieces of a cut block repeat:
    a table's header and delimiter rows (it equals `start` where nothing is repeated).
    """

    kind: BlockKind
    start: int
    end: int
    seams: tuple[int, ...] = ()
    head_end: int = 0


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands under it up to the next heading of any level.

    `heading` is the heading's raw text; it and `level` are None and 0 for text before the first heading.
    `heading_path` holds the headings from the outermost to this one, empty for text before the first.
    `start` is the heading's first character, `body_start` the first one after the heading's line(s).
    """

    heading: str | None
    level: int
    heading_path: tuple[str, ...]
    start: int
    body_start: int
    end: int


@dataclass(frozen=True, slots=True)
class Link:
    """A link as it is written. `target` has neither subpath nor display text; it is empty for a link to
    the note itself. `heading` is the part after the first `#` (`H1#H2` for a chain), `block` the id after
    `#^`. `property` is the property's key (`rel.0` in a list). `line` is the first occurrence's line, `count`
    how often the same link is written in the note.
    """

    kind: LinkKind
    target: str
    heading: str | None = None
    block: str | None = None
    display: str | None = None
    property: str | None = None
    line: int = 1
    count: int = 1


@dataclass(frozen=True, slots=True)
class Mention:
    """A place at which a link stands. `link` is its index among the note's links, `sentence_no` counts the
    note's sentences that hold links, so that links of one sentence can be told. `sentence` is plain text,
    links by their display text, this one at sentence[first:last]; empty for a property. `context` is the
    heading, list item or column header it stands under, `label` what is written before it as its type: the
    property's key, `Author:`.
    """

    link: int
    sentence_no: int
    line: int
    sentence: str
    first: int
    last: int
    context: str = ""
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """One file, read. `text` is the decoded file with `\\n` line ends and without BOM; `text[body_start:]`
    is the body, what comes before is the front matter block. `hidden` are spans of the body that hold a
    plugin's data and not the person's words; they are not indexed.
    """

    file_path: str
    title: str
    text: str
    body_start: int
    front_matter: dict[str, Any]
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    sections: tuple[Section, ...]
    blocks: tuple[Block, ...]
    links: tuple[Link, ...]
    hidden: tuple[tuple[int, int], ...] = ()
    warnings: tuple[str, ...] = ()
    mentions: tuple[Mention, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one section. `content[overlap:]` is text of the note not found in an earlier chunk; the
    first `overlap` characters repeat earlier text (the end of the piece before, or a table's header row).
    """

    chunk_index: int
    heading: str | None
    heading_path: tuple[str, ...]
    content: str
    overlap: int
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a link leads to: `path` is None exactly when `target_type` is "unresolved"."""

    path: str | None
    target_type: TargetType
    via: Via | None = None


@dataclass(frozen=True, slots=True)
class VaultFile:
    """A file of a vault. `path` is relative, with `/`, as it opens on disk; times are in nanoseconds."""

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """A note that is not in the index as it is on disk. `stage` is walk, read, parse, embed or store."""

    file_path: str
    stage: str
    error: str


@dataclass(frozen=True, slots=True)
class RunReport:
    """What one run of the indexer did. `chunks_embedded` counts texts sent to the embedder."""

    run_id: int | None
    status: Literal["ok", "partial", "failed"]
    notes_seen: int = 0
    notes_indexed: int = 0
    notes_unchanged: int = 0
    notes_renamed: int = 0
    notes_deleted: int = 0
    notes_failed: int = 0
    chunks_written: int = 0
    chunks_embedded: int = 0
    chunks_reused: int = 0
    links: int = 0
    links_resolved: int = 0
    seconds: float = 0.0
    failures: tuple[Failure, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The object that `index --json` prints."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LinkStep:
    """One hop of the way from a note that a question names to a note of the answer. A path `?name` is that
    of a note that is not written yet. `direction` is "out" for a link of `from_path`, "in" for a link to it,
    "beside" for two links of one sentence. `relation` is what the text says of the two of what was asked,
    `sentence` where it says so: line `line` of `source_path`.
    """

    from_path: str
    to_path: str
    direction: str
    relation: str | None
    sentence: str | None
    source_path: str | None
    line: int | None


@dataclass(frozen=True, slots=True)
class Hit:
    """One chunk of an answer. `ranks` gives the rank, from 1, that each retriever gave it; `neighbor` marks
    a chunk that stands beside a hit and was not found itself (its score is 0.0).
    `linked_by` is the way by links from what the query names. `date` is the day the note is about, as
    2025-09-30: of its properties or name, else of its last change.
    """

    file_path: str
    title: str
    heading_path: str
    chunk_index: int
    start_line: int | None
    end_line: int | None
    score: float
    content: str
    neighbor: bool = False
    ranks: dict[str, int] = field(default_factory=dict)
    evidence: str = ""
    linked_by: tuple[LinkStep, ...] = ()
    date: str | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured of an index: `g` in [0, 1], how far vectors are trusted beside words; mean and
    standard deviation of the cosine of a question and a chunk of another; how many questions were embedded.
    """

    g: float
    cosine_mean: float
    cosine_spread: float
    questions: int = 0


def make_storable(text: str) -> str:
    """Text without what PostgreSQL cannot hold. The words of a library's error may contain anything."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
