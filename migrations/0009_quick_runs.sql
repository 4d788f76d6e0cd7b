-- Indexes that are taken away while many notes come in at once, and made again at the end, which takes a
-- fraction of the time. Should the run be killed between, the next one finds here what to make.

CREATE TABLE IF NOT EXISTS withdrawn_indexes (
    name TEXT PRIMARY KEY
);

-- A run in which no name changed need not look where each link leads.
ALTER TABLE index_settings ADD COLUMN IF NOT EXISTS link_targets BYTEA;

-- Lexemes that very many chunks hold: a search looks at the notes that say most of them, and at all others only
-- where these hold its rarer words as well.
CREATE TABLE IF NOT EXISTS frequent_lexemes (
    lexeme TEXT COLLATE "C" PRIMARY KEY,
    chunks INTEGER NOT NULL,
    notes INTEGER NOT NULL,
    champions INTEGER[] NOT NULL
);
ALTER TABLE index_settings ADD COLUMN IF NOT EXISTS fts_configs TEXT[] NOT NULL DEFAULT '{}';
ALTER TABLE index_settings ADD COLUMN IF NOT EXISTS counted_chunks BIGINT;
ALTER TABLE index_settings ADD COLUMN IF NOT EXISTS fresh_notes INTEGER[] NOT NULL DEFAULT '{}';

-- So the postings of one lexeme in one note are found without reading those of all notes.
DO $$
BEGIN
    IF pg_get_indexdef(to_regclass('postings_lexeme_idx')) NOT LIKE '%(lexeme, note_id)%' THEN
        DROP INDEX postings_lexeme_idx;
        CREATE INDEX postings_lexeme_idx ON postings (lexeme, note_id)
            INCLUDE (chunk_index, tf, field_tf, chunk_length, note_length);
    END IF;
END
$$;
