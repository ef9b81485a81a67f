-- A planned block to read next, locked until the caller commits; no row when other loaders hold all of them.
-- Called by: a loader, on the slave. Placeholders: ${prefix}, ${schema}, ${clock}; ${rest} which tables to pass over.
-- Parameters: slave, and those of ${rest}. Result: schema, tablename, block, lo, hi, marker, snapshot, tries.
-- The first row alone is fetched: with SKIP LOCKED rows are locked as they are fetched, and no limit goes with FOR UPDATE.
-- Privileges: SELECT, UPDATE on BLOCKS. Oldest version: Oracle 12.2.
SELECT "schema", tablename, block, lo, hi, marker, snapshot, tries
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND state = 'planned' AND (retry_at IS NULL OR retry_at <= ${clock}) AND ${rest}
ORDER BY planned_at, "schema", tablename, block
FOR UPDATE SKIP LOCKED
