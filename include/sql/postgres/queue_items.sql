-- A window of ITEMS, in REPL_KEY order.
-- Called by: sluice.vendors.postgres.queue, over ADBC and therefore without parameters.
-- Placeholders: ${schema} quoted schema, ${prefix} e.g. demo_; ${floor}, ${ceiling} bounds of REPL_KEY (above, up to);
--   ${from}, ${to} texts of pg_snapshot; ${selection} further conditions or true; ${old} when OLDCONTENT is
--   needed.
-- Result: repl_key, trans_key, schema, table, guid, action, content, oldcontent.
-- A key is drawn before its transaction commits. The two snapshots decide what belongs to the window, the
-- bounds only keep the scan short.
-- OLDCONTENT travels only where a key or an old image is taken from it: a plain UPDATE under its key needs none.
-- Privileges: SELECT on ITEMS. Oldest version: PostgreSQL 14.
SELECT repl_key, trans_key::text::bigint AS trans_key, db_schema AS "schema", tablename AS "table", guid,
       db_action AS action, content, CASE WHEN ${old} THEN oldcontent END AS oldcontent
FROM ${schema}.${prefix}items
WHERE repl_key > ${floor} AND repl_key <= ${ceiling}
  AND pg_visible_in_snapshot(trans_key, ${to}::pg_snapshot)
  AND NOT pg_visible_in_snapshot(trans_key, ${from}::pg_snapshot)
  AND (${selection})
ORDER BY repl_key
