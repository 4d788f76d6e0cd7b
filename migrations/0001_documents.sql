-- The first schema: chunks with their vectors, and the links between notes. A database that already has
-- these tables keeps them, rows and all.

CREATE EXTENSION IF NOT EXISTS vector;

CREATE TABLE IF NOT EXISTS documents (
    id SERIAL PRIMARY KEY,
    file_path TEXT NOT NULL,
    file_hash TEXT NOT NULL,
    chunk_index INTEGER NOT NULL,
    heading TEXT,
    content TEXT NOT NULL,
    embedding vector(768) NOT NULL,
    content_tsv TSVECTOR,
    metadata JSONB DEFAULT '{}',
    updated_at TIMESTAMP DEFAULT NOW(),
    UNIQUE (file_path, chunk_index)
);
CREATE INDEX IF NOT EXISTS documents_embedding_idx ON documents USING hnsw (embedding vector_cosine_ops);
CREATE INDEX IF NOT EXISTS documents_content_tsv_idx ON documents USING gin (content_tsv);

CREATE TABLE IF NOT EXISTS note_links (
    id SERIAL PRIMARY KEY,
    source_path TEXT NOT NULL,
    target_name TEXT NOT NULL,
    target_path TEXT,
    updated_at TIMESTAMP DEFAULT now()
);
CREATE INDEX IF NOT EXISTS note_links_source_idx ON note_links (source_path);
CREATE INDEX IF NOT EXISTS note_links_target_path_idx ON note_links (target_path);
