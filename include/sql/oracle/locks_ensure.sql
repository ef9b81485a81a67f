-- Inserts a row that transactions of loaders can lock, unless it exists.
-- Called by: a load job when it starts.
-- Placeholders: ${prefix}, ${schema}.
-- Parameter: name.
-- Result: none.
-- Privileges: SELECT, INSERT on LOCKS.
-- Oldest version: Oracle 12.2.
INSERT INTO ${schema}.${prefix}locks (name)
SELECT %(name)s FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM ${schema}.${prefix}locks l WHERE l.name = %(name)s)
