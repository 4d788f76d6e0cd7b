-- The index of obsidian-rag, for a person with psql. Made by the migrations in migrations/, which a test
-- holds equal to this file; change both. Everything here can be made again from the vault, except the time
-- that the embeddings took.

CREATE EXTENSION IF NOT EXISTS vector;

-- One row a chunk: a piece of one section of one note.
CREATE TABLE documents (
    id SERIAL PRIMARY KEY,
    file_path TEXT NOT NULL,                    -- the note, relative to the vault, with /
    file_hash TEXT NOT NULL,                    -- of the file's bytes: SHA-256 (older rows: MD5 or SHA-1)
    chunk_index INTEGER NOT NULL,               -- from 0, in the order of the note's text
    heading TEXT,                               -- of the section; NULL before the first heading
    content TEXT NOT NULL,                      -- the chunk's text, heading line included
    embedding vector(768) NOT NULL,             -- length 1; the dimensions follow the recorded embedder
    content_tsv TSVECTOR,                       -- the words of content
    metadata JSONB DEFAULT '{}',                -- the note's title and tags
    updated_at TIMESTAMP DEFAULT NOW(),
    heading_path TEXT NOT NULL DEFAULT '',      -- 'Outer > Inner'
    path_terms TEXT,                            -- the words of file_path
    start_line INTEGER,                         -- in the file, from 1; NULL where an older row has none
    end_line INTEGER,
    overlap INTEGER NOT NULL DEFAULT 0,         -- so many first characters of content repeat earlier text
    content_hash BYTEA,                         -- of the embedded text; equal text shares one vector
    search_tsv TSVECTOR,                        -- weighted words: A path, B heading path, D content
    repeated BOOLEAN NOT NULL DEFAULT FALSE,    -- its text is that of a row which the vector index has
    UNIQUE (file_path, chunk_index)
);
CREATE INDEX documents_embedding_idx ON documents
    USING hnsw ((embedding::halfvec(768)) halfvec_cosine_ops)
    WHERE NOT repeated;                         -- one row of each text
CREATE INDEX documents_repeated_idx ON documents (file_path) INCLUDE (content_hash) WHERE repeated;
CREATE INDEX documents_content_tsv_idx ON documents USING gin (content_tsv);
CREATE INDEX documents_content_hash_idx ON documents (content_hash);
CREATE INDEX documents_search_tsv_idx ON documents USING gin (search_tsv);

-- One row for each distinct link of a note, as it is written.
CREATE TABLE note_links (
    id SERIAL PRIMARY KEY,
    source_path TEXT NOT NULL,                  -- the note that links
    target_name TEXT NOT NULL,                  -- as written, without heading, block and display text
    target_path TEXT,                           -- what it leads to, by Obsidian's rules; NULL: nothing
    updated_at TIMESTAMP DEFAULT now(),
    kind TEXT NOT NULL DEFAULT 'wikilink',      -- wikilink, embed, markdown, markdown_embed, property
    display_text TEXT,
    heading TEXT,                               -- after #; 'H1#H2' for a chain
    block TEXT,                                 -- after #^
    property TEXT,                              -- the front matter key of a property link
    line INTEGER,                               -- of the first occurrence
    occurrences INTEGER NOT NULL DEFAULT 1,
    target_type TEXT,                           -- note, attachment, unresolved
    via TEXT,                                   -- name, or alias: an addition to Obsidian's rules
    relation TEXT,                              -- what the text says of the two: founded, author
    sentence TEXT                               -- that says so, else the first in which the link stands
);
CREATE INDEX note_links_source_idx ON note_links (source_path);
CREATE INDEX note_links_target_path_idx ON note_links (target_path);
CREATE INDEX note_links_relation_idx ON note_links (relation);
CREATE INDEX note_links_unresolved_idx ON note_links USING hash (lower(target_name))
    WHERE target_type = 'unresolved';

-- One row for each place at which a link stands (the first 16 of each), with what the text around it says.
CREATE TABLE link_mentions (
    link_id INTEGER NOT NULL REFERENCES note_links ON DELETE CASCADE,
    source_path TEXT NOT NULL,                  -- of the link
    sentence_no INTEGER NOT NULL,               -- in the note; links of one sentence share it
    line INTEGER NOT NULL,
    sentence TEXT NOT NULL,                     -- as it reads, links by display text; empty for a property
    first INTEGER NOT NULL,                     -- where the link's text begins in it
    last INTEGER NOT NULL,                      -- where the link's text ends in it
    context TEXT NOT NULL DEFAULT '',           -- the heading, list item or table column it stands under
    label TEXT,                                 -- written before it as its type: a property's key, 'Author:'
    relations JSONB NOT NULL DEFAULT '{}'       -- relation -> how sure, from 0 to 1
);
CREATE INDEX link_mentions_link_idx ON link_mentions (link_id);
CREATE INDEX link_mentions_sentence_idx ON link_mentions (source_path, sentence_no);

