"""What holds of the chunks of any note: nothing lost or doubled, none too long, no fence or character cut."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import regex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from obsidian_rag.chunks import CHUNK_SIZE, OVERLAP, measure, split_note
from obsidian_rag.models import Block, BlockKind, Chunk, Note, Section
from obsidian_rag.notes import parse_note

SENTENCES = (
    "The river rises in spring. ",
    "Über die Brücke gehen früh am Morgen die Müller! ",
    "Reka vytékaet iz gor; река вытекает из гор. ",
    "春天的河水从山上流下来。",
    "彼は「行きません」と言った？",
    "강물은 봄에 불어난다. ",
    "แม่น้ำสูงขึ้นในฤดูใบไม้ผลิ ",
    "नदी वसंत में बढ़ती है। ",
    "النهر يرتفع في الربيع؟ ",
    "👩‍👩‍👧‍👦🇩🇪🇫🇷❤️👍🏽 ",
    "e\u0301te\u0301 i\u0308le ",
    "https://example.org/a/very/long/path/without/any/space?and=query&more=%20of%20it ",
    "word, ",
)
LONG_WORDS = ("x", "字", "🇯🇵", "👩‍🚀", "a\u0308", "한", "-")
BLANKS = ("\n", "\n\n", "\n \n\n", "\n\n\n\t\n")


@dataclass(frozen=True)
class Part:
    """A block of text, with its joints as offsets in it and the spans of the fences in it."""

    kind: BlockKind
    text: str
    seams: tuple[int, ...] = ()
    head_end: int = 0
    fences: tuple[tuple[int, int], ...] = ()


@dataclass
class Document:
    """A note put together from parts, with what a reader knows of it."""

    text: str = ""
    sections: list[Section] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    fences: list[tuple[int, int]] = field(default_factory=list)
    tables: list[Block] = field(default_factory=list)

    def add(self, part: Part) -> None:
        at = len(self.text)
        self.text += part.text
        block = Block(
            part.kind,
            at,
            len(self.text),
            tuple(at + seam for seam in part.seams),
            at + part.head_end,
        )
        self.blocks.append(block)
        self.fences += [(at + start, at + end) for start, end in part.fences]
        if part.kind == "table":
            self.tables.append(block)

    def note(self, hidden: tuple[tuple[int, int], ...] = ()) -> Note:
        return Note(
            "a.md", "a", self.text, 0, {}, (), (), tuple(self.sections), tuple(self.blocks), (), hidden
        )


def joined(chunks: list[Chunk]) -> str:
    return "".join(chunk.content[chunk.overlap :] for chunk in chunks)


def spans(chunks: list[Chunk]) -> list[tuple[int, int]]:
    """Where the new text of every chunk stands in the joined text."""
    at, found = 0, []
    for chunk in chunks:
        found.append((at, at + len(chunk.content) - chunk.overlap))
        at = found[-1][1]
    return found


# --- Documents -----------------------------------------------------------------------------------------

blanks = st.sampled_from(BLANKS)
prose = st.builds(
    lambda sentences, times: "".join(sentences) * times,
    st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=6),
    st.integers(1, 12),
).map(str.strip)
long_word = st.builds(lambda start, word, times: start + word * times, st.sampled_from(("", "q")),
                      st.sampled_from(LONG_WORDS), st.integers(200, 1800))  # fmt: skip


@st.composite
def paragraphs(draw: st.DrawFn) -> Part:
    lines = draw(st.lists(prose, min_size=1, max_size=3))
    return Part("paragraph", "\n".join(lines) + draw(blanks) + "\n")


@st.composite
def giant_words(draw: st.DrawFn) -> Part:
    return Part("paragraph", draw(long_word) + draw(blanks) + "\n")


@st.composite
def fences(draw: st.DrawFn, prefix: str = "") -> Part:
    mark = draw(st.sampled_from(("```", "~~~~")))
    line = draw(st.sampled_from(("# no heading", "value = compute(1)", "    return 水", "")))
    times = draw(st.integers(0, 60))
    lines = [mark + "sh", *[line] * times, mark]
    text = "".join(prefix + entry + "\n" for entry in lines)
    starts = [0]
    for entry in lines[:-1]:
        starts.append(starts[-1] + len(prefix) + len(entry) + 1)
    return Part("fence", text + "\n", tuple(starts[1:]), 0, ((0, len(text)),))


@st.composite
def lists(draw: st.DrawFn) -> Part:
    text, seams, inner = "", [], []
    for _ in range(draw(st.integers(1, 8))):
        seams.append(len(text))
        text += draw(st.sampled_from(("- ", "* "))) + draw(prose).replace("\n", " ") + "\n"
        if draw(st.integers(0, 3)) == 0:
            code = draw(fences(prefix="  "))
            inner.append((len(text), len(text) + code.fences[0][1]))
            text += code.text
    times = draw(st.sampled_from((1, 1, 1, 7)))
    length = len(text)
    return Part(
        "list",
        text * times + "\n",
        tuple(length * n + seam for n in range(times) for seam in seams),
        0,
        tuple((length * n + start, length * n + end) for n in range(times) for start, end in inner),
    )


@st.composite
def tables(draw: st.DrawFn) -> Part:
    columns = draw(st.sampled_from((1, 3, 80)))
    head = "|" + " name 名 |" * columns + "\n|" + "---|" * columns + "\n"
    row = "|" + (" " + draw(prose).replace("\n", " ")[:200] + " |") + " 1 |" * (columns - 1) + "\n"
    rows = draw(st.integers(0, 40))
    seams = tuple(len(head) + len(row) * n for n in range(rows))
    return Part("table", head + row * rows + "\n", seams, len(head))


@st.composite
def quotes(draw: st.DrawFn) -> Part:
    text, seams = "", []
    for _ in range(draw(st.integers(1, 4))):
        seams.append(len(text))
        text += "> " + draw(prose).replace("\n", " ") + "\n>\n"
    return Part("quote", text + "\n", tuple(seams[1:]))


parts = st.one_of(paragraphs(), paragraphs(), giant_words(), fences(), lists(), tables(), quotes())
bodies = st.lists(parts, max_size=5)
headings = st.tuples(st.integers(1, 6), st.sampled_from(("River", "河", "", "The mill #3", "e\u0301")))
outlines = st.lists(st.tuples(headings, bodies), max_size=4)


def build(preface: list[Part], outline: list[tuple[tuple[int, str], list[Part]]]) -> Document:
    document = Document()
    if preface:
        for part in preface:
            document.add(part)
        document.sections.append(Section(None, 0, (), 0, 0, len(document.text)))
    path: list[tuple[int, str]] = []
    for (level, heading), body in outline:
        start = len(document.text)
        document.add(Part("heading", f"{'#' * level} {heading}".rstrip() + "\n\n"))
        body_start = start + document.text[start:].index("\n") + 1
        for part in body:
            document.add(part)
        path = [*(entry for entry in path if entry[0] < level), (level, heading)]
        names = tuple(name for _, name in path)
        document.sections.append(Section(heading, level, names, start, body_start, len(document.text)))
    return document


documents = st.builds(build, bodies, outlines)
checked = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


# --- Properties ----------------------------------------------------------------------------------------


@checked
@given(documents)
def test_the_chunks_without_their_overlap_are_the_note(document: Document) -> None:
    assert joined(split_note(document.note())) == document.text


@checked
@given(documents)
def test_no_chunk_is_blank_or_over_the_bound(document: Document) -> None:
    chunks = split_note(document.note())
    assert [chunk.chunk_index for chunk in chunks] == list(range(len(chunks)))
    for chunk in chunks:
        assert chunk.content[chunk.overlap :].strip()
        assert measure(chunk.content) <= CHUNK_SIZE


@checked
@given(documents)
def test_every_chunk_lies_in_one_section_and_bears_its_path(document: Document) -> None:
    chunks = split_note(document.note())
    owners = [
        next(section for section in document.sections if section.start <= start and end <= section.end)
        for start, end in spans(chunks)
    ]
    assert [(chunk.heading, chunk.heading_path) for chunk in chunks] == [
        (owner.heading, owner.heading_path) for owner in owners
    ]
    assert list(dict.fromkeys(owner.start for owner in owners)) == [s.start for s in document.sections]


@checked
@given(documents)
def test_a_section_that_fits_is_one_chunk(document: Document) -> None:
    contents = [chunk.content for chunk in split_note(document.note())]
    for section in document.sections:
        text = document.text[section.start : section.end]
        assert measure(text) > CHUNK_SIZE or text in contents


@checked
@given(documents)
def test_overlap_repeats_the_piece_before_or_the_header_of_the_cut_table(document: Document) -> None:
    chunks = split_note(document.note())
    starts = {section.start for section in document.sections}
    for (before, (since, _)), (chunk, (start, _)) in pairwise(zip(chunks, spans(chunks), strict=True)):
        repeated = chunk.content[: chunk.overlap]
        assert not (start in starts and repeated)
        assert not repeated or repeated.strip()
        table = next((t for t in document.tables if t.head_end <= start < t.end), None)
        header = document.text[table.start : table.head_end] if table else ""
        if header and measure(header) <= CHUNK_SIZE / 2:
            assert repeated == header
        else:
            assert repeated == document.text[start - chunk.overlap : start]
            assert chunk.overlap <= start - since
            assert measure(repeated) <= OVERLAP * CHUNK_SIZE
            assert before.heading_path == chunk.heading_path or not repeated


@checked
@given(documents)
def test_no_chunk_starts_or_ends_inside_a_fence_that_fits(document: Document) -> None:
    chunks = split_note(document.note())
    borders = {start for start, _ in spans(chunks)} | {
        start - chunk.overlap
        for chunk, (start, _) in zip(chunks, spans(chunks), strict=True)
        if document.text.startswith(chunk.content, start - chunk.overlap)
    }
    for start, end in document.fences:
        if measure(document.text[start:end]) <= CHUNK_SIZE:
            assert not [border for border in borders if start < border < end]


@checked
@given(documents)
def test_no_character_a_reader_sees_is_cut(document: Document) -> None:
    chunks = split_note(document.note())
    characters = {0} | {match.end() for match in regex.finditer(r"\X", document.text)}
    for chunk, (start, _) in zip(chunks, spans(chunks), strict=True):
        assert start in characters
        if document.text.startswith(chunk.content, start - chunk.overlap):
            assert start - chunk.overlap in characters


@checked
@given(documents)
def test_lines_are_where_the_words_of_the_chunk_stand(document: Document) -> None:
    lines = document.text.split("\n")

    def stand(words: str, first: int, last: int) -> bool:
        shown = words.split("\n")
        is_at_ends = shown[0] in lines[first - 1] and shown[-1] in lines[last - 1]
        return is_at_ends and words in "\n".join(lines[first - 1 : last])

    for chunk in split_note(document.note()):
        # All that is shown; where a table's header is repeated from afar, all but that.
        texts = (chunk.content, chunk.content[chunk.overlap :])
        assert any(stand(text.strip(), chunk.start_line, chunk.end_line) for text in texts)


@checked
@given(documents)
def test_pieces_are_well_filled_unless_a_whole_fence_makes_them_short(document: Document) -> None:
    chunks = split_note(document.note())
    whole = [(a, b) for a, b in document.fences if measure(document.text[a:b]) <= CHUNK_SIZE]
    for chunk, (start, end) in zip(chunks, spans(chunks), strict=True):
        is_section = any(section.start == start and section.end == end for section in document.sections)
        near = any(a - CHUNK_SIZE * 4 < end and start < b + CHUNK_SIZE * 4 for a, b in whole)
        if not is_section and not near:
            assert measure(chunk.content) >= 0.15 * CHUNK_SIZE


@checked
@given(documents)
def test_the_same_note_gives_the_same_chunks(document: Document) -> None:
    assert split_note(document.note()) == split_note(document.note())


@checked
@given(bodies, st.lists(st.tuples(headings, bodies), min_size=1, max_size=4), st.data())
def test_an_edit_changes_the_chunks_of_its_section_only(
    preface: list[Part], outline: list[tuple[tuple[int, str], list[Part]]], data: st.DataObject
) -> None:
    edited = data.draw(st.integers(0, len(outline) - 1))
    changed = [
        (heading, data.draw(bodies) if number == edited else body)
        for number, (heading, body) in enumerate(outline)
    ]
    number = edited + bool(preface)

    def of_other_sections(document: Document) -> list[tuple[tuple[str, ...], str]]:
        section = document.sections[number]
        chunks = split_note(document.note())
        return [
            (chunk.heading_path, chunk.content)
            for chunk, (start, _) in zip(chunks, spans(chunks), strict=True)
            if not section.start <= start < section.end
        ]

    assert of_other_sections(build(preface, outline)) == of_other_sections(build(preface, changed))


@checked
@given(documents, st.data())
def test_hidden_spans_are_left_out_and_nothing_else(document: Document, data: st.DataObject) -> None:
    offsets = st.integers(0, len(document.text))
    cuts = sorted(data.draw(st.lists(offsets, max_size=6).filter(lambda cuts: len(cuts) % 2 == 0)))
    hidden = tuple(zip(cuts[::2], cuts[1::2], strict=True))
    kept, at = "", 0
    for start, end in hidden:
        kept += document.text[at:start]
        at = end
    kept += document.text[at:]
    chunks = split_note(document.note(hidden))
    assert joined(chunks) == (kept if kept.strip() else "")
    for chunk in chunks:
        assert chunk.content[chunk.overlap :].strip()
        assert measure(chunk.content) <= CHUNK_SIZE


@checked
@given(
    st.text(st.sampled_from(" \n\t\u3000\xa0字a.。\u0301\u200d🇩👩`~#|->"), max_size=3000), st.integers(1, 30)
)
def test_any_text_at_all_is_given_back(text: str, times: int) -> None:
    note = parse_note("a.md", text * times)
    chunks = split_note(note)
    body = note.text[note.body_start :]
    assert joined(chunks) == (body if body.strip() else "")
    for chunk in chunks:
        assert chunk.content[chunk.overlap :].strip()
        assert measure(chunk.content) <= CHUNK_SIZE


@checked
@given(documents, st.sampled_from(("", "---\ntags: [a]\n---\n", "---\na: 1\n---\n\n\n")))
def test_a_parsed_note_keeps_its_text_its_sections_and_its_fences(document: Document, front: str) -> None:
    note = parse_note("a.md", front + document.text)
    body = note.text[note.body_start :]
    chunks = split_note(note)
    assert joined(chunks) == (body if body.strip() else "")

    with_words = [section for section in note.sections if note.text[section.start : section.end].strip()]
    paths = [section.heading_path for section in with_words]
    found = [chunk.heading_path for chunk in chunks]
    assert [path for i, path in enumerate(found) if i == 0 or path != found[i - 1]] == [
        path for i, path in enumerate(paths) if i == 0 or path != paths[i - 1]
    ]

    borders = {start for start, _ in spans(chunks)}
    offsets = [0]
    for line in body.split("\n"):
        offsets.append(offsets[-1] + len(line) + 1)
    for token in MarkdownIt("commonmark").parse(body):
        if token.type == "fence" and token.map:
            start, end = offsets[token.map[0]], offsets[token.map[1]]
            if measure(body[start:end]) <= CHUNK_SIZE:
                assert not [border for border in borders if start < border < end]
