-- The enforced foreign keys of tables.
-- Called by: sluice.vendors.postgres.foreign_keys, on the slave for the order in which tables are written.
-- Parameters: $1 schemas text[], $2 names text[] (pairs, same order): the tables that refer to others.
-- Result: schema and name of the referring table, of the referred one; what an update and a deletion of a referred row
--   does (a no action, r restrict, c cascade, n set null, d set default); the columns that refer, those referred to.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT cn.nspname::text, c.relname::text, pn.nspname::text, p.relname::text,
       f.confupdtype::text, f.confdeltype::text,
       ARRAY(SELECT a.attname::text FROM unnest(f.conkey) WITH ORDINALITY AS k (attnum, place)
             JOIN pg_catalog.pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = k.attnum ORDER BY k.place),
       ARRAY(SELECT a.attname::text FROM unnest(f.confkey) WITH ORDINALITY AS k (attnum, place)
             JOIN pg_catalog.pg_attribute a ON a.attrelid = f.confrelid AND a.attnum = k.attnum ORDER BY k.place)
FROM unnest($1::text[], $2::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace cn ON cn.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = cn.oid AND c.relname = w.name
JOIN pg_catalog.pg_constraint f ON f.conrelid = c.oid AND f.contype = 'f' AND f.conparentid = 0
JOIN pg_catalog.pg_class p ON p.oid = f.confrelid
JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
-- PostgreSQL 18 has some that are not enforced, and a column that says so.
WHERE coalesce(to_jsonb(f) ->> 'conenforced', 'true') = 'true'
ORDER BY 1, 2, 3, 4, f.conname
