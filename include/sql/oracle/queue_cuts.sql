-- The cuts of a window: TRUNCATE, and changes of definitions.
-- Called by: sluice.vendors.oracle.source.reader.
-- Placeholders: ${prefix} as in resources_v1.sql; ${window} as queue_window.sql.
-- Binds: those of queue_window.sql.
-- Result: REPL_KEY, TRANS_KEY, action, schema, table.
-- Privileges: owner of the tables.
-- Oldest version: Oracle 12.2.
SELECT i.REPL_KEY, i.TRANS_KEY, i.DB_ACTION, i.DB_SCHEMA, i.TABLENAME
FROM ${prefix}ITEMS i
WHERE ${window} AND i.DB_ACTION NOT IN ('INSERT', 'UPDATE', 'DELETE')
ORDER BY i.REPL_KEY
