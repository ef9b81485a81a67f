-- The tables that join in what a slave has not applied yet: the last CREATE item of each, and whether all rows of the
-- table follow.
-- Called by: the DAG reconcile_tables, to start the loads of those that need one.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: floor (REPL_KEY), snapshot (text of pg_snapshot).
-- Result: schema, table, complete.
-- Privileges: SELECT on ITEMS.
-- Oldest version: PostgreSQL 14.
SELECT DISTINCT ON (i.db_schema, i.tablename) i.db_schema, i.tablename, i.content LIKE '<desc complete="true" %%'
FROM ${schema}.${prefix}items i
WHERE i.repl_key > %(floor)s AND i.db_action = 'CREATE'
  AND NOT pg_visible_in_snapshot(i.trans_key, %(snapshot)s::pg_snapshot)
ORDER BY i.db_schema, i.tablename, i.repl_key DESC
