-- Selects the exported block to import next, the first by file name, and locks it until the caller commits.
-- Called by: an importer, on the slave.
-- Placeholders: ${prefix}, ${schema}; ${rest} which tables to pass over.
-- Parameters: slave, and those of ${rest}.
-- Result: schema, tablename, block, lo, hi, file; no row if other importers have all of them.
-- Privileges: SELECT, UPDATE on BLOCKS.
SELECT "schema", tablename, block, lo, hi, "file"
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND state = 'exported' AND ${rest}
ORDER BY "file"
LIMIT 1
FOR UPDATE SKIP LOCKED
