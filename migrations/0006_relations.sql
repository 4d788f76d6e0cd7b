-- How links connect notes: the sentences links stand in, what those say, and the words by which a note is
-- meant inside a question. The indexer fills them from the notes; nothing is embedded again.

ALTER TABLE note_links ADD COLUMN IF NOT EXISTS relation TEXT;
ALTER TABLE note_links ADD COLUMN IF NOT EXISTS sentence TEXT;
CREATE INDEX IF NOT EXISTS note_links_relation_idx ON note_links (relation);
-- By hash, which takes a name of any length.
CREATE INDEX IF NOT EXISTS note_links_unresolved_idx ON note_links USING hash (lower(target_name))
    WHERE target_type = 'unresolved';

CREATE TABLE IF NOT EXISTS link_mentions (
    link_id INTEGER NOT NULL REFERENCES note_links ON DELETE CASCADE,
    source_path TEXT NOT NULL,
    sentence_no INTEGER NOT NULL,
    line INTEGER NOT NULL,
    sentence TEXT NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    context TEXT NOT NULL DEFAULT '',
    label TEXT,
    relations JSONB NOT NULL DEFAULT '{}'
);
CREATE INDEX IF NOT EXISTS link_mentions_link_idx ON link_mentions (link_id);
CREATE INDEX IF NOT EXISTS link_mentions_sentence_idx ON link_mentions (source_path, sentence_no);

CREATE TABLE IF NOT EXISTS link_names (
    text TEXT NOT NULL,
    node TEXT NOT NULL,
    key TEXT NOT NULL,
    uses INTEGER NOT NULL,
    share REAL NOT NULL,
    PRIMARY KEY (text, node)
);
CREATE INDEX IF NOT EXISTS link_names_key_idx ON link_names (md5(key));

ALTER TABLE note_names DROP CONSTRAINT IF EXISTS note_names_kind_check;
ALTER TABLE note_names ADD CONSTRAINT note_names_kind_check
    CHECK (kind IN ('title', 'alias', 'heading', 'called', 'short', 'part'));

ALTER TABLE index_settings ADD COLUMN IF NOT EXISTS relation_rules BYTEA;
