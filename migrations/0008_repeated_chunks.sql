-- A chunk whose text stands elsewhere too is left out of the vector index, where one row stands for all of
-- them: thousands of equal vectors, as the template of daily notes makes them, cut the graph of that index
-- apart, so that other chunks are not found any more.

ALTER TABLE documents ADD COLUMN IF NOT EXISTS repeated BOOLEAN NOT NULL DEFAULT FALSE;

UPDATE documents SET repeated = TRUE
WHERE NOT repeated AND id IN (
    SELECT id FROM (
        SELECT id, row_number() OVER (PARTITION BY content_hash ORDER BY repeated, id) AS place
        FROM documents WHERE content_hash IS NOT NULL) AS numbered
    WHERE place > 1);
CREATE INDEX IF NOT EXISTS documents_repeated_idx ON documents (file_path) INCLUDE (content_hash)
    WHERE repeated;

-- And the index holds the vectors as halfvec: half the room, two thirds of the time to build, no other answers.
DO $$
DECLARE
    definition TEXT := pg_get_indexdef(to_regclass('documents_embedding_idx'));
    dimensions INTEGER := (SELECT atttypmod FROM pg_attribute
        WHERE attrelid = 'documents'::regclass AND attname = 'embedding');
BEGIN
    IF definition IS NOT NULL AND dimensions > 0 AND definition NOT LIKE '%halfvec% WHERE %' THEN
        -- An index that outgrows its memory while it is built takes three times as long, and worker processes
        -- share memory that a container may not have.
        PERFORM set_config('maintenance_work_mem', '256MB', true)
        WHERE pg_size_bytes(current_setting('maintenance_work_mem')) < pg_size_bytes('256MB');
        PERFORM set_config('max_parallel_maintenance_workers', '0', true);
        DROP INDEX documents_embedding_idx;
        EXECUTE format('CREATE INDEX documents_embedding_idx ON documents USING hnsw'
            ' ((embedding::halfvec(%s)) halfvec_cosine_ops) WHERE NOT repeated', dimensions);
    END IF;
END
$$;
