-- Indexes that are taken away while many notes come in at once, and made again at the end, which takes a
-- fraction of the time. Should the run be killed between, the next one finds here what to make.

CREATE TABLE IF NOT EXISTS withdrawn_indexes (
    name TEXT PRIMARY KEY,
    definition TEXT NOT NULL
);
-- What stands there is carried out as the tables' owner, who alone can take an index away.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'rag_indexer') THEN
        REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON withdrawn_indexes FROM rag_indexer;
    END IF;
END
$$;

-- A run in which no name changed need not look where each link leads.
ALTER TABLE index_settings ADD COLUMN IF NOT EXISTS link_targets BYTEA;
