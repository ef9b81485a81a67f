-- Marks a block as stored; the last statement of the transaction that writes its rows.
-- Called by: a loader.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, table_schema, name, block, loader, marker, rows, bytes.
-- Result: no row changes if the block no longer belongs to this loader; the caller then rolls back.
-- Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks
SET state = 'stored', stored_at = ${clock}, marker = %(marker)s, "rows" = %(rows)s, bytes = %(bytes)s
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND block = %(block)s
  AND state = 'begun' AND loader = %(loader)s
