-- Forgets what was noted of an index, a constraint or a comment. Called by: the apply.
-- Placeholders: ${prefix}, ${schema}. Parameters: slave, kind, table_schema, table, name.
-- Privileges: DELETE on DEFINITIONS.
DELETE FROM ${schema}.${prefix}definitions
WHERE slave = %(slave)s AND kind = %(kind)s AND "schema" = %(table_schema)s AND tablename = %(table)s AND name = %(name)s
