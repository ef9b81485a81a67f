-- Columns that hold numbers of large objects, whose contents no trigger sees: columns of the type lo, and columns of the type
-- oid if the database has large objects.
-- Called by: the preflight, on the master.
-- Parameters: schemas text[], names text[]: the tables (pairs).
-- Result: schema, name, column.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
WITH RECURSIVE numbers (oid, is_lo) AS (
    SELECT t.oid, false FROM pg_catalog.pg_type t WHERE t.oid = 'pg_catalog.oid'::pg_catalog.regtype
    UNION
    SELECT t.oid, n.is_lo OR t.typname = 'lo'
    FROM numbers n
    JOIN pg_catalog.pg_type t ON (t.typtype = 'd' AND t.typbasetype = n.oid)
        OR (t.typelem = n.oid AND t.typsubscript = 'pg_catalog.array_subscript_handler'::pg_catalog.regproc)
)
SELECT w.schema, w.name, a.attname
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace s ON s.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = s.oid AND c.relname = w.name
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN numbers n ON n.oid = a.atttypid
WHERE n.is_lo OR EXISTS (SELECT FROM pg_catalog.pg_largeobject_metadata)
GROUP BY w.schema, w.name, a.attname, a.attnum
ORDER BY w.schema, w.name, a.attnum
