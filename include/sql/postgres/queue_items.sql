-- Reads a window of ITEMS, in REPL_KEY order.
-- Called by: sluice.vendors.postgres.source.reader, over ADBC and therefore without parameters.
-- Placeholders: ${schema} quoted schema, ${prefix} e.g. demo_; ${window} as queue_window.sql says; ${old} the condition
--   under which OLDCONTENT is needed; ${largest} the bytes of contents above which they are left out.
-- Result: repl_key, trans_key (an xid8), schema, table, guid, action, content, oldcontent, and whether changes of its
--   transaction may be in another order than they happened (capture_code.sql). OLDCONTENT is returned only if a key or an
--   old image is read from it: a plain UPDATE that keeps its key needs none. Last, the bytes of contents that are left
--   out, else NULL; their length is known without reading them; 0 where the capture did not keep them.
-- Privileges: SELECT on ITEMS.
-- Oldest version: PostgreSQL 14.
SELECT repl_key, trans_key, db_schema AS "schema", tablename AS "table", guid,
       db_action AS action, CASE WHEN bytes <= ${largest} THEN content END AS content,
       CASE WHEN bytes <= ${largest} AND (${old}) THEN oldcontent END AS oldcontent, version = '2' AS unordered,
       CASE WHEN '<not-kept/>' IN (content, oldcontent) THEN 0 WHEN bytes > ${largest} THEN bytes END AS left_out
FROM ${schema}.${prefix}items,
     LATERAL (SELECT coalesce(octet_length(content), 0)::bigint + coalesce(octet_length(oldcontent), 0) AS bytes) sizes
WHERE ${window}
ORDER BY repl_key
