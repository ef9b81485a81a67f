-- Plans a begun block again, because its rows are locked on the master. Other blocks are read first.
-- Called by: a loader that reads with locks.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name, block, loader; retry_at: when it may be claimed again.
-- Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks
SET state = 'planned', loader = NULL, begun_at = NULL, tries = tries + 1, retry_at = %(retry_at)s
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND block = %(block)s
  AND state = 'begun' AND loader = %(loader)s
