-- Reads which definitions of the master the slave has.
-- Called by: the apply.
-- Placeholders: ${prefix}, ${schema}.
-- Parameter: slave.
-- Result: kind, schema, table, name, definition, whether it is being created.
-- Privileges: SELECT on DEFINITIONS.
SELECT kind, "schema", tablename, name, definition, making FROM ${schema}.${prefix}definitions WHERE slave = %(slave)s
