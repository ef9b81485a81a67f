-- Views of the application, and what each of them reads.
-- Called by: the apply, on master and slave.
-- Placeholders: ${prefix} e.g. demo_, whose own are left out.
-- Result: schema, name, names of the columns (text[]), their types (text[]), options (text[]), the query, schemas and
--   names (text[] each) of the tables and views that it reads. Materialized views, views of extensions, and views that
--   read catalogues are left out.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
SELECT n.nspname::text, c.relname::text, a.names, a.types, coalesce(c.reloptions, '{}'), pg_catalog.pg_get_viewdef(c.oid),
       coalesce(d.schemas, '{}'), coalesce(d.names, '{}')
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(a.attname::text ORDER BY a.attnum), '{}') AS names,
           coalesce(array_agg(concat(pg_catalog.format_type(a.atttypid, a.atttypmod), ' ' || a.attcollation::text)
                              ORDER BY a.attnum), '{}') AS types
    FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
) a
LEFT JOIN LATERAL (
    SELECT array_agg(s.nspname ORDER BY s.oid) AS schemas, array_agg(s.relname ORDER BY s.oid) AS names
    FROM (SELECT DISTINCT o.oid, m.nspname::text, o.relname::text
          FROM pg_catalog.pg_rewrite r
          JOIN pg_catalog.pg_depend p ON p.classid = 'pg_catalog.pg_rewrite'::regclass AND p.objid = r.oid
                                     AND p.refclassid = 'pg_catalog.pg_class'::regclass AND p.refobjid <> c.oid
          JOIN pg_catalog.pg_class o ON o.oid = p.refobjid
          JOIN pg_catalog.pg_namespace m ON m.oid = o.relnamespace
          WHERE r.ev_class = c.oid) AS s
) d ON true
WHERE c.relkind = 'v' AND c.relpersistence = 'p' AND NOT starts_with(c.relname, '${prefix}')
  AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend e
                  WHERE e.classid = 'pg_catalog.pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e')
  -- No dependency says so: they are pinned.
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_rewrite q
                  CROSS JOIN LATERAL pg_catalog.regexp_matches(q.ev_action::text, ':relid ([0-9]+)', 'g') AS m (found)
                  WHERE q.ev_class = c.oid AND m.found[1]::bigint BETWEEN 1 AND 16383)
ORDER BY c.oid
