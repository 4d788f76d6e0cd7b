-- How many chunks each note has, so that the folders can be listed without counting all chunks.
ALTER TABLE notes ADD COLUMN IF NOT EXISTS chunks INTEGER NOT NULL DEFAULT 0;
UPDATE notes n SET chunks = d.chunks
FROM (SELECT file_path, count(*) AS chunks FROM documents GROUP BY file_path) AS d
WHERE d.file_path = n.file_path AND n.chunks <> d.chunks;
