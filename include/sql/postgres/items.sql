-- The size of ITEMS. Each statement is a section with its name.
-- Called by: housekeeping, on the master.
-- Placeholders: ${prefix}, ${schema}.

-- name: items_room
-- What bounds the growth of ITEMS where the configuration says nothing.
-- Result: bytes of the files of ITEMS; bytes of the database; the first file of ITEMS, NULL where this account may not
--   run a program on the server, which alone can tell how much of a disk is free.
-- Privileges: CONNECT to the database. Oldest version: PostgreSQL 14.
SELECT pg_catalog.pg_total_relation_size(i.oid), pg_catalog.pg_database_size(pg_catalog.current_database()),
       CASE WHEN pg_catalog.pg_has_role('pg_execute_server_program', 'USAGE') THEN pg_catalog.pg_relation_filepath(i.oid) END
FROM (SELECT $s$ ${schema}.${prefix}items$s$::pg_catalog.regclass::oid AS oid) i

-- name: items_waiting
-- Counts the changes in ITEMS, and estimates their size from samples at ten places.
-- Result: changes, bytes without free space.
-- Privileges: SELECT on ITEMS.
-- Oldest version: PostgreSQL 14.
WITH ends AS (
    SELECT min(i.repl_key) AS first, max(i.repl_key) AS last FROM ${schema}.${prefix}items i
), chosen AS (
    SELECT coalesce(pg_catalog.pg_column_size(x.content), 0) + coalesce(pg_catalog.pg_column_size(x.oldcontent), 0)
        + coalesce(pg_catalog.pg_column_size(x.guid), 0) + 150 AS bytes
    FROM ends e, pg_catalog.generate_series(0, 9) g,
        LATERAL (SELECT i.content, i.oldcontent, i.guid FROM ${schema}.${prefix}items i
                 WHERE i.repl_key >= e.first + (e.last - e.first) * g / 10 ORDER BY i.repl_key LIMIT 100) x
)
SELECT c.changes, coalesce(c.changes * (SELECT avg(s.bytes) FROM chosen s), 0)::bigint
FROM (SELECT count(*) AS changes FROM ${schema}.${prefix}items) c
