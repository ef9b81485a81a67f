-- Tables that cannot be captured, with reason and remedy.
-- Called by: sluice.capture, before it registers a table.
-- Parameters: schemas text[], names text[] (pairs, same order).
-- Result: schema, name, reason; no row for a table that can be captured.
-- Privileges: none beyond connecting.
-- Oldest version: PostgreSQL 14.
SELECT w.schema, w.name, CASE
    WHEN n.oid IS NULL OR c.oid IS NULL THEN 'does not exist'
    WHEN c.relkind = 'v' THEN 'is a view; replicate the tables it reads'
    WHEN c.relkind = 'm' THEN 'is a materialized view; replicate the tables it reads'
    WHEN c.relkind = 'f' THEN 'is a foreign table; replicate it from the server it lives on'
    WHEN c.relkind NOT IN ('r', 'p') THEN 'is no table'
    WHEN c.relpersistence = 't' THEN 'is temporary: other sessions cannot see it'
    WHEN c.relpersistence = 'u' THEN format(
        'is unlogged: a crash of the master empties it without a trace (ALTER TABLE %%s SET LOGGED)', q.name)
    WHEN s.name IS NOT NULL THEN format(
        'is written by the subscription %%I of this database, whose changes fire no trigger (replicate it from where it comes)', s.name)
    WHEN c.relispartition THEN format('is a partition; replicate %%s, all of its partitions come with it',
        pg_catalog.pg_partition_root(c.oid))
    WHEN NOT pg_catalog.has_schema_privilege(n.oid, 'USAGE') THEN format(
        'is in a schema this account may not use (GRANT USAGE ON SCHEMA %%I TO %%I)', w.schema, current_user)
    WHEN NOT pg_catalog.has_table_privilege(c.oid, 'SELECT') THEN format(
        'may not be read by this account (GRANT SELECT, TRIGGER ON %%s TO %%I)', q.name, current_user)
    WHEN NOT pg_catalog.has_table_privilege(c.oid, 'TRIGGER') THEN format(
        'may not be given triggers by this account (GRANT SELECT, TRIGGER ON %%s TO %%I)', q.name, current_user)
    WHEN c.relkind = 'p' AND p.lacking IS NOT NULL THEN format(
        'has partitions that may not be read or given triggers by this account (GRANT SELECT, TRIGGER ON %%s TO %%I)',
        p.lacking, current_user)
    WHEN g.computed IS NOT NULL THEN format(
        'has a partition that computes a column by another expression than the table, which slaves use: %%s', g.computed)
    WHEN pg_catalog.row_security_active(c.oid) THEN format(
        'hides rows from this account by row level security (ALTER ROLE %%I BYPASSRLS)', current_user)
END AS reason
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
CROSS JOIN LATERAL (SELECT format('%%I.%%I', w.schema, w.name)) AS q (name)
LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
LEFT JOIN LATERAL (
    SELECT string_agg(t.relid::text, ', ' ORDER BY t.relid) FROM pg_catalog.pg_partition_tree(c.oid) t
    JOIN pg_catalog.pg_class l ON l.oid = t.relid AND l.relkind = 'r'
    WHERE NOT pg_catalog.has_table_privilege(l.oid, 'SELECT') OR NOT pg_catalog.has_table_privilege(l.oid, 'TRIGGER')
) AS p (lacking) ON c.relkind = 'p'
LEFT JOIN LATERAL (
    SELECT string_agg(format('%%I of %%s', a.attname, t.relid), ', ' ORDER BY t.relid, a.attnum)
    FROM pg_catalog.pg_partition_tree(c.oid) t
    JOIN pg_catalog.pg_attribute a ON a.attrelid = t.relid AND a.attgenerated <> '' AND NOT a.attisdropped
    JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    JOIN pg_catalog.pg_attribute o ON o.attrelid = c.oid AND o.attname = a.attname
    JOIN pg_catalog.pg_attrdef e ON e.adrelid = o.attrelid AND e.adnum = o.attnum
    WHERE pg_catalog.pg_get_expr(d.adbin, d.adrelid) <> pg_catalog.pg_get_expr(e.adbin, e.adrelid)
) AS g (computed) ON c.relkind = 'p'
LEFT JOIN LATERAL (
    SELECT min(b.subname) FROM pg_catalog.pg_subscription_rel r JOIN pg_catalog.pg_subscription b ON b.oid = r.srsubid
    WHERE r.srrelid = c.oid OR (c.relkind = 'p' AND r.srrelid IN (SELECT t.relid FROM pg_catalog.pg_partition_tree(c.oid) t))
) AS s (name) ON true
WHERE c.oid IS NULL OR c.relkind NOT IN ('r', 'p') OR c.relpersistence <> 'p' OR c.relispartition OR s.name IS NOT NULL
   OR NOT pg_catalog.has_schema_privilege(n.oid, 'USAGE')
   OR NOT pg_catalog.has_table_privilege(c.oid, 'SELECT') OR NOT pg_catalog.has_table_privilege(c.oid, 'TRIGGER')
   OR p.lacking IS NOT NULL OR g.computed IS NOT NULL OR pg_catalog.row_security_active(c.oid)
