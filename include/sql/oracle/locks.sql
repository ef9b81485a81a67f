-- LOCKS. Each statement is a section with its name.
-- Placeholders: ${prefix}, ${schema}. Parameter: name.
-- Oldest version: Oracle 12.2.

-- name: locks_ensure
-- Inserts a row that transactions of loaders can lock, unless it exists.
-- Called by: a load job when it starts.
-- Result: none.
-- Privileges: SELECT, INSERT on LOCKS.
INSERT INTO ${schema}.${prefix}locks (name)
SELECT %(name)s FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM ${schema}.${prefix}locks l WHERE l.name = %(name)s)

-- name: locks_take
-- Locks a row of LOCKS until the transaction ends.
-- Called by: a loader that claims a block.
-- Result: name; no row if it does not exist.
-- Privileges: UPDATE on LOCKS.
SELECT name FROM ${schema}.${prefix}locks WHERE name = %(name)s FOR UPDATE
