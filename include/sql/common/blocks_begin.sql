-- A claimed block is begun, ending at HI.
-- Called by: a loader, in the transaction that claimed the block, before it takes its snapshot on the master.
-- Placeholders: ${prefix}, ${schema}, ${clock}. Parameters: slave, table_schema, name, block, hi, loader.
-- A marker that was planned, of a snapshot held for all blocks, stays.
-- Result: no row changes when the block was not planned any more. Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks
SET state = 'begun', hi = %(hi)s, loader = %(loader)s, begun_at = ${clock}, stored_at = NULL, "rows" = NULL, bytes = NULL
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND block = %(block)s
  AND state = 'planned'
