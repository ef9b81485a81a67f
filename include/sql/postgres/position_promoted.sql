-- What a promoted server knows of its past.
-- Called by: sluice.vendors.postgres.source.queue, if the master's timeline has changed.
-- Result: one row: whether the timeline's history can be read, and up to which pg_lsn (text) the server followed
--   another one before it was promoted, NULL after a restart.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT has_function_privilege('pg_catalog.pg_read_file(text, bigint, bigint, boolean)', 'EXECUTE'),
       pg_last_wal_replay_lsn()::text
