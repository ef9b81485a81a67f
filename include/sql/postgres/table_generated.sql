-- The expressions of generated columns.
-- Called by: the initial update, on the master.
-- Parameters: schemas text[], names text[]: the tables (pairs).
-- Result: schema, name, column, expression.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT w.schema, w.name, a.attname::text, pg_catalog.pg_get_expr(d.adbin, d.adrelid)
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND a.attgenerated <> ''
JOIN pg_catalog.pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
