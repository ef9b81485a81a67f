-- The columns and the key of tables, one row for each column.
-- Called by: sluice.vendors.postgres.catalog, on master and slave.
-- Parameters: schemas text[], names text[] (pairs, same order).
-- Result: schema, name, partitioned bool, then column name, type, position, nullable, key position (0: none), default,
--   identity, generated, collation. Ordered by table and position. A table without columns gives one row of NULLs.
-- Privileges: none beyond connecting.
-- Oldest version: PostgreSQL 13.
WITH wanted AS (
    SELECT c.oid, n.nspname, c.relname, c.relkind
    FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
    JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
    WHERE c.relkind IN ('r', 'p')
), keys AS (
    SELECT DISTINCT ON (i.indrelid) i.indrelid, i.indkey, i.indnkeyatts
    FROM pg_catalog.pg_index i
    JOIN wanted w ON w.oid = i.indrelid
    WHERE i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
      -- As COLS_VIEW chooses it.
      AND NOT EXISTS (
          SELECT FROM pg_catalog.pg_attribute k
          WHERE k.attrelid = i.indrelid AND k.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])
            AND (NOT k.attnotnull OR k.attgenerated <> '' OR EXISTS (
                SELECT FROM pg_catalog.pg_constraint u
                WHERE u.conrelid = k.attrelid AND u.contype = 'n' AND NOT u.convalidated AND u.conkey = ARRAY[k.attnum])))
      AND (i.indisprimary OR NOT EXISTS (
          SELECT FROM unnest(i.indkey[0:i.indnkeyatts - 1]::int2[], i.indcollation[0:i.indnkeyatts - 1]::oid[]) x (attnum, own)
          JOIN pg_catalog.pg_attribute k ON k.attrelid = i.indrelid AND k.attnum = x.attnum AND k.attcollation <> x.own
          JOIN pg_catalog.pg_collation c ON c.oid IN (k.attcollation, x.own) AND NOT c.collisdeterministic))
    ORDER BY i.indrelid, i.indisprimary DESC, i.indnkeyatts, i.indkey[0:i.indnkeyatts - 1]::int2[], i.indexrelid
)
SELECT w.nspname::text, w.relname::text, w.relkind = 'p',
       a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnum::int, NOT a.attnotnull OR EXISTS (
           SELECT FROM pg_catalog.pg_constraint u
           WHERE u.conrelid = a.attrelid AND u.contype = 'n' AND NOT u.convalidated AND u.conkey = ARRAY[a.attnum]),
       coalesce((SELECT p.ordinal::int FROM unnest(k.indkey[0:k.indnkeyatts - 1]) WITH ORDINALITY AS p (attnum, ordinal)
                 WHERE p.attnum = a.attnum), 0),
       CASE WHEN a.attgenerated = '' THEN pg_catalog.pg_get_expr(d.adbin, 0) END,
       a.attidentity::text, a.attgenerated::text,
       CASE WHEN a.attcollation <> t.typcollation
            THEN (SELECT format('%%I.%%I', cn.nspname, co.collname) FROM pg_catalog.pg_collation co
                  JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace WHERE co.oid = a.attcollation) END
FROM wanted w
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = w.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = w.oid AND d.adnum = a.attnum
LEFT JOIN keys k ON k.indrelid = w.oid
ORDER BY w.nspname, w.relname, a.attnum
