-- For each of some tables, the first change of its definition that a position has not seen. Its OLDCONTENT is the
-- definition under which the changes before it were captured.
-- Called by: the apply, for a table that it has not seen before.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: schemas, names (pairs), floor (REPL_KEY), snapshot (text of pg_snapshot).
-- Result: schema, table, oldcontent.
-- Privileges: SELECT on ITEMS.
-- Oldest version: PostgreSQL 14.
SELECT DISTINCT ON (i.db_schema, i.tablename) i.db_schema, i.tablename, i.oldcontent
FROM ${schema}.${prefix}items i
JOIN unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name) ON i.db_schema = w.schema AND i.tablename = w.name
WHERE i.repl_key > %(floor)s AND i.db_action IN ('CREATE', 'ALTER', 'DROP')
  AND NOT pg_visible_in_snapshot(i.trans_key, %(snapshot)s::pg_snapshot)
ORDER BY i.db_schema, i.tablename, i.repl_key
