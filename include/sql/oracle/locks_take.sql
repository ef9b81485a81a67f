-- Locks a row of LOCKS until the transaction ends.
-- Called by: a loader that claims a block.
-- Placeholders: ${prefix}, ${schema}.
-- Parameter: name.
-- Result: name; no row if it does not exist.
-- Privileges: UPDATE on LOCKS.
-- Oldest version: Oracle 12.2.
SELECT name FROM ${schema}.${prefix}locks WHERE name = %(name)s FOR UPDATE
