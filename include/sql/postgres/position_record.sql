-- Records on the master that a reader has seen a position. The record is part of the database: a master whose files are
-- restored from before it lacks it, and then continues another history than the reader has.
-- Called by: sluice.vendors.postgres.source.queue, before a slave or a feed keeps the position.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: run (random name of the session that took the position), high (REPL_KEY of the position).
-- Result: one row: the record of the last purge, NULL without any. The commit waits until the log is on disk, and with it
--   all that the position has seen. INFO has a row 'run <name>' with the key, the transaction and the table's OID, by
--   which a copy of the files is told from a dump, the time, and the reader's name.
-- Privileges: SELECT, INSERT and UPDATE on INFO. Oldest version: PostgreSQL 14.
WITH settings AS MATERIALIZED (SELECT pg_catalog.set_config('synchronous_commit', 'local', true)),
     recorded AS (
         INSERT INTO ${schema}.${prefix}info AS i (name, value)
         SELECT 'run ' || %(run)s,
                concat_ws(' ', %(high)s::bigint, pg_catalog.pg_current_xact_id(), $s$ ${schema}.${prefix}info$s$::regclass::oid,
                          extract(epoch FROM clock_timestamp())::bigint, pg_catalog.current_setting('application_name'))
         FROM settings
         ON CONFLICT (name) DO UPDATE SET value = excluded.value
         WHERE split_part(i.value, ' ', 1)::bigint < split_part(excluded.value, ' ', 1)::bigint)
SELECT (SELECT value FROM ${schema}.${prefix}info WHERE name = 'purged')
