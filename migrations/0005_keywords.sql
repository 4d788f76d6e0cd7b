-- BM25 in plain SQL: postings with all that scoring needs, so that an index-only scan answers; the names of
-- notes; and what the statistics of the whole collection are.

ALTER TABLE notes ADD COLUMN IF NOT EXISTS id INTEGER GENERATED ALWAYS AS IDENTITY UNIQUE;
ALTER TABLE notes ADD COLUMN IF NOT EXISTS fts_config TEXT;
ALTER TABLE notes ADD COLUMN IF NOT EXISTS keyword_version INTEGER;
ALTER TABLE notes ADD COLUMN IF NOT EXISTS note_date DATE;
CREATE INDEX IF NOT EXISTS notes_note_date_idx ON notes (note_date);

CREATE TABLE IF NOT EXISTS postings (
    lexeme TEXT COLLATE "C" NOT NULL,
    note_id INTEGER NOT NULL,
    chunk_index INTEGER NOT NULL,
    tf SMALLINT NOT NULL,
    field_tf SMALLINT NOT NULL,
    chunk_length INTEGER NOT NULL,
    note_length INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS postings_lexeme_idx ON postings (lexeme)
    INCLUDE (note_id, chunk_index, tf, field_tf, chunk_length, note_length);
CREATE INDEX IF NOT EXISTS postings_note_idx ON postings (note_id);

CREATE TABLE IF NOT EXISTS note_names (
    note_id INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('title', 'alias', 'heading')),
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    words TEXT[] NOT NULL,
    trigrams TEXT[] NOT NULL
);
CREATE INDEX IF NOT EXISTS note_names_key_idx ON note_names (md5(key));
CREATE INDEX IF NOT EXISTS note_names_words_idx ON note_names USING gin (words);
CREATE INDEX IF NOT EXISTS note_names_trigrams_idx ON note_names USING gin (trigrams);
CREATE INDEX IF NOT EXISTS note_names_note_idx ON note_names (note_id);

CREATE TABLE IF NOT EXISTS keyword_stats (
    only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    notes BIGINT NOT NULL DEFAULT 0,
    chunks BIGINT NOT NULL DEFAULT 0,
    note_length BIGINT NOT NULL DEFAULT 0,
    chunk_length BIGINT NOT NULL DEFAULT 0
);
INSERT INTO keyword_stats DEFAULT VALUES ON CONFLICT DO NOTHING;

ALTER TABLE index_settings ADD COLUMN IF NOT EXISTS fusion_g REAL;
ALTER TABLE index_settings ADD COLUMN IF NOT EXISTS fusion_chunks BIGINT;
ALTER TABLE index_settings ADD COLUMN IF NOT EXISTS cosine_mean REAL;
ALTER TABLE index_settings ADD COLUMN IF NOT EXISTS cosine_spread REAL;
