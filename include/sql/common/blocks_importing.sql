-- Marks an exported block as begun by an importer; its marker stays.
-- Called by: an importer, in the transaction of blocks_import.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, table_schema, name, block, loader.
-- Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks
SET state = 'begun', loader = %(loader)s, begun_at = ${clock}, stored_at = NULL
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND block = %(block)s
