-- The planned blocks of one table.
-- Called by: a loader that reads for several slaves, on each but the first of them.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name.
-- Result: block, lo, hi.
-- Privileges: SELECT on BLOCKS.
SELECT block, lo, hi
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND state = 'planned'
