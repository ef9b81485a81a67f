-- Forgets blocks. Called by: an initial update that begins or is cancelled, the apply when a table is dropped.
-- Placeholders: ${prefix}, ${schema}. Parameters: slave; schema and name of one table (NULL: all tables);
--   unfinished bool: stored ones stay. Privileges: DELETE on BLOCKS.
DELETE FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s
  AND (%(schema)s::text IS NULL OR (schema = %(schema)s AND tablename = %(name)s))
  AND (state <> 'stored' OR NOT %(unfinished)s)
