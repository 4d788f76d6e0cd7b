-- One row a note, where its chunks stand in it, and keyword data over text, heading path and path.

CREATE TABLE IF NOT EXISTS notes (
    file_path TEXT PRIMARY KEY,
    file_hash TEXT NOT NULL,
    title TEXT NOT NULL,
    aliases TEXT[] NOT NULL DEFAULT '{}',
    tags TEXT[] NOT NULL DEFAULT '{}',
    front_matter JSONB NOT NULL DEFAULT '{}',
    content TEXT NOT NULL,
    warnings TEXT[] NOT NULL DEFAULT '{}',
    size BIGINT NOT NULL,
    mtime_ns BIGINT NOT NULL,
    ctime_ns BIGINT NOT NULL,
    modified_at TIMESTAMPTZ NOT NULL,
    parser_version INTEGER,
    indexed_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS notes_file_hash_idx ON notes (file_hash);
CREATE INDEX IF NOT EXISTS notes_tags_idx ON notes USING gin (tags);

ALTER TABLE documents ADD COLUMN IF NOT EXISTS heading_path TEXT NOT NULL DEFAULT '';
ALTER TABLE documents ADD COLUMN IF NOT EXISTS path_terms TEXT;
ALTER TABLE documents ADD COLUMN IF NOT EXISTS start_line INTEGER;
ALTER TABLE documents ADD COLUMN IF NOT EXISTS end_line INTEGER;
ALTER TABLE documents ADD COLUMN IF NOT EXISTS overlap INTEGER NOT NULL DEFAULT 0;
ALTER TABLE documents ADD COLUMN IF NOT EXISTS content_hash BYTEA;
ALTER TABLE documents ADD COLUMN IF NOT EXISTS search_tsv TSVECTOR;
CREATE INDEX IF NOT EXISTS documents_content_hash_idx ON documents (content_hash);
CREATE INDEX IF NOT EXISTS documents_search_tsv_idx ON documents USING gin (search_tsv);

ALTER TABLE note_links ADD COLUMN IF NOT EXISTS kind TEXT NOT NULL DEFAULT 'wikilink';
ALTER TABLE note_links ADD COLUMN IF NOT EXISTS display_text TEXT;
ALTER TABLE note_links ADD COLUMN IF NOT EXISTS heading TEXT;
ALTER TABLE note_links ADD COLUMN IF NOT EXISTS block TEXT;
ALTER TABLE note_links ADD COLUMN IF NOT EXISTS property TEXT;
ALTER TABLE note_links ADD COLUMN IF NOT EXISTS line INTEGER;
ALTER TABLE note_links ADD COLUMN IF NOT EXISTS occurrences INTEGER NOT NULL DEFAULT 1;
ALTER TABLE note_links ADD COLUMN IF NOT EXISTS target_type TEXT;
ALTER TABLE note_links ADD COLUMN IF NOT EXISTS via TEXT;