-- By which words links mean a note, or a note still to be written.
CREATE TABLE link_names (
    text TEXT NOT NULL,                         -- as it is shown
    node TEXT NOT NULL,                         -- path of the note, or '?' and the name that leads nowhere
    key TEXT NOT NULL,                          -- its words, folded, in lower case
    uses INTEGER NOT NULL,                      -- how often links are shown so
    share REAL NOT NULL,                        -- how many of all links to the note, from 0 to 1
    PRIMARY KEY (text, node)
);
CREATE INDEX link_names_key_idx ON link_names (md5(key));

-- One row a note.
CREATE TABLE notes (
    file_path TEXT PRIMARY KEY,
    file_hash TEXT NOT NULL,                    -- of the file's bytes
    title TEXT NOT NULL,                        -- the file's name without .md
    aliases TEXT[] NOT NULL DEFAULT '{}',
    tags TEXT[] NOT NULL DEFAULT '{}',          -- without #, from front matter and text
    front_matter JSONB NOT NULL DEFAULT '{}',   -- the properties
    content TEXT NOT NULL,                      -- the whole file's text
    warnings TEXT[] NOT NULL DEFAULT '{}',      -- what could not be read as meant
    size BIGINT NOT NULL,                       -- bytes
    mtime_ns BIGINT NOT NULL,                   -- of the file, for a quick look whether it changed
    ctime_ns BIGINT NOT NULL,
    modified_at TIMESTAMPTZ NOT NULL,
    parser_version INTEGER,                     -- a newer parser reads every note again
    indexed_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    id INTEGER GENERATED ALWAYS AS IDENTITY UNIQUE, -- what postings and names refer to
    fts_config TEXT,                            -- text search configuration of this note's words
    keyword_version INTEGER,                    -- of the analysis that made its postings; NULL: none yet
    note_date DATE,                             -- the day the note is about: property, name, or file time
    chunks INTEGER NOT NULL DEFAULT 0           -- of the note in documents
);
CREATE INDEX notes_note_date_idx ON notes (note_date);
CREATE INDEX notes_file_hash_idx ON notes (file_hash);
CREATE INDEX notes_tags_idx ON notes USING gin (tags);

-- What the index was made with: one row.
CREATE TABLE index_settings (
    only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    vaults TEXT[] NOT NULL,
    embedder TEXT,                              -- ollama or local
    embed_model TEXT,
    dimensions INTEGER,
    embed_window INTEGER,                       -- tokens the model sees at once
    fts_config TEXT NOT NULL,                   -- text search configuration of the words
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    fusion_g REAL,                              -- how far vectors are trusted beside words, from 0 to 1
    fusion_chunks BIGINT,                       -- chunks in the index when fusion_g was measured
    cosine_mean REAL,                           -- of questions and chunks that have nothing to do with them
    cosine_spread REAL,                         -- standard deviation of these cosines
    relation_rules BYTEA,                       -- hash of the rules by which links were typed
    reembedded_at TIMESTAMPTZ,                  -- when the vectors were last changed for another embedder's
    link_targets BYTEA,                         -- hash of the names by which all links were resolved
    fts_configs TEXT[] NOT NULL DEFAULT '{}',   -- configurations of the notes, the commonest first
    counted_chunks BIGINT,                      -- chunks when frequent_lexemes was filled; NULL: it is not
    fresh_notes INTEGER[] NOT NULL DEFAULT '{}' -- ids of the notes written since frequent_lexemes was filled
);

