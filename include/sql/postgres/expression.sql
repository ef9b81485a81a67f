-- What expressions call. Each statement is a section with its name.
-- Privileges: none.

-- name: expression_calls
-- What the functions, operators and types of an expression call that is not immutable, or that belongs neither to
--   PostgreSQL itself nor, written in C, to an extension.
-- Called by: sluice.vendors.postgres.expressions, on the slave.
-- Parameters: functions oid[], operators oid[], types oid[]; harmless text[]: names of PostgreSQL's own functions that
--   are allowed although they are not immutable.
-- Result: kind and text. function: the signature of one that is not allowed. cast: the signature of one that turns text
--   into values of a type, or values into text, and that no superuser made. check, default: the tree of an expression
--   that a domain among the types brings, also as a part of another type.
-- Oldest version: PostgreSQL 14.  Aggregates and window functions count as functions; only the query of a view can have
--   them. PostgreSQL's own are those with an oid of initdb (below 16384) in pg_catalog, however others got there. None of
--   its immutable functions reads a table, a file or another database. Its casts and operators that are not immutable
--   depend on the session's time zone or on the names of objects, and on no rows. Of an extension functions in C count
--   that belong to a superuser, who alone can make such: those behind its operators, casts and operator classes (the
--   comparisons of citext, hstore, ltree), and those that take no text, which could be an SQL statement
--   (st_mapalgebraexpr of PostGIS runs one).
WITH RECURSIVE types (oid) AS (
    SELECT t.oid FROM pg_catalog.pg_type t WHERE t.oid = ANY (%(types)s::oid[]) AND t.oid >= 16384
    UNION
    SELECT x.oid
    FROM types p
    JOIN pg_catalog.pg_type t ON t.oid = p.oid
    CROSS JOIN LATERAL (
        SELECT t.typbasetype WHERE t.typtype = 'd'
        UNION ALL SELECT t.typelem WHERE t.typtype = 'b' AND t.typcategory = 'A'
        UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE r.rngtypid = t.oid OR r.rngmultitypid = t.oid
        UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a
                  WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    ) AS x (oid)
), functions (oid) AS (
    SELECT unnest(%(functions)s::oid[])
    UNION SELECT o.oprcode FROM pg_catalog.pg_operator o WHERE o.oid = ANY (%(operators)s::oid[])
    UNION SELECT f.oid FROM types t
          JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid OR r.rngmultitypid = t.oid
          CROSS JOIN LATERAL (VALUES (r.rngcanonical::oid), (r.rngsubdiff::oid)) AS f (oid)
)
SELECT 'function', p.oid::pg_catalog.regprocedure::text
FROM functions f JOIN pg_catalog.pg_proc p ON p.oid = f.oid
WHERE NOT (p.oid < 16384 AND p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace AND NOT p.prosecdef AND p.prokind <> 'p'
           AND (p.provolatile = 'i' OR p.proname = ANY (%(harmless)s::text[])
                OR (p.provolatile = 's' AND (
                    EXISTS (SELECT FROM pg_catalog.pg_cast k WHERE k.castfunc = p.oid AND k.oid < 16384)
                    OR EXISTS (SELECT FROM pg_catalog.pg_operator o WHERE o.oprcode = p.oid AND o.oid < 16384)))))
  AND NOT (p.provolatile = 'i' AND NOT p.prosecdef AND p.prokind <> 'p'
           AND EXISTS (SELECT FROM pg_catalog.pg_language l WHERE l.oid = p.prolang AND l.lanname IN ('c', 'internal'))
           AND EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = p.proowner AND r.rolsuper)
           AND EXISTS (SELECT FROM pg_catalog.pg_depend d
                       WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid AND d.deptype = 'e')
           AND (NOT EXISTS (
                    SELECT FROM unnest(p.proargtypes::oid[]) AS a (oid) JOIN pg_catalog.pg_type t ON t.oid = a.oid
                    WHERE t.oid < 16384 AND (t.typcategory IN ('S', 'X') OR t.typtype = 'p' OR t.typname ~ '^_?(reg|json|xml|cstring|text|varchar|name)'))
                OR EXISTS (SELECT FROM pg_catalog.pg_amproc m WHERE m.amproc = p.oid)
                OR EXISTS (SELECT FROM pg_catalog.pg_depend d
                           LEFT JOIN pg_catalog.pg_operator o
                               ON d.classid = 'pg_catalog.pg_operator'::pg_catalog.regclass AND o.oid = d.objid
                           LEFT JOIN pg_catalog.pg_cast k ON d.classid = 'pg_catalog.pg_cast'::pg_catalog.regclass AND k.oid = d.objid
                           WHERE d.deptype = 'e' AND p.oid IN (o.oprcode, k.castfunc))))
UNION ALL
-- The apply gives values as texts. Only a superuser can make functions in C.
SELECT 'cast', p.oid::pg_catalog.regprocedure::text
FROM types t
JOIN pg_catalog.pg_cast k ON t.oid >= 16384 AND t.oid IN (k.castsource, k.casttarget) AND 25 IN (k.castsource, k.casttarget)
JOIN pg_catalog.pg_proc p ON p.oid = k.castfunc
JOIN pg_catalog.pg_language l ON l.oid = p.prolang
WHERE l.lanname NOT IN ('c', 'internal')
UNION ALL
SELECT 'check', k.conbin::text FROM types t JOIN pg_catalog.pg_constraint k ON k.contypid = t.oid AND k.contype = 'c'
UNION ALL
SELECT 'default', y.typdefaultbin::text FROM types t JOIN pg_catalog.pg_type y ON y.oid = t.oid
WHERE y.typtype = 'd' AND y.typdefaultbin IS NOT NULL

-- name: expression_tree
-- The parse tree of an expression, from a rule of the table that was created for it.
-- Called by: sluice.vendors.postgres.expressions, on the slave. Result, one row: the tree (text).
-- Oldest version: PostgreSQL 14.
SELECT r.ev_action::text FROM pg_catalog.pg_rewrite r
WHERE r.ev_class = pg_catalog.to_regclass('pg_temp.sluice_expression')
