-- Selects the planned block to read next, and locks it until the caller commits.
-- Called by: a loader, on the slave.
-- Placeholders: ${prefix}, ${schema}, ${clock}; ${rest} which tables to pass over.
-- Parameters: slave, and those of ${rest}.
-- Result: schema, tablename, block, lo, hi, marker, snapshot, tries; no row if other loaders have all of them. The caller
--   fetches one row only: SKIP LOCKED locks rows as they are fetched, and Oracle allows no limit with FOR UPDATE.
-- Privileges: SELECT, UPDATE on BLOCKS.
-- Oldest version: Oracle 12.2.
SELECT "schema", tablename, block, lo, hi, marker, snapshot, tries
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND state = 'planned' AND (retry_at IS NULL OR retry_at <= ${clock}) AND ${rest}
ORDER BY planned_at, "schema", tablename, block
FOR UPDATE SKIP LOCKED
