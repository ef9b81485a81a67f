-- Whether a block is still begun by this loader.
-- Called by: a loader, while it copies.
-- Parameters: slave, table_schema, name, block, loader.
-- Result: one boolean.
-- Placeholders: ${prefix}, ${schema}.
-- Privileges: SELECT on BLOCKS.
SELECT EXISTS (SELECT 1 FROM ${schema}.${prefix}blocks
               WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND block = %(block)s
                 AND state = 'begun' AND loader = %(loader)s)
