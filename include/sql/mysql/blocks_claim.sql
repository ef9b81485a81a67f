-- A planned block to read next, locked until the caller commits; no row when other loaders hold all of them.
-- Called by: a loader, on the slave. Placeholders: ${prefix}, ${schema}, ${clock}; ${rest} which tables to pass over.
-- Parameters: slave, and those of ${rest}. Result: schema, tablename, block, lo, hi, marker, snapshot, tries.
-- Rows are locked as they are looked at: in the order of the index that is the first one that fits, and none besides.
-- Privileges: SELECT, UPDATE on BLOCKS. Oldest version: MariaDB 10.6, MySQL 8.0.
SELECT "schema", tablename, block, lo, hi, marker, snapshot, tries
FROM ${schema}.${prefix}blocks FORCE INDEX (in_order)
WHERE slave = %(slave)s AND state = 'planned' AND (retry_at IS NULL OR retry_at <= ${clock}) AND ${rest}
ORDER BY planned_at, "schema", tablename, block
LIMIT 1
FOR UPDATE SKIP LOCKED
