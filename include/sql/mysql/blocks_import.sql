-- Selects the exported block to import next, the first by file name, and locks it until the caller commits.
-- Called by: an importer, on the slave.
-- Placeholders: ${prefix}, ${schema}; ${rest} which tables to pass over.
-- Parameters: slave, and those of ${rest}.
-- Result: schema, tablename, block, lo, hi, file; no row if other importers have all of them.
-- Privileges: SELECT, UPDATE on BLOCKS.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
-- The index is forced for the reason given in blocks_claim.sql.
SELECT "schema", tablename, block, lo, hi, file
FROM ${schema}.${prefix}blocks FORCE INDEX (in_files)
WHERE slave = %(slave)s AND state = 'exported' AND ${rest}
ORDER BY file
LIMIT 1
FOR UPDATE SKIP LOCKED
