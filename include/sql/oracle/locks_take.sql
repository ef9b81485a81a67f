-- Locks one of these rows until the transaction ends. Placeholders: ${prefix}, ${schema}.
-- Called by: a loader that claims a block. Parameter: name. Result: a row where it is there. Privileges: UPDATE on LOCKS. Oldest version: Oracle 12.2.
SELECT name FROM ${schema}.${prefix}locks WHERE name = %(name)s FOR UPDATE
