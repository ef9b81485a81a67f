-- Deletes the record of an index, constraint, comment, sequence or view.
-- Called by: the apply.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, kind, table_schema, table, name.
-- Privileges: DELETE on DEFINITIONS.
DELETE FROM ${schema}.${prefix}definitions
WHERE slave = %(slave)s AND kind = %(kind)s AND "schema" = %(table_schema)s AND tablename = %(table)s AND name = %(name)s
