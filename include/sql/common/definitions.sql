-- DEFINITIONS. Each statement is a section with its name.

-- name: definitions_forget
-- Deletes the record of an index, constraint, comment, sequence or view.
-- Called by: the apply.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, kind, table_schema, table, name.
-- Privileges: DELETE on DEFINITIONS.
DELETE FROM ${schema}.${prefix}definitions
WHERE slave = %(slave)s AND kind = %(kind)s AND "schema" = %(table_schema)s AND tablename = %(table)s AND name = %(name)s

-- name: definitions_forget_table
-- Deletes the records of a table that is gone, whose name another one gets.
-- Called by: the apply.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, table.
-- Privileges: DELETE on DEFINITIONS.
DELETE FROM ${schema}.${prefix}definitions
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(table)s

-- name: definitions_put
-- Records that the slave has a definition of the master, or that it is being created.
-- Called by: the apply, after definitions_forget.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, kind, table_schema, table, name, definition, making.
-- Privileges: INSERT on DEFINITIONS.
INSERT INTO ${schema}.${prefix}definitions (slave, kind, "schema", tablename, name, definition, making, updated_at)
VALUES (%(slave)s, %(kind)s, %(table_schema)s, %(table)s, %(name)s, %(definition)s, %(making)s, ${clock})

-- name: definitions_read
-- Reads which definitions of the master the slave has.
-- Called by: the apply.
-- Placeholders: ${prefix}, ${schema}. Parameter: slave.
-- Result: kind, schema, table, name, definition, whether it is being created.
-- Privileges: SELECT on DEFINITIONS.
SELECT kind, "schema", tablename, name, definition, making FROM ${schema}.${prefix}definitions WHERE slave = %(slave)s

-- name: definitions_rename_table
-- Gives the records of a table its new name.
-- Called by: the apply, after definitions_forget_table.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, table, new_schema, new_table.
-- Privileges: UPDATE on DEFINITIONS.
UPDATE ${schema}.${prefix}definitions SET "schema" = %(new_schema)s, tablename = %(new_table)s
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(table)s
