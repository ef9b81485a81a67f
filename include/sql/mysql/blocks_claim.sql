-- Selects the planned block to read next, and locks it until the caller commits.
-- Called by: a loader, on the slave.
-- Placeholders: ${prefix}, ${schema}, ${clock}; ${rest} which tables to pass over.
-- Parameters: slave, and those of ${rest}.
-- Result: schema, tablename, block, lo, hi, marker, snapshot, tries; no row if other loaders have all of them.
-- Privileges: SELECT, UPDATE on BLOCKS.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
-- InnoDB locks each row that it reads. The index is in the order of the result, so that only one row is read.
SELECT "schema", tablename, block, lo, hi, marker, snapshot, tries
FROM ${schema}.${prefix}blocks FORCE INDEX (in_order)
WHERE slave = %(slave)s AND state = 'planned' AND (retry_at IS NULL OR retry_at <= ${clock}) AND ${rest}
ORDER BY planned_at, "schema", tablename, block
LIMIT 1
FOR UPDATE SKIP LOCKED
