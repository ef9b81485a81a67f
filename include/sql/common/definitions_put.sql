-- Records that the slave has a definition of the master, or that it is being created.
-- Called by: the apply, after definitions_forget.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, kind, table_schema, table, name, definition, making.
-- Privileges: INSERT on DEFINITIONS.
INSERT INTO ${schema}.${prefix}definitions (slave, kind, "schema", tablename, name, definition, making, updated_at)
VALUES (%(slave)s, %(kind)s, %(table_schema)s, %(table)s, %(name)s, %(definition)s, %(making)s, ${clock})
