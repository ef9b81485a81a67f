-- Locks a row of LOCKS until the transaction ends.
-- Called by: a load job when it starts; a loader that claims a block.
-- Placeholders: ${prefix}, ${schema}; ${how}: FOR UPDATE (exclusive) or LOCK IN SHARE MODE (shared).
-- Parameter: name.
-- Result: name; no row if it does not exist.
-- Privileges: UPDATE on LOCKS.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
SELECT name FROM ${schema}.${prefix}locks WHERE name = %(name)s ${how}
