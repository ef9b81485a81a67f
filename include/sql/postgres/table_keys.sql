-- The name and kind of each table's key; shapes.sql has its columns.
-- Called by: the initial update, on the master; shapes.sql says its columns.
-- Parameters: schemas text[], names text[] (pairs).
-- Result: schema, name, index name, kind (p primary key, u unique constraint, i index alone); keyless tables are
--   absent.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT DISTINCT ON (i.indrelid) w.schema, w.name, x.relname::text, coalesce(k.contype::text, 'i')
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
JOIN pg_catalog.pg_index i ON i.indrelid = c.oid
JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
LEFT JOIN pg_catalog.pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u')
WHERE i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
  AND NOT EXISTS (
      SELECT FROM pg_catalog.pg_attribute a
      WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])
        AND (NOT a.attnotnull OR a.attgenerated <> '' OR EXISTS (
            SELECT FROM pg_catalog.pg_constraint u
            WHERE u.conrelid = a.attrelid AND u.contype = 'n' AND NOT u.convalidated AND u.conkey = ARRAY[a.attnum])))
  AND (i.indisprimary OR NOT EXISTS (
      SELECT FROM unnest(i.indkey[0:i.indnkeyatts - 1]::int2[], i.indcollation[0:i.indnkeyatts - 1]::oid[]) x (attnum, own)
      JOIN pg_catalog.pg_attribute k ON k.attrelid = i.indrelid AND k.attnum = x.attnum AND k.attcollation <> x.own
      JOIN pg_catalog.pg_collation c ON c.oid IN (k.attcollation, x.own) AND NOT c.collisdeterministic))
ORDER BY i.indrelid, i.indisprimary DESC, i.indnkeyatts, i.indkey[0:i.indnkeyatts - 1]::int2[], i.indexrelid
