-- Views that answer what people ask their index, and what schema.sql says of tables, views and columns as
-- comments, so that \d+ shows it. A comment of somebody's own stays.
-- None of the views reads documents: a change of the embedder puts another table in its place.

CREATE OR REPLACE VIEW backlinks AS
    SELECT
        target_path AS file_path,
        source_path,
        line,
        kind,
        relation,
        sentence,
        occurrences
    FROM note_links
    WHERE target_type = 'note' AND source_path <> target_path
    ORDER BY target_path, source_path, line;

CREATE OR REPLACE VIEW link_counts AS
    SELECT
        n.file_path,
        n.title,
        coalesce(i.notes, 0) AS linked_from,
        coalesce(o.notes, 0) AS links_to,
        coalesce(o.broken, 0) AS broken
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

CREATE OR REPLACE VIEW tag_counts AS
    SELECT
        min(p.tag) AS tag,
        count(DISTINCT n.file_path) AS notes,
        count(DISTINCT n.file_path) FILTER (WHERE p.written) AS written
    FROM notes n
    CROSS JOIN unnest(n.tags) AS t (tag)
    CROSS JOIN string_to_array(t.tag, '/') AS s (parts)
    CROSS JOIN generate_series(1, cardinality(s.parts)) AS g (depth)
    CROSS JOIN LATERAL (
        SELECT array_to_string(s.parts[:g.depth], '/') AS tag, g.depth = cardinality(s.parts) AS written) AS p
    GROUP BY lower(p.tag)
    ORDER BY notes DESC, tag;

CREATE OR REPLACE VIEW table_sizes AS
    SELECT
        relname::text AS name,
        CASE WHEN reltuples >= 0 THEN reltuples::bigint END AS rows,
        pg_total_relation_size(oid) AS bytes,
        pg_size_pretty(pg_total_relation_size(oid)) AS size
    FROM pg_class
    WHERE relkind = 'r' AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'notes'::regclass)
    ORDER BY bytes DESC, name;

DO $$
DECLARE
    described RECORD;
