-- Marks a stored block as caught up: its rows are as of the checkpoint.
-- Called by: the apply, in the transaction of the changes that follow the block's marker.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name, block, marker.
-- Result: none; no row changes if the block is another one by now.
-- Privileges: UPDATE on BLOCKS, EXECUTE on DBMS_LOB.
-- Oldest version: Oracle 12.2.
UPDATE ${schema}.${prefix}blocks SET marker = NULL
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND block = %(block)s
  AND state = 'stored' AND DBMS_LOB.COMPARE(marker, TO_CLOB(%(marker)s)) = 0
