-- Positions of a master. Each statement is a section with its name.

-- name: position
-- Takes the position of the master: the end of a window, or the marker of a block.
-- Called by: every turn of the apply, the reader of each block.
-- Placeholders: ${prefix} e.g. demo_, ${schema} quoted schema of the resources.
-- Result: one row: low bigint, next_xid bigint or NULL, snapshot text, high bigint, time text (ISO 8601, UTC), lsn text:
--   the end of the write-ahead log after the position was taken, not all of it on disk yet; system text and timeline int:
--   on which server.
-- Privileges: EXECUTE on the function, and on pg_control_system(), which everybody has unless it is revoked.
-- Oldest version: PostgreSQL 13.
SELECT low, next_xid, snapshot::text, high, to_char("time" AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
       pg_current_wal_insert_lsn()::text, (SELECT system_identifier::text FROM pg_catalog.pg_control_system()),
       ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int
FROM ${schema}.${prefix}position()

-- name: position_history
-- The history file of a timeline: its former timelines, and where each ended.
-- Called by: sluice.vendors.postgres.source.queue, if the account may. Parameter: file, below the server's data
--   directory.
-- Result: one row: the text, NULL if there is no such file.
-- Privileges: EXECUTE on pg_read_file.
-- Oldest version: PostgreSQL 13.
SELECT pg_catalog.pg_read_file(%(file)s, 0, 1000000, true)

-- name: position_promoted
-- What a promoted server knows of its past.
-- Called by: sluice.vendors.postgres.source.queue, if the master's timeline has changed.
-- Result: one row: whether the timeline's history can be read, and up to which pg_lsn (text) the server followed another
--   one before it was promoted, NULL after a restart.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT has_function_privilege('pg_catalog.pg_read_file(text, bigint, bigint, boolean)', 'EXECUTE'),
       pg_last_wal_replay_lsn()::text

-- name: position_record
-- Records on the master that a reader has seen a position. The record is part of the database: a master whose files are
--   restored from before it lacks it, and then continues another history than the reader has.
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

-- name: position_recorded
-- What the master has recorded of readers (position_record).
-- Called by: sluice.vendors.postgres.source.queue.
-- Placeholders: ${prefix}, ${schema}. Parameter: runs, names of sessions.
-- Result: run; the highest recorded REPL_KEY; whether the row is the one that was written, not a copy that a dump made.
-- Privileges: SELECT on INFO. Oldest version: PostgreSQL 14.
SELECT substr(i.name, 5), split_part(i.value, ' ', 1)::bigint,
       split_part(i.value, ' ', 2)::numeric %% 4294967296 = i.xmin::text::numeric
       AND split_part(i.value, ' ', 3) = i.tableoid::text
FROM ${schema}.${prefix}info i
WHERE i.name = ANY (SELECT 'run ' || r FROM unnest(%(runs)s::text[]) r)

-- name: position_records_prune
-- Deletes records (position_record) of more than 30 days ago, except the last 500 of each reader. A slave that is
--   restored from a backup of before them needs an initial update.
-- Called by: sluice.vendors.postgres.source.queue, once a session.
-- Placeholders: ${prefix}, ${schema}.
-- Result: none.
-- Privileges: SELECT and DELETE on INFO. Oldest version: PostgreSQL 14.
DELETE FROM ${schema}.${prefix}info i USING (
    SELECT o.name, split_part(o.value, ' ', 4)::bigint AS made,
           row_number() OVER (PARTITION BY regexp_replace(o.value, '^(\S+ ){4}', '') ORDER BY split_part(o.value, ' ', 4)::bigint DESC)
               AS place
    FROM ${schema}.${prefix}info o WHERE starts_with(o.name, 'run ')
) old
WHERE i.name = old.name AND old.place > 500 AND old.made < extract(epoch FROM clock_timestamp()) - 30 * 86400

-- name: position_secure
-- Returns when a crash of a slave cannot undo its checkpoint. Commits with synchronous_commit = off are visible before
--   they are on disk.
-- Called by: the purge and a failover, which rely on the checkpoint. In a transaction of its own. Parameter: lsn, up to
--   which the log must be on disk.
-- Result: one row of no meaning: if something was not on disk, a message was written to the log, whose commit forces all
--   earlier records to disk.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT set_config('synchronous_commit', 'local', true),
       CASE WHEN pg_current_wal_flush_lsn() < %(lsn)s::pg_lsn
            THEN pg_logical_emit_message(true, 'sluice', '')
       END
