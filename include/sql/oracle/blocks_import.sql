-- An exported block to import next, the first by the name of its file, locked until the caller commits.
-- Called by: an importer, on the slave. Placeholders: ${prefix}, ${schema}; ${rest} which tables to pass over.
-- Parameters: slave, and those of ${rest}.
-- Result: schema, tablename, block, lo, hi, file; no row when other importers hold all of them.
-- The first row alone is fetched: with SKIP LOCKED rows are locked as they are fetched, and no limit goes with FOR UPDATE.
-- Privileges: SELECT, UPDATE on BLOCKS. Oldest version: Oracle 12.2.
SELECT "schema", tablename, block, lo, hi, "file"
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND state = 'exported' AND ${rest}
ORDER BY "file"
FOR UPDATE SKIP LOCKED
