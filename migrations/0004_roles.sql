-- rag_indexer writes, rag_reader only reads. Neither can log in by itself: GRANT them to a login role.
-- On a managed database the migrating role may not create roles; then the index works without them.

DO $$
DECLARE
    wanted TEXT;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['rag_indexer', 'rag_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            EXCEPTION
                WHEN duplicate_object OR unique_violation THEN NULL;  -- another database was quicker
                WHEN insufficient_privilege THEN
                    RAISE NOTICE 'role % not created: no permission; the owner of the tables is used', wanted;
            END;
        END IF;
    END LOOP;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'rag_reader') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO rag_reader', current_schema());
        EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO rag_reader', current_schema());
        EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA %I GRANT SELECT ON TABLES TO rag_reader',
                       current_schema());
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'rag_indexer') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO rag_indexer', current_schema());
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA %I TO rag_indexer',
                       current_schema());
        EXECUTE format('GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA %I TO rag_indexer', current_schema());
        EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA %I GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE '
                       'ON TABLES TO rag_indexer', current_schema());
        EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA %I GRANT USAGE, SELECT ON SEQUENCES TO rag_indexer',
                       current_schema());
    END IF;
END
$$;
