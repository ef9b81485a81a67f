-- Comments on tables and their columns.
-- Called by: the apply, on master and slave.
-- Parameters: schemas text[], names text[]: the tables (pairs).
-- Result: schema, name of the table, column (empty: the table's own), text.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT w.schema, w.name, coalesce(a.attname::text, ''), d.description
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.classoid = 'pg_catalog.pg_class'::regclass
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid AND d.objsubid > 0
WHERE d.objsubid = 0 OR NOT a.attisdropped
ORDER BY w.schema, w.name, d.objsubid
