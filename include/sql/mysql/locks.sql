-- LOCKS. Each statement is a section with its name.
-- Oldest version: MariaDB 10.6, MySQL 8.0.

-- name: locks_ensure
-- Inserts a row that transactions of loaders can lock, unless it exists.
-- Called by: a load job when it starts.
-- Placeholders: ${prefix}, ${schema}. Parameter: name.
-- Result: none.
-- Privileges: INSERT on LOCKS.
INSERT IGNORE INTO ${schema}.${prefix}locks (name) VALUES (%(name)s)

-- name: locks_take
-- Locks a row of LOCKS until the transaction ends.
-- Called by: a load job when it starts; a loader that claims a block.
-- Placeholders: ${prefix}, ${schema}; ${how}: FOR UPDATE (exclusive) or LOCK IN SHARE MODE (shared). Parameter: name.
-- Result: name; no row if it does not exist.
-- Privileges: UPDATE on LOCKS.
SELECT name FROM ${schema}.${prefix}locks WHERE name = %(name)s ${how}
