-- The extensions whose operator classes the indexes of tables use, such as btree_gist or pg_trgm.
-- Called by: the preflight, on the master.
-- Parameters: schemas text[], names text[]: the tables (pairs).
-- Result: extension, its schema.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
SELECT DISTINCT e.extname::text, s.nspname::text
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
JOIN pg_catalog.pg_index i ON i.indrelid = c.oid
JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_opclass'::pg_catalog.regclass
                           AND d.objid = ANY (i.indclass::oid[]) AND d.deptype = 'e'
JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
JOIN pg_catalog.pg_namespace s ON s.oid = e.extnamespace
ORDER BY 1
