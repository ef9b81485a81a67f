-- The tables of a slave to which changes are applied, one row for each column.
-- Called by: sluice.vendors.postgres.target.slave_tables.
-- Parameters: $1 schemas text[], $2 names text[] (pairs, same order).
-- Result: schema, name, partitioned bool, watched bool (a foreign key points here, or a user's trigger acts), then
--   column name, type, plain type (of a domain the type below, without length), the same with its length, NOT NULL,
--   identity, generated, equality operator (qualified; NULL when the type has none), whether that can drive a hash
--   join, whether a collation decides, whether a cast from text reads what the type's own input does, place in the
--   primary key (0: none). A table without columns gives one row of NULLs. Ordered by table and position.
-- Privileges: none beyond connecting.
-- Oldest version: PostgreSQL 13.
WITH RECURSIVE wanted AS (
    SELECT c.oid, n.nspname, c.relname, c.relkind
    FROM unnest($1::text[], $2::text[]) AS w (schema, name)
    JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
    WHERE c.relkind IN ('r', 'p')
), columns AS (
    SELECT w.oid, a.*
    FROM wanted w
    JOIN pg_catalog.pg_attribute a ON a.attrelid = w.oid AND a.attnum > 0 AND NOT a.attisdropped
), bases (oid, base, typmod) AS (
    SELECT t.oid, t.oid, -1 FROM pg_catalog.pg_type t WHERE t.oid IN (SELECT atttypid FROM columns)
    UNION ALL
    SELECT b.oid, t.typbasetype, t.typtypmod
    FROM bases b JOIN pg_catalog.pg_type t ON t.oid = b.base WHERE t.typtype = 'd'
)
SELECT w.nspname::text, w.relname::text, w.relkind = 'p',
       EXISTS (SELECT FROM pg_catalog.pg_constraint f WHERE f.confrelid = w.oid AND f.contype = 'f')
           OR EXISTS (SELECT FROM pg_catalog.pg_trigger g
                      WHERE g.tgrelid = w.oid AND NOT g.tgisinternal AND g.tgenabled <> 'D'),
       a.attname::text,
       pg_catalog.format_type(a.atttypid, a.atttypmod),
       pg_catalog.format_type(t.oid, -1),
       pg_catalog.format_type(t.oid, CASE WHEN t.oid = a.atttypid THEN a.atttypmod ELSE b.typmod END),
       a.attnotnull,
       a.attidentity::text,
       a.attgenerated::text,
       CASE
           WHEN t.typtype IN ('c', 'e', 'r', 'm') THEN 'OPERATOR(pg_catalog.=)'
           -- An operator of an extension (citext, hstore and others) lies in the extension's schema.
           ELSE (SELECT pg_catalog.format('OPERATOR(%I.=)', o.nspname) FROM (
                     SELECT n.nspname, 1 AS choice
                     FROM pg_catalog.pg_operator p JOIN pg_catalog.pg_namespace n ON n.oid = p.oprnamespace
                     WHERE p.oprname = '=' AND p.oprleft = t.oid AND p.oprright = t.oid
                       AND (p.oprcanmerge OR p.oprcanhash  -- others (box, path) do not mean the same value
                            OR EXISTS (SELECT FROM pg_catalog.pg_amop o  -- or are what a key goes by (vector)
                                       JOIN pg_catalog.pg_am m ON m.oid = o.amopmethod AND m.amname = 'btree'
                                       WHERE o.amopopr = p.oid AND o.amopstrategy = 3))
                     UNION ALL
                     SELECT 'pg_catalog', 2
                     WHERE t.typlen = -1 AND t.typelem <> 0 OR t.oid = 'pg_catalog.varchar'::regtype
                     ORDER BY choice LIMIT 1) o)
       END,
       t.typtype = 'e' OR t.oid = 'pg_catalog.varchar'::regtype OR EXISTS (
           SELECT FROM pg_catalog.pg_operator p
           WHERE p.oprname = '=' AND p.oprleft = t.oid AND p.oprright = t.oid AND p.oprcanhash),
       t.typcollation <> 0,
       -- regclass, name and "char" have a function for the cast that reads less or otherwise; that of xml is its input.
       t.oid = 'pg_catalog.xml'::regtype OR NOT EXISTS (
           SELECT FROM pg_catalog.pg_cast c
           WHERE c.castsource = 'pg_catalog.text'::regtype AND c.casttarget = t.oid AND c.castmethod = 'f'),
       coalesce((SELECT p.place::int FROM pg_catalog.pg_index i
                 CROSS JOIN unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY AS p (attnum, place)
                 WHERE i.indrelid = w.oid AND i.indisprimary AND p.attnum = a.attnum), 0)
FROM wanted w
LEFT JOIN columns a ON a.attrelid = w.oid
LEFT JOIN bases b ON b.oid = a.atttypid
LEFT JOIN pg_catalog.pg_type t ON t.oid = b.base
WHERE t.typtype IS DISTINCT FROM 'd'
ORDER BY w.nspname, w.relname, a.attnum
