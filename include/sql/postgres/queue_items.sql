-- Reads a window of ITEMS, in REPL_KEY order.
-- Called by: sluice.vendors.postgres.source.queue, over ADBC and therefore without parameters.
-- Placeholders: ${schema} quoted schema, ${prefix} e.g. demo_; ${window} as queue_window.sql says; ${old} the condition
--   under which OLDCONTENT is needed.
-- Result: repl_key, trans_key (an xid8), schema, table, guid, action, content, oldcontent, and whether changes of its
--   transaction may be in another order than they happened (capture_code.sql). OLDCONTENT is returned only if a key or an
--   old image is read from it: a plain UPDATE that keeps its key needs none.
-- Privileges: SELECT on ITEMS.
-- Oldest version: PostgreSQL 14.
SELECT repl_key, trans_key, db_schema AS "schema", tablename AS "table", guid,
       db_action AS action, content, CASE WHEN ${old} THEN oldcontent END AS oldcontent, version = '2' AS unordered
FROM ${schema}.${prefix}items
WHERE ${window}
ORDER BY repl_key