-- A change of the embedder that is not finished, in one row; none otherwise. The vectors of documents are
-- those of index_settings until it is.
CREATE TABLE reembedding (
    only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    embedder TEXT NOT NULL,                     -- ollama or local: whose vectors come next
    embed_model TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    embed_window INTEGER NOT NULL,              -- tokens the model sees at once
    texts BIGINT NOT NULL DEFAULT 0,            -- how many different texts are to be embedded
    started_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- The vectors made for it so far, so that an interrupted run goes on where it stood.
CREATE TABLE reembedded (
    content_hash BYTEA PRIMARY KEY,             -- of the embedded text, as in documents
    embedding vector NOT NULL
);

-- How often a term occurs in a chunk, with all that BM25 needs of it: read by index-only scans.
CREATE TABLE postings (
    lexeme TEXT COLLATE "C" NOT NULL,
    note_id INTEGER NOT NULL,                   -- notes.id
    chunk_index INTEGER NOT NULL,
    tf SMALLINT NOT NULL,                       -- occurrences in the chunk's own text
    field_tf SMALLINT NOT NULL,                 -- weighted occurrences in heading path, path and aliases
    chunk_length INTEGER NOT NULL,              -- all terms of the chunk
    note_length INTEGER NOT NULL                -- all terms of the note
);
CREATE INDEX postings_lexeme_idx ON postings (lexeme, note_id)
    INCLUDE (chunk_index, tf, field_tf, chunk_length, note_length);
CREATE INDEX postings_note_idx ON postings (note_id);

-- What a note is called: its title, aliases and headings, to be found as wholes, in part and with a slip; and
-- what it is called inside a question: `called` by its property title or first heading, `short` without what
-- stands behind a dash or in brackets, `part` the beginning or end of a name.
CREATE TABLE note_names (
    note_id INTEGER NOT NULL,                   -- notes.id
    kind TEXT NOT NULL CHECK (kind IN ('title', 'alias', 'heading', 'called', 'short', 'part')),
    name TEXT NOT NULL,                         -- as written
    key TEXT NOT NULL,                          -- its words, folded, in lower case
    words TEXT[] NOT NULL,                      -- the words of key
    trigrams TEXT[] NOT NULL                    -- of key, for titles and aliases
);
CREATE INDEX note_names_key_idx ON note_names (md5(key));
CREATE INDEX note_names_words_idx ON note_names USING gin (words);
CREATE INDEX note_names_trigrams_idx ON note_names USING gin (trigrams);
CREATE INDEX note_names_note_idx ON note_names (note_id);

-- Lexemes that very many chunks hold, with the notes that say most of each, so that a search need not read
-- all their postings. Counted when the index has changed by a few percent.
CREATE TABLE frequent_lexemes (
    lexeme TEXT COLLATE "C" PRIMARY KEY,
    chunks INTEGER NOT NULL,                    -- that hold it
    notes INTEGER NOT NULL,
    champions INTEGER[] NOT NULL                -- notes.id of those that say most of it
);

-- Sums over notes and chunks, kept up with every note: one row.
CREATE TABLE keyword_stats (
    only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    notes BIGINT NOT NULL DEFAULT 0,
    chunks BIGINT NOT NULL DEFAULT 0,
    note_length BIGINT NOT NULL DEFAULT 0,      -- of all notes, in terms
    chunk_length BIGINT NOT NULL DEFAULT 0      -- of all chunks, in terms
);
INSERT INTO keyword_stats DEFAULT VALUES;

-- What each run of the indexer did.
CREATE TABLE index_runs (
    run_id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    started_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    finished_at TIMESTAMPTZ,
    status TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'ok', 'partial', 'failed')),
    error TEXT,                                 -- why a run failed as a whole
    report JSONB NOT NULL DEFAULT '{}'          -- its counts, failures and warnings
);

