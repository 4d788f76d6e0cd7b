"""What a question says before anything is searched: the notes it names, and the words it asks with."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from obsidian_rag.embedding import Vector
from obsidian_rag.postgres import Connection
from obsidian_rag.relations import Table
from obsidian_rag.search.named import Named, Token, find_named, read_tokens
from obsidian_rag.search.phrases import Phrase, list_phrases, list_seeds, make_seeds, match_phrases
from obsidian_rag.search.plans import Reading, read_question

LINKED = """
SELECT EXISTS (SELECT FROM note_links WHERE source_path = ANY(%(nodes)s) AND target_type <> 'attachment')
    OR EXISTS (SELECT FROM note_links WHERE target_path = ANY(%(nodes)s))
"""


@dataclass(frozen=True, slots=True)
class Question:
    """A question that names notes. `phrases` are words that no table explains; `texts` are those, and what
    they are compared with, for the embedder.
    """

    tokens: tuple[Token, ...]
    named: tuple[Named, ...]
    reading: Reading
    phrases: tuple[Phrase, ...]
    texts: tuple[str, ...]


def read_names(conn: Connection, query: str, table: Table) -> Question | None:
    """The notes that a question names, and its words; None where it names none
    that links touch.
    """
    query = unicodedata.normalize("NFKC", query)  # as names have it
    tokens = read_tokens(query)
    named = find_named(conn, query, tokens, table)
    if not named or not _are_linked(conn, named):
        return None
    reading = read_question(tokens, named, table)
    phrases = list_phrases(query, tokens, named, reading)
    seeds = [seed for _, seed in list_seeds(table)] if phrases else []
    texts = [*(phrase.text for phrase in phrases), *seeds]
    return Question(tuple(tokens), tuple(named), reading, tuple(phrases), tuple(texts))


def _are_linked(conn: Connection, named: Sequence[Named]) -> bool:
    """Whether any link touches what is named; a name that only links give to nothing is touched by them."""
    nodes = list(name_nodes(named))
    row = conn.execute(LINKED, {"nodes": nodes}).fetchone()
    return bool(row and row[0]) or any(node.startswith("?") for node in nodes)


def understand(question: Question, table: Table, vectors: Mapping[str, Vector]) -> Question:
    """The question with what its phrases mean, as far as the embedder gave vectors of them."""
    phrases = [phrase for phrase in question.phrases if phrase.text in vectors]
    seeds = [(name, seed) for name, seed in list_seeds(table) if seed in vectors]
    if not phrases or len({name for name, _ in seeds}) < 2:
        return question
    space = make_seeds([name for name, _ in seeds], [vectors[seed] for _, seed in seeds])
    has_cue = bool(question.reading.cues)
    similar = match_phrases(phrases, [vectors[p.text] for p in phrases], space, has_cue)
    return replace(question, reading=read_question(question.tokens, question.named, table, similar))


def name_nodes(named: Sequence[Named]) -> dict[str, float]:
    """The nodes that a question names, with their weights."""
    return {node: weight for name in named for node, weight in name.nodes.items()}
