-- Reads a window of ITEMS, in REPL_KEY order. CONTENT that no trigger could read comes from LONGS_TABLE.
-- Called by: sluice.vendors.oracle.source.reader.
-- Placeholders: ${prefix} as in resources_v1.sql; ${window} as queue_window.sql; ${selection} a further condition on i.
-- Binds: those of queue_window.sql and of ${selection}.
-- Result: REPL_KEY, TRANS_KEY, schema, table, GUID, action, CONTENT, OLDCONTENT, VERSION.
-- Privileges: owner of the tables.
-- Oldest version: Oracle 12.2.
SELECT i.REPL_KEY, i.TRANS_KEY, i.DB_SCHEMA, i.TABLENAME, i.GUID, i.DB_ACTION,
       CASE WHEN i.CONTENT IS NULL AND i.DB_ACTION IN ('INSERT', 'UPDATE')
           THEN (SELECT l.CONTENT FROM ${prefix}LONGS_TABLE l WHERE l.REPL_KEY = i.REPL_KEY)
           ELSE i.CONTENT END AS CONTENT,
       i.OLDCONTENT, i.VERSION
FROM ${prefix}ITEMS i
WHERE ${window} AND ${selection}
ORDER BY i.REPL_KEY
