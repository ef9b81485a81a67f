-- The registered tables with the fault of each one's trigger.
-- Called by: sluice.vendors.oracle.source.tables_registry.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Binds: none.
-- Result: owner, table, actions, status, REPL_KEY, trigger, debug, fault or NULL; in the order of loading.
-- Privileges: owner of the tables.
-- Oldest version: Oracle 12.2.
SELECT t.SCHEMANAME, t.TABLENAME, t.ACTIONS, t.STATUS, t.REPL_KEY, t.TRIGGER_NAME, t.DEBUG,
       ${prefix}CAPTURE.TRIGGER_FAULT(t.SCHEMANAME, t.TABLENAME)
FROM ${prefix}TABLES t
ORDER BY t.REPL_KEY
