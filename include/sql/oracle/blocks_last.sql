-- What the block of a table that was stored or exported last cost.
-- Called by: a loader that claims.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name.
-- Result: rows, bytes, begun_at, stored_at of its block stored or exported last; or no row.
-- Privileges: SELECT on BLOCKS.
-- Oldest version: Oracle 12.2.
SELECT "rows", bytes, begun_at, stored_at
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND state IN ('stored', 'exported')
ORDER BY stored_at DESC
FETCH FIRST 1 ROWS ONLY
