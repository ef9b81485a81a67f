-- Selects the exported block to import next, the first by file name, and locks it until the caller commits.
-- Called by: an importer, on the slave.
-- Placeholders: ${prefix}, ${schema}; ${rest} which tables to pass over.
-- Parameters: slave, and those of ${rest}.
-- Result: schema, tablename, block, lo, hi, file; no row if other importers have all of them. The caller fetches one row
--   only, as of blocks_claim.sql.
-- Privileges: SELECT, UPDATE on BLOCKS.
-- Oldest version: Oracle 12.2.
SELECT "schema", tablename, block, lo, hi, "file"
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND state = 'exported' AND ${rest}
ORDER BY "file"
FOR UPDATE SKIP LOCKED
