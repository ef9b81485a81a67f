-- Plans the blocks of a table again that have not caught up.
-- Called by: the apply, before it follows a TRUNCATE or a change of the definition of a table that is loading.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name.
-- Result: none.
-- Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks
SET state = 'planned', marker = NULL, snapshot = NULL, loader = NULL, begun_at = NULL, stored_at = NULL, "rows" = NULL,
    bytes = NULL
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s
  AND NOT (state = 'stored' AND marker IS NULL)
