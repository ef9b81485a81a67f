-- Foreign keys of a slave that concern the tables of an initial update.
-- Called by: the initial update, before it changes anything.
-- Parameters: schemas text[], names text[]: the tables to be loaded (pairs).
-- Result: schema, name of the referring table, constraint, schema, name of the referred table; whether each of the two
--   is among those to be loaded.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
WITH wanted AS (
    SELECT c.oid FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
    JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
)
SELECT cn.nspname::text, c.relname::text, k.conname::text, rn.nspname::text, r.relname::text,
       c.oid IN (SELECT oid FROM wanted), r.oid IN (SELECT oid FROM wanted)
FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_class c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace cn ON cn.oid = c.relnamespace
JOIN pg_catalog.pg_class r ON r.oid = k.confrelid JOIN pg_catalog.pg_namespace rn ON rn.oid = r.relnamespace
WHERE k.contype = 'f' AND k.conparentid = 0
  AND (k.conrelid IN (SELECT oid FROM wanted) OR k.confrelid IN (SELECT oid FROM wanted))
ORDER BY 1, 2, 3
