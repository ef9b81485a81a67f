-- The first transaction of a window, by its lowest REPL_KEY, that changes a table whose changes are applied.
-- Called by: sluice.vendors.postgres.source.queue.
-- Placeholders: ${schema} quoted schema, ${prefix} e.g. demo_; ${window} as queue_window.sql says; ${applied} the
--   condition that changes of a row's table are applied.
-- Result: its tables, each as schema, table, number of changes, actions; no row if nothing waits.
-- Privileges: SELECT on ITEMS.
-- Oldest version: PostgreSQL 14.
WITH first AS (
    SELECT trans_key FROM ${schema}.${prefix}items WHERE ${window} AND ${applied} ORDER BY repl_key LIMIT 1
)
SELECT db_schema, tablename, count(*), array_agg(DISTINCT db_action ORDER BY db_action)
FROM ${schema}.${prefix}items
WHERE ${window} AND trans_key = (SELECT trans_key FROM first)
GROUP BY db_schema, tablename
ORDER BY db_schema, tablename
