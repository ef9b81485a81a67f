-- Definitions of tables, from the catalogue. Each statement is a section with its name.
-- Oldest version: PostgreSQL 13.

-- name: table_comments
-- Comments on tables and their columns.
-- Called by: the apply, on master and slave.
-- Parameters: schemas text[], names text[]: the tables (pairs).
-- Result: schema, name of the table, column (empty: the table's own), text.
-- Privileges: none.
SELECT w.schema, w.name, coalesce(a.attname::text, ''), d.description
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.classoid = 'pg_catalog.pg_class'::regclass
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid AND d.objsubid > 0
WHERE d.objsubid = 0 OR NOT a.attisdropped
ORDER BY w.schema, w.name, d.objsubid

-- name: table_constraints
-- Check constraints and foreign keys of tables.
-- Called by: the initial update's finish, on master and slave.
-- Parameters: schemas text[], names text[]: the tables (pairs).
-- Result: schema, name of the table, constraint name, kind (c, f), validated bool, definition of a check, columns text[];
--   of a foreign key: schema and name of the table it refers to, its columns text[], MATCH (f full, s simple), deferrable
--   bool, initially deferred bool. Constraints that are not enforced and temporal ones are left out.
-- Privileges: none.
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

-- name: table_generated
-- The expressions of generated columns.
-- Called by: the initial update, on the master.
-- Parameters: schemas text[], names text[]: the tables (pairs).
-- Result: schema, name, column, expression.
-- Privileges: none.
SELECT w.schema, w.name, a.attname::text, pg_catalog.pg_get_expr(d.adbin, d.adrelid)
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND a.attgenerated <> ''
JOIN pg_catalog.pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum

-- name: table_indexes
-- Indexes of tables other than that of the key, and unique and exclusion constraints.
-- Called by: the initial update's finish, on master and slave.
-- Parameters: schemas text[], names text[]: the tables (pairs).
-- Result: schema, name of the table, index name, unique bool, valid bool, the text after CREATE INDEX name ON table,
--   constraint kind (u, x or NULL), constraint definition, key bool (the index of the primary key), text[] of the
--   expressions among its columns and of its condition, text[] of the columns that it and these use.
-- Privileges: none.
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

-- name: table_keys
-- The name and kind of each table's key; shapes.sql has its columns.
-- Called by: the initial update, on the master; shapes.sql says its columns.
-- Parameters: schemas text[], names text[] (pairs).
-- Result: schema, name, index name, kind (p primary key, u unique constraint, i index alone); keyless tables are absent.
-- Privileges: none.
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

-- name: table_sequences
-- Sequences of the columns of tables: of identity columns and of defaults.
-- Called by: the initial update, on master and slave.
-- Parameters: schemas text[], names text[]: the tables (pairs); values bool: whether values are read, which waits for locks.
-- Result: schema, name of the table, column, identity bool, owned bool (goes with the column), schema, name of the
--   sequence, type, start, increment, minimum, maximum, cache, cycle, last value (NULL: never used, or no privilege),
--   whether this account may read that value, may set it; owner of the sequence, quoted.
-- Privileges: SELECT on the sequences for the last value.
SELECT w.schema, w.name, a.attname::text, u.identity, o.objid IS NOT NULL OR u.identity,
       sn.nspname::text, q.relname::text, pg_catalog.format_type(s.seqtypid, NULL),
       s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcache, s.seqcycle,
       CASE WHEN %(values)s AND has_sequence_privilege(q.oid, 'SELECT, USAGE') THEN pg_catalog.pg_sequence_last_value(q.oid) END,
       has_sequence_privilege(q.oid, 'SELECT, USAGE'), has_sequence_privilege(q.oid, 'UPDATE'), format('%%I', r.rolname)
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN LATERAL (
    SELECT d.objid AS sequence, true AS identity
    FROM pg_catalog.pg_depend d
    WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.refclassid = 'pg_catalog.pg_class'::regclass
      AND d.refobjid = c.oid AND d.refobjsubid = a.attnum AND d.deptype = 'i' AND a.attidentity <> ''
    UNION
    SELECT d.refobjid, false
    FROM pg_catalog.pg_attrdef f
    JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_attrdef'::regclass AND d.objid = f.oid
                               AND d.refclassid = 'pg_catalog.pg_class'::regclass
    WHERE f.adrelid = c.oid AND f.adnum = a.attnum
) u ON true
JOIN pg_catalog.pg_class q ON q.oid = u.sequence AND q.relkind = 'S'
JOIN pg_catalog.pg_namespace sn ON sn.oid = q.relnamespace
JOIN pg_catalog.pg_sequence s ON s.seqrelid = q.oid
JOIN pg_catalog.pg_roles r ON r.oid = q.relowner
LEFT JOIN pg_catalog.pg_depend o
    ON o.classid = 'pg_catalog.pg_class'::regclass AND o.objid = q.oid AND o.deptype = 'a'
   AND o.refclassid = 'pg_catalog.pg_class'::regclass AND o.refobjid = c.oid AND o.refobjsubid = a.attnum
ORDER BY w.schema, w.name, a.attnum

-- name: table_sequences_used
-- Sequences that a table or columns of it own, and that defaults of other columns use.
-- Called by: the apply, on the slave, before it drops them.
-- Parameters: table text (quoted name), columns text[] (NULL: all).
-- Result: a statement for each, which gives it to one of these columns where PostgreSQL allows that, otherwise to none.
-- Privileges: none.
SELECT DISTINCT ON (s.oid) format('ALTER SEQUENCE %%I.%%I OWNED BY %%s', sn.nspname, s.relname,
    CASE WHEN (c.relnamespace, c.relowner) = (s.relnamespace, s.relowner)
         THEN format('%%I.%%I.%%I', n.nspname, c.relname, a.attname) ELSE 'NONE' END)
FROM pg_catalog.pg_class t
JOIN pg_catalog.pg_attribute o ON o.attrelid = t.oid AND o.attnum > 0
    AND (%(columns)s::text[] IS NULL OR o.attname = ANY (%(columns)s::text[]))
JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_class'::regclass AND d.deptype = 'a'
    AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = t.oid AND d.refobjsubid = o.attnum
JOIN pg_catalog.pg_class s ON s.oid = d.objid AND s.relkind = 'S'
JOIN pg_catalog.pg_namespace sn ON sn.oid = s.relnamespace
JOIN pg_catalog.pg_depend u ON u.classid = 'pg_catalog.pg_attrdef'::regclass
    AND u.refclassid = 'pg_catalog.pg_class'::regclass AND u.refobjid = s.oid
JOIN pg_catalog.pg_attrdef f ON f.oid = u.objid
JOIN pg_catalog.pg_attribute a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
JOIN pg_catalog.pg_class c ON c.oid = f.adrelid AND c.relkind IN ('r', 'p')
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE t.oid = pg_catalog.to_regclass(%(table)s)
  AND (f.adrelid <> t.oid OR %(columns)s::text[] IS NOT NULL AND a.attname <> ALL (%(columns)s::text[]))
ORDER BY s.oid, (c.relnamespace, c.relowner) = (s.relnamespace, s.relowner) DESC, c.relname, a.attname

-- name: table_names_aside
-- Indexes of a table and sequences that its columns own, which move with it, if another relation of its new schema has the
-- name of one: that will leave the schema, too, or get another name.
-- Called by: the apply, on the slave, before it moves the table.
-- Parameters: table text (quoted name), schema text.
-- Result: a statement for each, which gives it a passing name, its oid, and its name.
-- Privileges: none.
SELECT format('ALTER %%s %%I.%%I RENAME TO %%I', CASE r.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'INDEX' END, n.nspname, r.relname,
              'sluice_moved_' || r.oid), r.oid::bigint, r.relname::text
FROM pg_catalog.pg_class r
JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
WHERE (r.oid IN (SELECT i.indexrelid FROM pg_catalog.pg_index i WHERE i.indrelid = pg_catalog.to_regclass(%(table)s))
       OR r.relkind = 'S' AND r.oid IN (
           SELECT d.objid FROM pg_catalog.pg_depend d
           WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.deptype IN ('a', 'i')
             AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = pg_catalog.to_regclass(%(table)s)))
  AND EXISTS (SELECT FROM pg_catalog.pg_class o JOIN pg_catalog.pg_namespace s ON s.oid = o.relnamespace
              WHERE s.nspname = %(schema)s AND o.relname = r.relname)

-- name: table_names_back
-- The same where they are, if the name that they had is free there.
-- Called by: the apply, on the slave, before it commits.
-- Parameters: moved bigint (oid), name text.
-- Result: a statement that gives it its name again; none if another relation has it.
-- Privileges: none.
SELECT format('ALTER %%s %%I.%%I RENAME TO %%I', CASE r.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'INDEX' END, n.nspname, r.relname,
              %(name)s::text)
FROM pg_catalog.pg_class r
JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
WHERE r.oid = %(moved)s AND r.relname = 'sluice_moved_' || r.oid
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_class o WHERE o.relnamespace = r.relnamespace AND o.relname = %(name)s)
