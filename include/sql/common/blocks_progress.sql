-- The progress of a load, one row for each table. STORED_AT is also the time of an export.
-- Called by: the initial update's progress.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave; since: blocks that were stored later count for the rate.
-- Result: schema, tablename, blocks planned, begun, stored; rows, bytes stored or exported; rows since; when the first
--   was begun and the last stored; blocks exported. Ordered as the tables are loaded.
-- Privileges: SELECT on BLOCKS.
SELECT "schema", tablename,
       COUNT(CASE WHEN state = 'planned' THEN 1 END), COUNT(CASE WHEN state = 'begun' THEN 1 END),
       COUNT(CASE WHEN state = 'stored' THEN 1 END),
       COALESCE(SUM("rows"), 0), COALESCE(SUM(bytes), 0),
       COALESCE(SUM(CASE WHEN stored_at > %(since)s THEN "rows" END), 0),
       MIN(begun_at), MAX(stored_at), COUNT(CASE WHEN state = 'exported' THEN 1 END)
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s
GROUP BY "schema", tablename
ORDER BY MIN(planned_at), "schema", tablename
