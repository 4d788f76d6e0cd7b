"""The rows of a note's links: where they lead, where they stand, what they say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from psycopg.types.json import Jsonb

from obsidian_rag.link_types import LinkPlace, choose_relation, type_links
from obsidian_rag.models import Mention, Note, Resolution
from obsidian_rag.postgres import Connection
from obsidian_rag.relations import Table

NEW_IDS = "SELECT nextval(pg_get_serial_sequence('note_links', 'id')) FROM generate_series(1, %s)"
COPY_LINKS = """
COPY note_links (id, source_path, target_name, kind, display_text, heading, block, property, line,
                 occurrences, target_path, target_type, via, relation, sentence)
FROM STDIN (FORMAT BINARY)
"""
LINK_TYPES = ("int4", *["text"] * 7, "int4", "int4", *["text"] * 5)
COPY_MENTIONS = """
COPY link_mentions (link_id, source_path, sentence_no, line, sentence, first, last, context, label, relations)
FROM STDIN (FORMAT BINARY)
"""
MENTION_TYPES = ("int4", "text", "int4", "int4", "text", "int4", "int4", "text", "text", "jsonb")
Relations = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class NoteLinks:
    """A note with where each of its links leads, as far as is known, and what each of its mentions says."""

    note: Note
    resolutions: tuple[Resolution, ...]
    relations: tuple[Relations, ...]


def type_mentions(note: Note, table: Table) -> tuple[Relations, ...]:
    """What each mention of a note says: relation -> confidence."""
    sentences: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for index, mention in enumerate(note.mentions):
        sentences[mention.sentence_no, mention.sentence].append(index)
    said: list[Relations] = [{}] * len(note.mentions)
    for (_, sentence), indexes in sentences.items():
        places = [_place_of(note.mentions[index]) for index in indexes]
        for index, relations in zip(indexes, type_links(sentence, places, table), strict=True):
            said[index] = relations
    return tuple(said)


def _place_of(mention: Mention) -> LinkPlace:
    return LinkPlace(mention.first, mention.last, mention.context, mention.label)


def insert_links(conn: Connection, notes: Sequence[NoteLinks]) -> None:
    """Write the links of notes that have none in the index, and their mentions."""
    count = sum(len(links.note.links) for links in notes)
    if not count:
        return
    ids = iter([row[0] for row in conn.execute(NEW_IDS, (count,)).fetchall()])
    numbered = [(links, list(islice(ids, len(links.note.links)))) for links in notes]
    with conn.cursor() as cur:
        with cur.copy(COPY_LINKS) as copy:
            copy.set_types(LINK_TYPES)
            for links, own in numbered:
                for row in _link_rows(links, own):
                    copy.write_row(row)
        with cur.copy(COPY_MENTIONS) as copy:
            copy.set_types(MENTION_TYPES)
            for links, own in numbered:
                for row in _mention_rows(links, own):
                    copy.write_row(row)


LINK_SIGNS = """
SELECT source_path, target_name, kind, display_text, target_path, target_type, occurrences
FROM note_links WHERE source_path = ANY(%s)
"""


def load_link_signs(conn: Connection, paths: Sequence[str]) -> Counter[tuple[object, ...]]:
    """What `link_names` is made of, of the links of some notes as they are stored."""
    return Counter(conn.execute(LINK_SIGNS, (list(paths),)).fetchall() if paths else ())


def list_link_signs(links: NoteLinks) -> Iterator[tuple[object, ...]]:
    """The same of a note that arrives."""
    path = links.note.file_path
    for link, to in zip(links.note.links, links.resolutions, strict=True):
        yield path, link.target, link.kind, link.display, to.path, to.target_type, link.count


def _mention_rows(links: NoteLinks, ids: Sequence[int]) -> Iterator[tuple[object, ...]]:
    for m, relations in zip(links.note.mentions, links.relations, strict=True):
        yield (
            ids[m.link], links.note.file_path, m.sentence_no, m.line, m.sentence, m.first, m.last, m.context,
            m.label, Jsonb(relations),
        )  # fmt: skip


def _link_rows(links: NoteLinks, ids: Sequence[int]) -> Iterator[tuple[object, ...]]:
    note, said = links.note, links.relations
    places: defaultdict[int, list[int]] = defaultdict(list)
    for index, mention in enumerate(note.mentions):
        places[mention.link].append(index)
    for number, (link, resolution) in enumerate(zip(note.links, links.resolutions, strict=True)):
        relation, best = choose_relation([said[index] for index in places[number]])
        sentence = note.mentions[places[number][best]].sentence if places[number] else None
        yield (
            ids[number], note.file_path, link.target, link.kind, link.display, link.heading, link.block,
            link.property, link.line, link.count, resolution.path, resolution.target_type, resolution.via,
            relation, sentence or None,
        )  # fmt: skip


LOAD_MENTIONS = """
SELECT m.ctid::text, m.link_id, m.source_path, m.sentence_no, m.sentence, m.first, m.last, m.context, m.label,
       m.relations
FROM link_mentions m WHERE m.source_path = ANY(%s) ORDER BY m.link_id, m.sentence_no, m.first
"""
SAVE_MENTIONS = """
UPDATE link_mentions m SET relations = u.relations
FROM unnest(%s::tid[], %s::jsonb[]) AS u (at, relations) WHERE m.ctid = u.at
"""
SAVE_RELATIONS = """
UPDATE note_links l SET relation = u.relation, sentence = u.sentence
FROM unnest(%s::int[], %s::text[], %s::text[]) AS u (id, relation, sentence)
WHERE l.id = u.id AND (l.relation, l.sentence) IS DISTINCT FROM (u.relation, u.sentence)
"""
NOTES_AT_ONCE = 500


def retype_links(conn: Connection, table: Table) -> int:
    """Type all stored links anew, from what is stored of them. Call it in a transaction; returns how many."""
    paths = [row[0] for row in conn.execute("SELECT DISTINCT source_path FROM link_mentions").fetchall()]
    done = 0
    for start in range(0, len(paths), NOTES_AT_ONCE):
        done += _retype(conn, paths[start : start + NOTES_AT_ONCE], table)
    return done


def _retype(conn: Connection, paths: Sequence[str], table: Table) -> int:
    rows = conn.execute(LOAD_MENTIONS, (list(paths),)).fetchall()
    sentences: defaultdict[tuple[str, int, str], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        sentences[row[2], row[3], row[4]].append(index)
    said: dict[int, Relations] = {}
    for (_, _, sentence), indexes in sentences.items():
        places = [LinkPlace(*rows[index][5:9]) for index in indexes]
        said.update(zip(indexes, type_links(sentence, places, table), strict=True))
    changed = [index for index, row in enumerate(rows) if row[9] != said[index]]
    conn.execute(SAVE_MENTIONS, ([rows[i][0] for i in changed], [Jsonb(said[i]) for i in changed]))
    links = list(_choose_relations((row[1], row[4], said[index]) for index, row in enumerate(rows)))
    conn.execute(SAVE_RELATIONS, [list(column) for column in zip(*links, strict=True)])
    return len(links)


def _choose_relations(
    mentions: Iterable[tuple[int, str, Relations]],
) -> Iterator[tuple[int, str | None, str | None]]:
    by_link: defaultdict[int, list[tuple[str, Relations]]] = defaultdict(list)
    for link_id, sentence, relations in mentions:
        by_link[link_id].append((sentence, relations))
    for link_id, places in by_link.items():
        relation, best = choose_relation([relations for _, relations in places])
        yield link_id, relation, places[best][0] or None
