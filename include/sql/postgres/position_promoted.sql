-- What a server that was promoted tells of its past.
-- Called by: sluice.vendors.postgres.source.position, when the master's timeline is another one than before.
-- Result: one row: whether the timeline's history can be read, and up to where the server followed another one before it
-- was promoted: pg_lsn as text, NULL once it was started anew.
-- Privileges: none. Oldest version: PostgreSQL 13.
SELECT has_function_privilege('pg_catalog.pg_read_file(text, bigint, bigint, boolean)', 'EXECUTE'),
       pg_last_wal_replay_lsn()::text
