-- Collations of columns. Each statement is a section with its name.
-- Privileges: none.

-- name: collations_lacking
-- Collations that are absent and cannot be created in this database.
-- Called by: the initial update, on the slave, before it creates tables.
-- Parameters: names text[]: quoted qualified names of collations; providers text[]: their provider if they have to be
--   created, else NULL (pairs).
-- Result: their names.
-- Oldest version: PostgreSQL 13.
SELECT w.name
FROM unnest(%(names)s::text[], %(providers)s::text[]) AS w (name, provider)
WHERE to_regcollation(w.name) IS NULL
  AND (w.provider IS NULL
       -- A server built without ICU has none of its collations but this one.
       OR w.provider = 'i' AND NOT EXISTS (SELECT FROM pg_catalog.pg_collation l
                                           WHERE l.collprovider = 'i' AND l.collname <> 'unicode'))

-- name: collations_needed
-- User-defined collations that the columns of tables use.
-- Called by: the initial update, on the master.
-- Parameters: schemas text[], names text[]: the tables (pairs).
-- Result: schema, name, deterministic bool, provider (i ICU, c libc, b builtin), locale (ICU, builtin), collate and ctype
--   (libc), rules (ICU). Columns that older versions lack are NULL.
-- Oldest version: PostgreSQL 14.
SELECT DISTINCT cs.nspname::text, l.collname::text, l.collisdeterministic, l.collprovider::text,
       coalesce(to_jsonb(l) ->> 'colllocale', to_jsonb(l) ->> 'colliculocale',
                CASE WHEN l.collprovider = 'i' THEN to_jsonb(l) ->> 'collcollate' END),
       to_jsonb(l) ->> 'collcollate', to_jsonb(l) ->> 'collctype', to_jsonb(l) ->> 'collicurules'
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
JOIN pg_catalog.pg_namespace cs ON cs.oid = l.collnamespace
WHERE l.oid >= 16384
ORDER BY 1, 2
