-- What the slave is known to have of the master's indexes, constraints and comments. Called by: the apply.
-- Placeholders: ${prefix}, ${schema}. Parameter: slave. Result: kind, schema, table, name, definition, whether it is being
-- made. Privileges: SELECT on DEFINITIONS.
SELECT kind, "schema", tablename, name, definition, making FROM ${schema}.${prefix}definitions WHERE slave = %(slave)s
