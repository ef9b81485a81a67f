-- COLS_VIEW: the current structure of the replicated tables. It is replaced if this text differs from the installed
-- one: a later release may append columns and change the values of others.
-- Called by: sluice.capture after the numbered steps; COLS_TABLE (resources_v1.sql) has the same columns.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: CREATE on the schema.
-- Oldest version: PostgreSQL 14.

-- One row a column of any table.
CREATE OR REPLACE VIEW ${schema}.${prefix}cols_all AS
WITH replicated AS (
    SELECT c.oid, n.nspname::text AS schemaname, c.relname::text AS tablename, c.relkind
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p')
)
SELECT r.schemaname,
       r.tablename,
       r.oid AS relid,
       a.attnum::integer AS attnum,
       a.attname::text AS attname,
       a.atttypid,
       pg_catalog.format_type(a.atttypid, a.atttypmod) AS atttype,
       -- A constraint that is not validated says nothing about the rows that are there (PostgreSQL 18).
       a.attnotnull AND NOT EXISTS (
           SELECT FROM pg_catalog.pg_constraint u
           WHERE u.conrelid = a.attrelid AND u.contype = 'n' AND NOT u.convalidated AND u.conkey = ARRAY[a.attnum]
       ) AS attnotnull,
       -- A default refers to no column: without the table it is printed without a lock, for which it could wait.
       pg_catalog.pg_get_expr(d.adbin, CASE WHEN a.attgenerated <> '' THEN d.adrelid ELSE 0 END) AS attdefault,
       a.attidentity::text AS attidentity,
       a.attgenerated::text AS attgenerated,
       CASE WHEN a.attcollation <> y.typcollation THEN
           (SELECT pg_catalog.format('%I.%I', cn.nspname, co.collname) FROM pg_catalog.pg_collation co
            JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace WHERE co.oid = a.attcollation) END AS attcollation,
       coalesce(pg_catalog.array_position(k.indkey[0:k.indnkeyatts - 1], a.attnum), 0) AS keypos,
       -- The value that rows older than the column have (ADD COLUMN ... DEFAULT without a rewrite): a partitioned table
       -- has no rows, its partitions say. These must not be locked before their table (partition_tree in partitions.sql).
       -- The text of the array that has the value is not taken apart: types choose its delimiter.
       CASE WHEN a.atthasmissing THEN pg_catalog.array_to_string(a.attmissingval, '')
            WHEN r.relkind = 'p' THEN (
                WITH RECURSIVE tree (relid) AS (
                    SELECT r.oid UNION ALL SELECT i.inhrelid FROM tree t JOIN pg_catalog.pg_inherits i ON i.inhparent = t.relid
                )
                SELECT pg_catalog.array_to_string(l.attmissingval, '')
                FROM tree p
                JOIN pg_catalog.pg_attribute l ON l.attrelid = p.relid AND l.attname = a.attname AND l.atthasmissing
                LIMIT 1) END AS attmissing
FROM replicated r
JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_catalog.pg_type y ON y.oid = a.atttypid
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
-- The key: the primary key, or else a unique index that is immediate, plain and NOT NULL; never one with a generated column,
-- which is not replicated, nor one that tells other rows apart than its columns, because one of the two collations is not
-- deterministic. Of several the one with the fewest and first columns: an index that is built anew changes nothing.
LEFT JOIN LATERAL (
    SELECT i.indkey, i.indnkeyatts
    FROM pg_catalog.pg_index i
    WHERE i.indrelid = r.oid
      AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
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
    ORDER BY i.indisprimary DESC, i.indnkeyatts, i.indkey[0:i.indnkeyatts - 1]::int2[], i.indexrelid
    LIMIT 1
) k ON true;

-- Of the replicated tables.
CREATE OR REPLACE VIEW ${schema}.${prefix}cols_view AS
SELECT t.schemaname, t.tablename, a.relid, a.attnum, a.attname, a.atttypid, a.atttype, a.attnotnull, a.attdefault, a.attidentity,
       a.attgenerated, a.attcollation, a.keypos, a.attmissing
FROM ${schema}.${prefix}tables t
JOIN pg_catalog.pg_namespace n ON n.nspname = t.schemaname
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
JOIN ${schema}.${prefix}cols_all a ON a.relid = c.oid;
