-- Foreign keys, from the catalogue. Each statement is a section with its name.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.

-- name: foreign_keys
-- The enforced foreign keys of tables.
-- Called by: sluice.vendors.postgres.foreign_keys, on the slave for the order in which tables are written.
-- Parameters: $1 schemas text[], $2 names text[] (pairs, same order): the tables that refer to others.
-- Result: schema and name of the referring table, of the referred one; what an update and a deletion of a referred row
--   does (a no action, r restrict, c cascade, n set null, d set default); the columns that refer, those referred to.
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

-- name: foreign_keys_acting
-- The foreign keys of a slave that change or delete rows by themselves, of all tables.
-- Called by: sluice.vendors.postgres.foreign_keys, in the transaction of applied changes, after them: then no foreign key
--   can be created any more.
-- Result: name, its definition, then as foreign_keys.sql.
SELECT f.conname::text, pg_catalog.pg_get_constraintdef(f.oid),
       cn.nspname::text, c.relname::text, pn.nspname::text, p.relname::text,
       f.confupdtype::text, f.confdeltype::text,
       ARRAY(SELECT a.attname::text FROM unnest(f.conkey) WITH ORDINALITY AS k (attnum, place)
             JOIN pg_catalog.pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = k.attnum ORDER BY k.place),
       ARRAY(SELECT a.attname::text FROM unnest(f.confkey) WITH ORDINALITY AS k (attnum, place)
             JOIN pg_catalog.pg_attribute a ON a.attrelid = f.confrelid AND a.attnum = k.attnum ORDER BY k.place)
FROM pg_catalog.pg_constraint f
JOIN pg_catalog.pg_class c ON c.oid = f.conrelid JOIN pg_catalog.pg_namespace cn ON cn.oid = c.relnamespace
JOIN pg_catalog.pg_class p ON p.oid = f.confrelid JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
WHERE f.contype = 'f' AND f.conparentid = 0 AND (f.confupdtype IN ('c', 'n', 'd') OR f.confdeltype IN ('c', 'n', 'd'))
  AND coalesce(to_jsonb(f) ->> 'conenforced', 'true') = 'true'
ORDER BY 3, 4, 1

-- name: foreign_keys_touching
-- Foreign keys of a slave that concern the tables of an initial update.
-- Called by: the initial update, before it changes anything.
-- Parameters: schemas text[], names text[]: the tables to be loaded (pairs).
-- Result: schema, name of the referring table, constraint, schema, name of the referred table; whether each of the two is
--   among those to be loaded.
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
