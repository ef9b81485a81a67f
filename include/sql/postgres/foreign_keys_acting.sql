-- The foreign keys of a slave that change or delete rows by themselves, of all tables.
-- Called by: sluice.vendors.postgres.foreign_keys, in the transaction of applied changes, after them: then no foreign
--   key can be created any more.
-- Result: name, its definition, then as foreign_keys.sql.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
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
