-- Changing the embedder: which model comes next, and the vectors made with it so far, beside those in use.

CREATE TABLE IF NOT EXISTS reembedding (
    only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    embedder TEXT NOT NULL,
    embed_model TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    embed_window INTEGER NOT NULL,
    texts BIGINT NOT NULL DEFAULT 0,
    started_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS reembedded (
    content_hash BYTEA PRIMARY KEY,
    embedding vector NOT NULL
);

ALTER TABLE index_settings ADD COLUMN IF NOT EXISTS reembedded_at TIMESTAMPTZ;
