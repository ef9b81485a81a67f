-- Tables that a session has locked, or waits to lock, so that nobody can read them: reading their definitions would wait.
-- Called by: the follower of definitions, on the master.
-- Parameters: schemas text[], names text[] (pairs).
-- Result: schema, name.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
SELECT w.schema, w.name
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
WHERE c.oid IN (
    SELECT l.relation FROM pg_catalog.pg_locks l
    WHERE l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock'
      AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()))
