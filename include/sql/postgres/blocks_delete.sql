-- Forgets blocks. Called by: an initial update that begins, the apply when a table is dropped.
-- Placeholders: ${prefix}, ${schema}. Parameters: slave; schema and name of one table (NULL: all tables).
-- Privileges: DELETE on BLOCKS.
DELETE FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s
  AND (%(schema)s::text IS NULL OR (schema = %(schema)s AND tablename = %(name)s))
