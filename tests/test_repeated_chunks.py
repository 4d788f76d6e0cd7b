"""Chunks with the same text, as a template of daily notes makes them by thousands, hide no other chunk."""

from __future__ import annotations

import random

from conftest import VaultFolder, Workbench
from fault_bench import NewBench, assert_as_undisturbed, find_drift
from psycopg import sql

from obsidian_rag.index_reader import IndexReader
from obsidian_rag.postgres import Connection
from obsidian_rag.search.vector import explain_nearest, search_chunks

TEMPLATE = "## Tasks\n\n- [ ] water the plants\n- [ ] write the diary\n\n"
INDEXED = "SELECT count(*) FILTER (WHERE NOT repeated), count(DISTINCT content_hash) FROM documents"


def write_distinct(vault: VaultFolder, count: int) -> list[str]:
    """A note of many sections that have hardly a word in common; the text of each."""
    chance = random.Random(5)
    texts = [" ".join(f"w{chance.randrange(10**6):x}" for _ in range(8)) for _ in range(count)]
    vault.write("Knowledge.md", "".join(f"## Part\n\n{text}\n\n" for text in texts))
    return texts


def test_thousands_of_equal_chunks_cut_no_other_off_from_searches_by_meaning(bench: Workbench) -> None:
    bench.vault.write("Daily.md", TEMPLATE * 1500)
    texts = write_distinct(bench.vault, 200)
    bench.index()
    reader = IndexReader(bench.settings, lambda text: None)

    def find(conn: Connection) -> list[str]:
        conn.execute("SET enable_seqscan = off")  # an index of this size would be read whole
        vectors = reader.embed_queries(texts)
        missed = []
        for text, vector in zip(texts, vectors, strict=True):
            assert not isinstance(vector, Exception)
            assert '"Index Name": "documents_embedding_idx"' in explain_nearest(conn, vector)
            best = search_chunks(conn, vector, 30)[0]
            row = conn.execute(
                "SELECT content FROM documents WHERE (file_path, chunk_index) = (%s, %s)",
                (best.file_path, best.chunk_index),
            ).fetchone()
            if row is None or text not in row[0]:
                missed.append(text)
        return missed

    try:
        assert reader.run(find) == []
        vector = reader.embed_query("Tasks: water the plants, write the diary")
        hits = reader.run(lambda conn: search_chunks(conn, vector, 30))
        assert [(hit.file_path, hit.cosine) for hit in hits] == [("Daily.md", hits[0].cosine)] * 30
        assert len({hit.chunk_index for hit in hits}) == 30
    finally:
        reader.close()


def test_a_filter_finds_notes_whose_text_another_note_stands_for(bench: Workbench) -> None:
    """With so many notes allowed that the graph is searched."""
    for number in range(6):
        bench.vault.write(f"{'ab'[number % 2]}/Day {number}.md", TEMPLATE + f"## Own\n\nOnly in {number}.\n")
    bench.index()
    allowed = [row[0] for row in bench.rows("SELECT id FROM notes WHERE file_path LIKE 'b/%%'")]
    reader = IndexReader(bench.settings, lambda text: None)
    try:
        vector = reader.embed_query("water the plants")
        padded = [*allowed, *range(10**6, 10**6 + 3000)]
        hits = reader.run(lambda conn: search_chunks(conn, vector, 3, padded))
        assert [hit.file_path for hit in hits] == ["b/Day 1.md", "b/Day 3.md", "b/Day 5.md"]
    finally:
        reader.close()


def test_whatever_becomes_of_its_notes_each_text_stands_in_the_vector_index_once(
    bench: Workbench, new_bench: NewBench
) -> None:
    chance = random.Random(11)
    sections = [f"## {name}\n\nThe same in many notes: {name}.\n\n" for name in ("one", "two", "three")]
    names = [f"Note {number}.md" for number in range(8)]
    for _ in range(12):
        for name in chance.sample(names, 3):
            file = bench.vault.root / name
            step = chance.randrange(4)
            if step == 0 and file.exists() and len(list(bench.vault.root.iterdir())) > 2:
                file.unlink()
            elif step == 1 and file.exists():
                file.rename(file.with_name(chance.choice(names)))
            else:
                bench.vault.write(name, "".join(chance.choices(sections, k=chance.randrange(1, 5))))
        bench.index()
        indexed, texts = bench.rows(INDEXED)[0]
        assert indexed == texts
        assert find_drift(bench) == ()
    bench.index(full=True)
    assert bench.rows(INDEXED)[0] == (texts, texts)
    assert_as_undisturbed(bench, new_bench)


def test_a_text_whose_row_was_deleted_by_hand_is_told_and_made_findable_again(bench: Workbench) -> None:
    for number in range(3):
        bench.vault.write(f"Day {number}.md", TEMPLATE)
    bench.index()
    before = bench.tables()
    bench.execute("DELETE FROM documents WHERE NOT repeated")
    bench.execute("DELETE FROM notes WHERE file_path NOT IN (SELECT file_path FROM documents)")
    assert any("no meaning finds" in str(drift) for drift in find_drift(bench))
    bench.index(full=True)
    assert find_drift(bench) == ()
    assert bench.tables() == before


def test_an_index_made_before_is_brought_to_one_row_a_text(bench: Workbench) -> None:
    """What the migration does for an index that knows nothing of repeated chunks, and twice without harm."""
    from obsidian_rag.migrate import load_migrations
    from obsidian_rag.postgres import connect

    for number in range(3):
        bench.vault.write(f"Day {number}.md", f"{TEMPLATE}## Own\n\nOnly in {number}.\n")
    bench.index()
    bench.execute("ALTER TABLE documents DROP COLUMN repeated")
    bench.execute("DROP INDEX IF EXISTS documents_embedding_idx")
    bench.execute(
        "CREATE INDEX documents_embedding_idx ON documents USING hnsw (embedding vector_cosine_ops)"
    )
    migration = next(m for m in load_migrations() if m.version == 8)
    for _ in range(2):
        with connect(bench.database_url) as conn:
            conn.execute(sql.SQL(migration.text))  # type: ignore[arg-type]
        assert bench.rows(INDEXED)[0] == (4, 4)
    definition = bench.rows("SELECT pg_get_indexdef('documents_embedding_idx'::regclass)")[0][0]
    assert definition.endswith("(((embedding)::halfvec(64)) halfvec_cosine_ops) WHERE (NOT repeated)")
