-- Indexes that are taken away while many notes come in at once, and made again at the end, which takes a
-- fraction of the time. Should the run be killed between, the next one finds here what to make.

CREATE TABLE IF NOT EXISTS withdrawn_indexes (
    name TEXT PRIMARY KEY,
    definition TEXT NOT NULL
);

-- A run in which no name changed need not look where each link leads.
ALTER TABLE index_settings ADD COLUMN IF NOT EXISTS link_targets BYTEA;
