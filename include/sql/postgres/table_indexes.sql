-- Indexes of tables other than that of the key, and unique and exclusion constraints.
-- Called by: the initial update's finish, on master and slave.
-- Parameters: schemas text[], names text[]: the tables (pairs).
-- Result: schema, name of the table, index name, unique bool, valid bool, the text after CREATE INDEX name ON table,
--   constraint kind (u, x or NULL), constraint definition, key bool (the index of the primary key), text[] of the
--   expressions among its columns and of its condition, text[] of the columns that it and these use.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT w.schema, w.name, x.relname::text, i.indisunique, i.indisvalid AND i.indisready,
       substring(pg_catalog.pg_get_indexdef(i.indexrelid)
                 FROM char_length(format('CREATE %%sINDEX %%I ON %%s%%I.%%I ',
                                         CASE WHEN i.indisunique THEN 'UNIQUE ' ELSE '' END, x.relname,
                                         CASE WHEN x.relkind = 'I' THEN 'ONLY ' ELSE '' END, w.schema, w.name)) + 1),
       k.contype::text, pg_catalog.pg_get_constraintdef(k.oid), i.indisprimary,
       ARRAY(SELECT pg_catalog.pg_get_indexdef(i.indexrelid, p.n::int, false)
             FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS p (attnum, n) WHERE p.attnum = 0 ORDER BY p.n)
       || array_remove(ARRAY[pg_catalog.pg_get_expr(i.indpred, i.indrelid)], NULL),
       ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
             WHERE a.attrelid = i.indrelid AND a.attnum > 0
               AND (a.attnum = ANY (i.indkey)
                    OR EXISTS (SELECT FROM pg_catalog.pg_depend d
                               WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = i.indexrelid
                                 AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = i.indrelid
                                 AND d.refobjsubid = a.attnum))
             ORDER BY a.attnum)
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
JOIN pg_catalog.pg_index i ON i.indrelid = c.oid
JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
LEFT JOIN pg_catalog.pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('u', 'x', 'p')
WHERE i.indislive
ORDER BY w.schema, w.name, i.indexrelid