-- Which notes a run could not bring in, and why.
CREATE TABLE index_failures (
    run_id BIGINT NOT NULL REFERENCES index_runs ON DELETE CASCADE,
    file_path TEXT NOT NULL,
    stage TEXT NOT NULL,                        -- walk, read, parse, embed, store
    error TEXT NOT NULL,                        -- why
    failed_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX index_failures_run_idx ON index_failures (run_id);

-- Indexes that are taken away while many notes come in at once; empty otherwise.
CREATE TABLE withdrawn_indexes (
    name TEXT PRIMARY KEY                       -- of an index of documents, postings or note_names
);

-- Links that lead nowhere: a slip, or a note still to be written.
CREATE VIEW broken_links AS
    SELECT
        source_path,                            -- the note that links
        line,                                   -- of the first occurrence
        kind,                                   -- wikilink, embed, markdown, markdown_embed, property
        target_name,                            -- as written
        heading,                                -- after #
        block,                                  -- after #^
        display_text,                           -- after |, or in the brackets of a Markdown link
        occurrences                             -- in the note
    FROM note_links
    WHERE target_type = 'unresolved'
    ORDER BY source_path, line;

-- Notes without a link from or to another note.
CREATE VIEW orphans AS
    SELECT
        n.file_path,
        n.title
    FROM notes n
    WHERE NOT EXISTS (
        SELECT FROM note_links l
        WHERE l.target_type = 'note' AND l.source_path <> l.target_path
            AND (l.source_path = n.file_path OR l.target_path = n.file_path))
    ORDER BY n.file_path;

-- The links to each note from others, with what their sentences say.
CREATE VIEW backlinks AS
    SELECT
        target_path AS file_path,               -- the note that is linked to
        source_path,                            -- the note that links to it
        line,                                   -- of the first occurrence
        kind,                                   -- wikilink, embed, markdown, markdown_embed, property
        relation,                               -- what the text says of the two; NULL: nothing known
        sentence,                               -- that says so, else the first in which the link stands
        occurrences                             -- in the note that links
    FROM note_links
    WHERE target_type = 'note' AND source_path <> target_path
    ORDER BY target_path, source_path, line;

-- How many other notes each note has links from and to, the most linked first.
CREATE VIEW link_counts AS
    SELECT
        n.file_path,
        n.title,
        coalesce(i.notes, 0) AS linked_from,    -- so many other notes link to it
        coalesce(o.notes, 0) AS links_to,       -- so many other notes it links to
        coalesce(o.broken, 0) AS broken         -- so many of its links lead nowhere
    FROM notes n
    LEFT JOIN (
        SELECT target_path, count(DISTINCT source_path) AS notes
        FROM note_links
        WHERE target_type = 'note' AND source_path <> target_path
        GROUP BY target_path) i ON i.target_path = n.file_path
    LEFT JOIN (
        SELECT source_path,
            count(DISTINCT target_path)
                FILTER (WHERE target_type = 'note' AND source_path <> target_path) AS notes,
            count(*) FILTER (WHERE target_type = 'unresolved') AS broken
        FROM note_links
        GROUP BY source_path) o ON o.source_path = n.file_path
    ORDER BY linked_from DESC, n.file_path;

-- The tags, and how many notes have each, the commonest first.
CREATE VIEW tag_counts AS
    SELECT
        min(p.tag) AS tag,                      -- without #; case does not tell tags apart
        count(DISTINCT n.file_path) AS notes,   -- that have it or one nested in it, as a/b is in a
        count(DISTINCT n.file_path) FILTER (WHERE p.written) AS written -- notes that have exactly it
    FROM notes n
    CROSS JOIN unnest(n.tags) AS t (tag)
    CROSS JOIN string_to_array(t.tag, '/') AS s (parts)
    CROSS JOIN generate_series(1, cardinality(s.parts)) AS g (depth)
    CROSS JOIN LATERAL (
        SELECT array_to_string(s.parts[:g.depth], '/') AS tag, g.depth = cardinality(s.parts) AS written) AS p
    GROUP BY lower(p.tag)
    ORDER BY notes DESC, tag;

-- How much room each table takes, the largest first.
CREATE VIEW table_sizes AS
    SELECT
        relname::text AS name,
        CASE WHEN reltuples >= 0 THEN reltuples::bigint END AS rows, -- about; NULL: not counted yet
        pg_total_relation_size(oid) AS bytes,   -- with its indexes
        pg_size_pretty(pg_total_relation_size(oid)) AS size -- the same in kB, MB or GB
    FROM pg_class
    WHERE relkind = 'r' AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'notes'::regclass)
    ORDER BY bytes DESC, name;

-- The newest run of the indexer, finished or not.
CREATE VIEW last_run AS
    SELECT
        run_id,
        started_at,
        finished_at,                            -- NULL while it runs, or where it was killed
        status,                                 -- running, ok, partial (some notes failed), failed
        error,                                  -- why the run failed as a whole
        report                                  -- its counts, failures and warnings
    FROM index_runs ORDER BY run_id DESC LIMIT 1;

-- Notes that are not in the index as they are on disk, after the last run that came to its end.
CREATE VIEW failures AS
    SELECT
        file_path,
        stage,                                  -- walk, read, parse, embed, store
        error,                                  -- why
        failed_at
    FROM index_failures
    WHERE run_id = (SELECT max(run_id) FROM index_runs WHERE status IN ('ok', 'partial'))
    ORDER BY file_path;

-- Also made by the migrations: the ledger schema_migrations, and the roles rag_indexer (writes) and
-- rag_reader (reads), which cannot log in by themselves. What this file says of tables, views and columns is
-- in the database too, as comments: \d+ notes. No view reads documents, because a change of the embedder
-- puts another table in its place.
