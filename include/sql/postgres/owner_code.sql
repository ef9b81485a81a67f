-- Functions that PostgreSQL may run with the rights of this account when it only plans a query of replicated tables: those
-- that expressions of indexes, checks, statistics, partition keys and policies call; and those of the types of indexed
-- columns: checks of domains run when the text of a key is read, differences of ranges when keys are compared with it.
-- Such a check runs whatever it calls: of PostgreSQL's functions, too, some run a statement that they are given.
-- Called by: the preflight; whatever reads rows of the master, before it does.
-- Parameters: schemas text[], names text[]: the tables (pairs).
-- Result: quoted name of the table, signature of the function, its owner, quoted; none for functions of superusers and of
--   this account, unless they could run a statement or a function that they are given. Of something else that has the name of
--   the table, such as a view, one row with NULLs.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
WITH RECURSIVE relations (root, oid) AS (
    SELECT c.oid, c.oid
    FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
    JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name AND c.relkind IN ('r', 'p')
    UNION
    SELECT r.root, i.inhrelid FROM relations r JOIN pg_catalog.pg_inherits i ON i.inhparent = r.oid
    JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid AND c.relispartition
), types (root, oid) AS (
    SELECT r.root, a.atttypid
    FROM relations r
    JOIN pg_catalog.pg_index i ON i.indrelid = r.oid
    JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum = ANY (i.indkey::int2[])
    UNION
    SELECT t.root, part.oid
    FROM types t
    JOIN pg_catalog.pg_type y ON y.oid = t.oid AND y.oid >= 16384
    CROSS JOIN LATERAL (
        SELECT y.typbasetype
        UNION ALL SELECT y.typelem
        UNION ALL SELECT b.oid FROM pg_catalog.pg_range g CROSS JOIN LATERAL (VALUES (g.rngtypid), (g.rngsubtype)) b (oid)
                  WHERE y.oid IN (g.rngtypid, g.rngmultitypid)
        UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a
                  WHERE a.attrelid = y.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    ) AS part (oid)
    WHERE part.oid <> 0
), expressions (root, classid, oid) AS (
    SELECT root, 'pg_catalog.pg_class'::pg_catalog.regclass, oid FROM relations
    UNION ALL SELECT r.root, 'pg_catalog.pg_class'::pg_catalog.regclass, i.indexrelid
              FROM relations r JOIN pg_catalog.pg_index i ON i.indrelid = r.oid
    UNION ALL SELECT r.root, 'pg_catalog.pg_constraint'::pg_catalog.regclass, k.oid
              FROM relations r JOIN pg_catalog.pg_constraint k ON k.conrelid = r.oid AND k.contype IN ('c', 'x')
    UNION ALL SELECT t.root, 'pg_catalog.pg_constraint'::pg_catalog.regclass, k.oid
              FROM types t JOIN pg_catalog.pg_constraint k ON k.contypid = t.oid AND k.contype = 'c'
    UNION ALL SELECT root, 'pg_catalog.pg_type'::pg_catalog.regclass, oid FROM types
    UNION ALL SELECT r.root, 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass, s.oid
              FROM relations r JOIN pg_catalog.pg_statistic_ext s ON s.stxrelid = r.oid
    UNION ALL SELECT r.root, 'pg_catalog.pg_policy'::pg_catalog.regclass, p.oid
              FROM relations r JOIN pg_catalog.pg_policy p ON p.polrelid = r.oid
), called (root, oid) AS (
    SELECT e.root, CASE d.refclassid WHEN 'pg_catalog.pg_proc'::pg_catalog.regclass THEN d.refobjid ELSE o.oprcode END
    FROM expressions e
    JOIN pg_catalog.pg_depend d ON d.classid = e.classid AND d.objid = e.oid
        AND d.refclassid IN ('pg_catalog.pg_proc'::pg_catalog.regclass, 'pg_catalog.pg_operator'::pg_catalog.regclass)
    LEFT JOIN pg_catalog.pg_operator o ON d.refclassid = 'pg_catalog.pg_operator'::pg_catalog.regclass AND o.oid = d.refobjid
), acting (root, oid) AS (
    -- Of PostgreSQL's own functions no dependency is kept.
    SELECT t.root, p.oid
    FROM types t
    JOIN pg_catalog.pg_constraint k ON k.contypid = t.oid AND k.contype = 'c'
    CROSS JOIN LATERAL regexp_matches(k.conbin::text, ':(funcid|opno) (\d+)', 'g') AS m (found)
    LEFT JOIN pg_catalog.pg_operator o ON m.found[1] = 'opno' AND o.oid = m.found[2]::oid
    JOIN pg_catalog.pg_proc p ON p.oid = CASE m.found[1] WHEN 'opno' THEN o.oprcode ELSE m.found[2]::oid END
    WHERE p.provolatile = 'v' OR (p.provolatile = 's' AND p.proname ~ '_to_xml')
)
SELECT DISTINCT format('%%I.%%I', n.nspname, t.relname), p.oid::pg_catalog.regprocedure::text, format('%%I', r.rolname)
FROM (SELECT root, oid, false AS acts FROM called WHERE oid >= 16384 UNION ALL SELECT root, oid, true FROM acting) c
JOIN pg_catalog.pg_proc p ON p.oid = c.oid
JOIN pg_catalog.pg_roles r ON r.oid = p.proowner AND (
    c.acts
    OR (NOT r.rolsuper AND r.rolname <> current_user)
    OR p.proargtypes::oid[] && ARRAY['regproc', 'regprocedure']::regtype[]::oid[]
    OR EXISTS (SELECT FROM unnest(p.proargnames) AS a (name) WHERE a.name ~* '(expr|sql|query|statement|command|callback)'))
JOIN pg_catalog.pg_class t ON t.oid = c.root
JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
UNION ALL
SELECT format('%%I.%%I', w.schema, w.name), NULL, NULL
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name AND c.relkind NOT IN ('r', 'p')
ORDER BY 1, 2
