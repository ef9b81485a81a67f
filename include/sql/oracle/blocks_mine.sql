-- Whether a block is still begun by this loader.
-- Called by: a loader, while it copies.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name, block, loader.
-- Result: 0 or 1.
-- Privileges: SELECT on BLOCKS.
-- Oldest version: Oracle 12.2.
SELECT COUNT(*) FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND block = %(block)s
  AND state = 'begun' AND loader = %(loader)s
