-- The changes of definitions in ITEMS above a key, with the definition before each.
-- Called by: sluice.vendors.oracle.source.queue.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Binds: floor (exclusive).
-- Result: REPL_KEY, TRANS_KEY, action, schema, table, OLDCONTENT.
-- Privileges: owner of the tables.
-- Oldest version: Oracle 12.2.
SELECT i.REPL_KEY, i.TRANS_KEY, i.DB_ACTION, i.DB_SCHEMA, i.TABLENAME, i.OLDCONTENT
FROM ${prefix}ITEMS i
WHERE i.REPL_KEY > :floor AND i.DB_ACTION IN ('CREATE', 'ALTER', 'DROP')
ORDER BY i.REPL_KEY
