-- Names of tables that belong to other relations here: a view, a foreign table, an index, …
-- Called by: the initial update, on the slave, before it changes anything.
-- Parameters: schemas text[], names text[] (pairs).
-- Result: schema, name, what it is.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT w.schema, w.name,
       CASE c.relkind WHEN 'v' THEN 'a view' WHEN 'm' THEN 'a materialized view' WHEN 'f' THEN 'a foreign table'
                      WHEN 'S' THEN 'a sequence' WHEN 'c' THEN 'a composite type' ELSE 'an index' END
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
WHERE c.relkind NOT IN ('r', 'p')