BEGIN
    FOR described IN
        SELECT k.relname, k.relkind, a.attname, c.about
        FROM (VALUES
            ('documents', NULL, 'One row a chunk: a piece of one section of one note.'),
            ('documents', 'file_path', 'the note, relative to the vault, with /'),
            ('documents', 'file_hash', 'of the file''s bytes: SHA-256 (older rows: MD5 or SHA-1)'),
            ('documents', 'chunk_index', 'from 0, in the order of the note''s text'),
            ('documents', 'heading', 'of the section; NULL before the first heading'),
            ('documents', 'content', 'the chunk''s text, heading line included'),
            ('documents', 'embedding', 'length 1; the dimensions follow the recorded embedder'),
            ('documents', 'content_tsv', 'the words of content'),
            ('documents', 'metadata', 'the note''s title and tags'),
            ('documents', 'heading_path', '''Outer > Inner'''),
            ('documents', 'path_terms', 'the words of file_path'),
            ('documents', 'start_line', 'in the file, from 1; NULL where an older row has none'),
            ('documents', 'overlap', 'so many first characters of content repeat earlier text'),
            ('documents', 'content_hash', 'of the embedded text; equal text shares one vector'),
            ('documents', 'search_tsv', 'weighted words: A path, B heading path, D content'),
            ('documents', 'repeated', 'its text is that of a row which the vector index has'),
            ('note_links', NULL, 'One row for each distinct link of a note, as it is written.'),
            ('note_links', 'source_path', 'the note that links'),
            ('note_links', 'target_name', 'as written, without heading, block and display text'),
            ('note_links', 'target_path', 'what it leads to, by Obsidian''s rules; NULL: nothing'),
            ('note_links', 'kind', 'wikilink, embed, markdown, markdown_embed, property'),
            ('note_links', 'heading', 'after #; ''H1#H2'' for a chain'),
            ('note_links', 'block', 'after #^'),
            ('note_links', 'property', 'the front matter key of a property link'),
            ('note_links', 'line', 'of the first occurrence'),
            ('note_links', 'target_type', 'note, attachment, unresolved'),
            ('note_links', 'via', 'name, or alias: an addition to Obsidian''s rules'),
            ('note_links', 'relation', 'what the text says of the two: founded, author'),
            ('note_links', 'sentence', 'that says so, else the first in which the link stands'),
            ('link_mentions', NULL,
             'One row for each place at which a link stands (the first 16 of each), with what the '
             'text around it says.'),
            ('link_mentions', 'source_path', 'of the link'),
            ('link_mentions', 'sentence_no', 'in the note; links of one sentence share it'),
            ('link_mentions', 'sentence', 'as it reads, links by display text; empty for a property'),
            ('link_mentions', 'first', 'where the link''s text begins in it'),
            ('link_mentions', 'last', 'where the link''s text ends in it'),
            ('link_mentions', 'context', 'the heading, list item or table column it stands under'),
            ('link_mentions', 'label', 'written before it as its type: a property''s key, ''Author:'''),
            ('link_mentions', 'relations', 'relation -> how sure, from 0 to 1'),
            ('link_names', NULL, 'By which words links mean a note, or a note still to be written.'),
            ('link_names', 'text', 'as it is shown'),
            ('link_names', 'node', 'path of the note, or ''?'' and the name that leads nowhere'),
            ('link_names', 'key', 'its words, folded, in lower case'),
            ('link_names', 'uses', 'how often links are shown so'),
            ('link_names', 'share', 'how many of all links to the note, from 0 to 1'),
            ('notes', NULL, 'One row a note.'),
            ('notes', 'file_hash', 'of the file''s bytes'),
            ('notes', 'title', 'the file''s name without .md'),
            ('notes', 'tags', 'without #, from front matter and text'),
            ('notes', 'front_matter', 'the properties'),
            ('notes', 'content', 'the whole file''s text'),
            ('notes', 'warnings', 'what could not be read as meant'),
            ('notes', 'size', 'bytes'),
            ('notes', 'mtime_ns', 'of the file, for a quick look whether it changed'),
            ('notes', 'parser_version', 'a newer parser reads every note again'),
            ('notes', 'id', 'what postings and names refer to'),
            ('notes', 'fts_config', 'text search configuration of this note''s words'),
            ('notes', 'keyword_version', 'of the analysis that made its postings; NULL: none yet'),
            ('notes', 'note_date', 'the day the note is about: property, name, or file time'),
            ('notes', 'chunks', 'of the note in documents'),
            ('index_settings', NULL, 'What the index was made with: one row.'),
            ('index_settings', 'embedder', 'ollama or local'),
            ('index_settings', 'embed_window', 'tokens the model sees at once'),
            ('index_settings', 'fts_config', 'text search configuration of the words'),
            ('index_settings', 'fusion_g', 'how far vectors are trusted beside words, from 0 to 1'),
            ('index_settings', 'fusion_chunks', 'chunks in the index when fusion_g was measured'),
            ('index_settings', 'cosine_mean', 'of questions and chunks that have nothing to do with them'),
            ('index_settings', 'cosine_spread', 'standard deviation of these cosines'),
            ('index_settings', 'relation_rules', 'hash of the rules by which links were typed'),
            ('index_settings', 'reembedded_at', 'when the vectors were last changed for another embedder''s'),
            ('index_settings', 'link_targets', 'hash of the names by which all links were resolved'),
            ('index_settings', 'fts_configs', 'configurations of the notes, the commonest first'),
            ('index_settings', 'counted_chunks', 'chunks when frequent_lexemes was filled; NULL: it is not'),
            ('index_settings', 'fresh_notes', 'ids of the notes written since frequent_lexemes was filled'),
            ('reembedding', NULL,
             'A change of the embedder that is not finished, in one row; none otherwise. The '
             'vectors of documents are those of index_settings until it is.'),
            ('reembedding', 'embedder', 'ollama or local: whose vectors come next'),
            ('reembedding', 'embed_window', 'tokens the model sees at once'),
            ('reembedding', 'texts', 'how many different texts are to be embedded'),
            ('reembedded', NULL,
             'The vectors made for it so far, so that an interrupted run goes on where it stood.'),
            ('reembedded', 'content_hash', 'of the embedded text, as in documents'),
            ('postings', NULL,
             'How often a term occurs in a chunk, with all that BM25 needs of it: read by '
             'index-only scans.'),
            ('postings', 'note_id', 'notes.id'),
            ('postings', 'tf', 'occurrences in the chunk''s own text'),
            ('postings', 'field_tf', 'weighted occurrences in heading path, path and aliases'),
            ('postings', 'chunk_length', 'all terms of the chunk'),
            ('postings', 'note_length', 'all terms of the note'),
            ('note_names', NULL,
             'What a note is called: its title, aliases and headings, to be found as wholes, in '
             'part and with a slip; and what it is called inside a question: `called` by its '
             'property title or first heading, `short` without what stands behind a dash or in '
             'brackets, `part` the beginning or end of a name.'),
            ('note_names', 'note_id', 'notes.id'),
            ('note_names', 'name', 'as written'),
            ('note_names', 'key', 'its words, folded, in lower case'),
            ('note_names', 'words', 'the words of key'),
            ('note_names', 'trigrams', 'of key, for titles and aliases'),
            ('frequent_lexemes', NULL,
             'Lexemes that very many chunks hold, with the notes that say most of each, so that a '
             'search need not read all their postings. Counted when the index has changed by a few '
             'percent.'),
            ('frequent_lexemes', 'chunks', 'that hold it'),
            ('frequent_lexemes', 'champions', 'notes.id of those that say most of it'),
            ('keyword_stats', NULL, 'Sums over notes and chunks, kept up with every note: one row.'),
            ('keyword_stats', 'note_length', 'of all notes, in terms'),
            ('keyword_stats', 'chunk_length', 'of all chunks, in terms'),
            ('index_runs', NULL, 'What each run of the indexer did.'),
            ('index_runs', 'error', 'why a run failed as a whole'),
            ('index_runs', 'report', 'its counts, failures and warnings'),
            ('index_failures', NULL, 'Which notes a run could not bring in, and why.'),
            ('index_failures', 'stage', 'walk, read, parse, embed, store'),
            ('index_failures', 'error', 'why'),
            ('withdrawn_indexes', NULL,
             'Indexes that are taken away while many notes come in at once; empty otherwise.'),
            ('withdrawn_indexes', 'name', 'of an index of documents, postings or note_names'),
            ('broken_links', NULL, 'Links that lead nowhere: a slip, or a note still to be written.'),
            ('broken_links', 'source_path', 'the note that links'),
            ('broken_links', 'line', 'of the first occurrence'),
            ('broken_links', 'kind', 'wikilink, embed, markdown, markdown_embed, property'),
            ('broken_links', 'target_name', 'as written'),
            ('broken_links', 'heading', 'after #'),
            ('broken_links', 'block', 'after #^'),
            ('broken_links', 'display_text', 'after |, or in the brackets of a Markdown link'),
            ('broken_links', 'occurrences', 'in the note'),
            ('orphans', NULL, 'Notes without a link from or to another note.'),
            ('backlinks', NULL, 'The links to each note from others, with what their sentences say.'),
            ('backlinks', 'file_path', 'the note that is linked to'),
            ('backlinks', 'source_path', 'the note that links to it'),
            ('backlinks', 'line', 'of the first occurrence'),
            ('backlinks', 'kind', 'wikilink, embed, markdown, markdown_embed, property'),
            ('backlinks', 'relation', 'what the text says of the two; NULL: nothing known'),
            ('backlinks', 'sentence', 'that says so, else the first in which the link stands'),
            ('backlinks', 'occurrences', 'in the note that links'),
            ('link_counts', NULL,
             'How many other notes each note has links from and to, the most linked first.'),
            ('link_counts', 'linked_from', 'so many other notes link to it'),
            ('link_counts', 'links_to', 'so many other notes it links to'),
            ('link_counts', 'broken', 'so many of its links lead nowhere'),
            ('tag_counts', NULL, 'The tags, and how many notes have each, the commonest first.'),
            ('tag_counts', 'tag', 'without #; case does not tell tags apart'),
            ('tag_counts', 'notes', 'that have it or one nested in it, as a/b is in a'),
            ('tag_counts', 'written', 'notes that have exactly it'),
            ('table_sizes', NULL, 'How much room each table takes, the largest first.'),
            ('table_sizes', 'rows', 'about; NULL: not counted yet'),
            ('table_sizes', 'bytes', 'with its indexes'),
            ('table_sizes', 'size', 'the same in kB, MB or GB'),
            ('last_run', NULL, 'The newest run of the indexer, finished or not.'),
            ('last_run', 'finished_at', 'NULL while it runs, or where it was killed'),
            ('last_run', 'status', 'running, ok, partial (some notes failed), failed'),
            ('last_run', 'error', 'why the run failed as a whole'),
            ('last_run', 'report', 'its counts, failures and warnings'),
            ('failures', NULL,
             'Notes that are not in the index as they are on disk, after the last run that came to '
             'its end.'),
            ('failures', 'stage', 'walk, read, parse, embed, store'),
            ('failures', 'error', 'why')
        ) AS c (relation, attribute, about)
        JOIN pg_class k ON k.oid = to_regclass(c.relation)
        LEFT JOIN pg_attribute a ON a.attrelid = k.oid AND a.attname = c.attribute
        WHERE CASE WHEN c.attribute IS NULL THEN obj_description(k.oid, 'pg_class') IS NULL
              ELSE a.attname IS NOT NULL AND col_description(k.oid, a.attnum) IS NULL END
    LOOP
        IF described.attname IS NOT NULL THEN
            EXECUTE format('COMMENT ON COLUMN %I.%I IS %L',
                described.relname, described.attname, described.about);
        ELSE
            EXECUTE format('COMMENT ON %s %I IS %L',
                CASE described.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END,
                described.relname, described.about);
        END IF;
    END LOOP;
END
$$;
