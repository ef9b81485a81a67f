-- Marks a claimed block as begun, up to HI. The marker of a snapshot that is held for all blocks stays.
-- Called by: a loader, in the transaction that claimed the block, before it takes its snapshot on the master.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, table_schema, name, block, hi, loader.
-- Result: no row changes if the block is no longer planned.
-- Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks
SET state = 'begun', hi = %(hi)s, loader = %(loader)s, begun_at = ${clock}, stored_at = NULL, "rows" = NULL, bytes = NULL
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND block = %(block)s
  AND state = 'planned'
