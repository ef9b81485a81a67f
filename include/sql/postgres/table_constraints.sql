-- Check constraints and foreign keys of tables.
-- Called by: the initial update's finish, on master and slave.
-- Parameters: schemas text[], names text[]: the tables (pairs).
-- Result: schema, name of the table, constraint name, kind (c, f), validated bool, definition of a check, columns
--   text[]; of a foreign key: schema and name of the table it refers to, its columns text[], MATCH (f full, s simple),
--   deferrable bool, initially deferred bool. Constraints that are not enforced and temporal ones are left out.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT w.schema, w.name, k.conname::text, k.contype::text, k.convalidated,
       CASE WHEN k.contype = 'c' THEN format('CHECK (%%s)', pg_catalog.pg_get_expr(k.conbin, k.conrelid)) END,
       (SELECT array_agg(a.attname::text ORDER BY p.n) FROM unnest(k.conkey) WITH ORDINALITY AS p (attnum, n)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = p.attnum),
       rn.nspname::text, r.relname::text,
       (SELECT array_agg(a.attname::text ORDER BY p.n) FROM unnest(k.confkey) WITH ORDINALITY AS p (attnum, n)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = p.attnum),
       k.confmatchtype::text, k.condeferrable, k.condeferred
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
JOIN pg_catalog.pg_constraint k ON k.conrelid = c.oid AND k.contype IN ('c', 'f') AND k.conparentid = 0
LEFT JOIN pg_catalog.pg_class r ON r.oid = k.confrelid
LEFT JOIN pg_catalog.pg_namespace rn ON rn.oid = r.relnamespace
WHERE coalesce((to_jsonb(k) ->> 'conenforced')::boolean, true) AND NOT coalesce((to_jsonb(k) ->> 'conperiod')::boolean, false)
ORDER BY w.schema, w.name, k.oid
