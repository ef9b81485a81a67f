-- Counts the changes in ITEMS, and estimates their size from samples at ten places.
-- Called by: housekeeping, on the master.
-- Placeholders: ${prefix}, ${schema}.
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
