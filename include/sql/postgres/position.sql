-- Takes the position of the master: the end of a window, or the marker of a block.
-- Called by: every turn of the apply, the reader of each block.
-- Placeholders: ${prefix} e.g. demo_, ${schema} quoted schema of the resources.
-- Result: one row: low bigint, next_xid bigint or NULL, snapshot text, high bigint, time text (ISO 8601, UTC), lsn
--   text: the end of the write-ahead log after the position was taken, not all of it on disk yet; system text and
--   timeline int: on which server.
-- Privileges: EXECUTE on the function, and on pg_control_system(), which everybody has unless it is revoked.
-- Oldest version: PostgreSQL 13.
SELECT low, next_xid, snapshot::text, high, to_char("time" AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
       pg_current_wal_insert_lsn()::text, (SELECT system_identifier::text FROM pg_catalog.pg_control_system()),
       ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int
FROM ${schema}.${prefix}position()
