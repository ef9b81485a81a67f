-- Types of columns. Each statement is a section with its name.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.

-- name: types_defined
-- The definitions of types.
-- Called by: the initial update, on master and slave, to create and to compare.
-- Parameters: schemas text[], names text[]: the types (pairs).
-- Result: schema, name, kind (e enum, d domain, c composite, r range, b base, t row of a table), extension and its schema
--   (NULLs when none), labels text[] of an enum, comparable text (what values depend on), DDL after CREATE TYPE or DOMAIN
--   (NULL when it cannot be created).
SELECT s.nspname::text, t.typname::text,
       CASE WHEN c.relkind <> 'c' THEN 't' ELSE t.typtype::text END,
       x.extname::text, xs.nspname::text,
       CASE WHEN t.typtype = 'e' THEN
           (SELECT array_agg(l.enumlabel::text ORDER BY l.enumsortorder) FROM pg_catalog.pg_enum l
            WHERE l.enumtypid = t.oid) END,
       CASE t.typtype
           WHEN 'd' THEN pg_catalog.format_type(t.typbasetype, t.typtypmod)
           WHEN 'c' THEN a.plain
           WHEN 'r' THEN pg_catalog.format_type(r.rngsubtype, NULL)
       END,
       CASE
           WHEN c.relkind <> 'c' THEN NULL
           WHEN t.typtype = 'd' THEN
               format('AS %%s%%s%%s%%s%%s', pg_catalog.format_type(t.typbasetype, t.typtypmod),
                      CASE WHEN t.typcollation <> b.typcollation THEN ' COLLATE ' || o.name ELSE '' END,
                      coalesce(' DEFAULT ' || pg_catalog.pg_get_expr(t.typdefaultbin, 0), ''),
                      CASE WHEN t.typnotnull THEN ' NOT NULL' ELSE '' END,
                      (SELECT string_agg(format(' CONSTRAINT %%I %%s', k.conname, pg_catalog.pg_get_constraintdef(k.oid)), ''
                                         ORDER BY k.conname)
                       -- One that is not valid follows when it is validated.
                       FROM pg_catalog.pg_constraint k WHERE k.contypid = t.oid AND k.contype = 'c' AND k.convalidated))
           WHEN t.typtype = 'c' THEN format('AS (%%s)', a.ddl)
           WHEN t.typtype = 'r' AND r.rngcanonical = 0 THEN
               format('AS RANGE (SUBTYPE = %%s, SUBTYPE_OPCLASS = %%s%%s%%s, MULTIRANGE_TYPE_NAME = %%s)',
                      pg_catalog.format_type(r.rngsubtype, NULL),
                      (SELECT format('%%I.%%I', os.nspname, p.opcname) FROM pg_catalog.pg_opclass p
                       JOIN pg_catalog.pg_namespace os ON os.oid = p.opcnamespace WHERE p.oid = r.rngsubopc),
                      (SELECT format(', COLLATION = %%I.%%I', cs.nspname, cl.collname) FROM pg_catalog.pg_collation cl
                       JOIN pg_catalog.pg_namespace cs ON cs.oid = cl.collnamespace
                       JOIN pg_catalog.pg_type st ON st.oid = r.rngsubtype
                       WHERE cl.oid = r.rngcollation AND cl.oid <> st.typcollation),
                      (SELECT format(', SUBTYPE_DIFF = %%I.%%I', ps.nspname, p.proname) FROM pg_catalog.pg_proc p
                       JOIN pg_catalog.pg_namespace ps ON ps.oid = p.pronamespace
                       WHERE p.oid = r.rngsubdiff AND p.oid < 16384),
                      (SELECT format('%%I.%%I', ms.nspname, m.typname) FROM pg_catalog.pg_type m
                       JOIN pg_catalog.pg_namespace ms ON ms.oid = m.typnamespace WHERE m.oid = r.rngmultitypid))
           WHEN t.typtype = 'e' THEN
               format('AS ENUM (%%s)', (SELECT string_agg(quote_literal(l.enumlabel), ', ' ORDER BY l.enumsortorder)
                                       FROM pg_catalog.pg_enum l WHERE l.enumtypid = t.oid))
       END
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace s ON s.nspname = w.schema
JOIN pg_catalog.pg_type t ON t.typnamespace = s.oid AND t.typname = w.name
LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
LEFT JOIN pg_catalog.pg_type b ON b.oid = t.typbasetype
LEFT JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid
LEFT JOIN LATERAL (
    SELECT format('%%I.%%I', cs.nspname, cl.collname) AS name FROM pg_catalog.pg_collation cl
    JOIN pg_catalog.pg_namespace cs ON cs.oid = cl.collnamespace WHERE cl.oid = t.typcollation
) o ON true
LEFT JOIN LATERAL (
    SELECT string_agg(format('%%I %%s', a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod)), ', '
                      ORDER BY a.attnum) AS plain,
           string_agg(format('%%I %%s%%s', a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
                             CASE WHEN a.attcollation <> y.typcollation THEN
                                 (SELECT format(' COLLATE %%I.%%I', cs.nspname, cl.collname) FROM pg_catalog.pg_collation cl
                                  JOIN pg_catalog.pg_namespace cs ON cs.oid = cl.collnamespace WHERE cl.oid = a.attcollation)
                             END), ', ' ORDER BY a.attnum) AS ddl
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type y ON y.oid = a.atttypid
    WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
) a ON true
LEFT JOIN pg_catalog.pg_depend e
    ON e.classid = 'pg_catalog.pg_type'::regclass AND e.objid = t.oid AND e.deptype = 'e'
LEFT JOIN pg_catalog.pg_extension x ON x.oid = e.refobjid
LEFT JOIN pg_catalog.pg_namespace xs ON xs.oid = x.extnamespace

-- name: types_needed
-- User-defined types that tables need, and the types and extensions which those need.
-- Called by: the initial update, on the master.
-- Parameters: schemas text[], names text[]: the tables (pairs).
-- Result: schema, name of each type; a type comes after the types that it consists of. Types of extensions are among
--   them, types of pg_catalog are not.
WITH RECURSIVE needed (oid, depth) AS (
    SELECT a.atttypid, 0
    FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
    JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    UNION
    SELECT p.oid, d.depth + 1
    FROM needed d
    JOIN pg_catalog.pg_type t ON t.oid = d.oid
    CROSS JOIN LATERAL (
        -- An array's elements, a domain's base, a composite's attributes, a range's subtype, a multirange's range.
        SELECT t.typelem WHERE t.typelem <> 0 AND t.typcategory = 'A'
        UNION ALL SELECT t.typbasetype WHERE t.typtype = 'd'
        UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a
                  WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE r.rngtypid = t.oid
        UNION ALL SELECT r.rngtypid FROM pg_catalog.pg_range r WHERE r.rngmultitypid = t.oid
    ) AS p (oid)
    -- What a type of an extension is made of comes with the extension.
    WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = 'pg_catalog.pg_type'::regclass
                      AND e.objid = t.oid AND e.deptype = 'e')
)
SELECT s.nspname::text, t.typname::text
FROM needed d
JOIN pg_catalog.pg_type t ON t.oid = d.oid
JOIN pg_catalog.pg_namespace s ON s.oid = t.typnamespace
WHERE t.oid >= 16384 AND t.typtype <> 'm' AND NOT (t.typelem <> 0 AND t.typcategory = 'A')
GROUP BY s.nspname, t.typname
ORDER BY max(d.depth) DESC, 1, 2
