-- What the index was made with, what each run did, and the views a person wants in psql.

CREATE TABLE IF NOT EXISTS index_settings (
    only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    vaults TEXT[] NOT NULL,
    embedder TEXT,
    embed_model TEXT,
    dimensions INTEGER,
    embed_window INTEGER,
    fts_config TEXT NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS index_runs (
    run_id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    started_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    finished_at TIMESTAMPTZ,
    status TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'ok', 'partial', 'failed')),
    error TEXT,
    report JSONB NOT NULL DEFAULT '{}'
);

CREATE TABLE IF NOT EXISTS index_failures (
    run_id BIGINT NOT NULL REFERENCES index_runs ON DELETE CASCADE,
    file_path TEXT NOT NULL,
    stage TEXT NOT NULL,
    error TEXT NOT NULL,
    failed_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS index_failures_run_idx ON index_failures (run_id);

CREATE OR REPLACE VIEW broken_links AS
    SELECT source_path, line, kind, target_name, heading, block, display_text, occurrences
    FROM note_links
    WHERE target_type = 'unresolved'
    ORDER BY source_path, line;

CREATE OR REPLACE VIEW orphans AS
    SELECT n.file_path, n.title
    FROM notes n
    WHERE NOT EXISTS (
        SELECT FROM note_links l
        WHERE l.target_type = 'note' AND l.source_path <> l.target_path
            AND (l.source_path = n.file_path OR l.target_path = n.file_path))
    ORDER BY n.file_path;

CREATE OR REPLACE VIEW last_run AS
    SELECT run_id, started_at, finished_at, status, error, report
    FROM index_runs ORDER BY run_id DESC LIMIT 1;

CREATE OR REPLACE VIEW failures AS
    SELECT file_path, stage, error, failed_at
    FROM index_failures
    WHERE run_id = (SELECT max(run_id) FROM index_runs WHERE status IN ('ok', 'partial'))
    ORDER BY file_path;
