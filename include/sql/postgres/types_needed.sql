-- User-defined types that tables need, and the types and extensions which those need.
-- Called by: the initial update, on the master.
-- Parameters: schemas text[], names text[]: the tables (pairs).
-- Result: schema, name of each type; a type comes after the types that it consists of. Types of extensions are among
--   them, types of pg_catalog are not.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
WITH RECURSIVE needed (oid, depth) AS (
    SELECT a.atttypid, 0
    FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
    JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    UNION
    SELECT p.oid, d.depth + 1
    FROM needed d
    JOIN pg_catalog.pg_type t ON t.oid = d.oid
    CROSS JOIN LATERAL (
        -- An array's elements, a domain's base, a composite's attributes, a range's subtype, a multirange's range.
        SELECT t.typelem WHERE t.typelem <> 0 AND t.typcategory = 'A'
        UNION ALL SELECT t.typbasetype WHERE t.typtype = 'd'
        UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a
                  WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE r.rngtypid = t.oid
        UNION ALL SELECT r.rngtypid FROM pg_catalog.pg_range r WHERE r.rngmultitypid = t.oid
    ) AS p (oid)
    -- What a type of an extension is made of comes with the extension.
    WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = 'pg_catalog.pg_type'::regclass
                      AND e.objid = t.oid AND e.deptype = 'e')
)
SELECT s.nspname::text, t.typname::text
FROM needed d
JOIN pg_catalog.pg_type t ON t.oid = d.oid
JOIN pg_catalog.pg_namespace s ON s.oid = t.typnamespace
WHERE t.oid >= 16384 AND t.typtype <> 'm' AND NOT (t.typelem <> 0 AND t.typcategory = 'A')
GROUP BY s.nspname, t.typname
ORDER BY max(d.depth) DESC, 1, 2
