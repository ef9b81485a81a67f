-- The tables of a database that could be replicated, by schema.
-- Called by: ./sluice add, to offer patterns.
-- Parameters: schemas text[], names text[] (pairs): Sluice's own tables, which are left out.
-- Result, one row a schema with tables: name, tables, their rows by statistics, names of the tables' owners.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
SELECT n.nspname::text, count(*), sum(greatest(coalesce(l.rows, c.reltuples), 0))::bigint,
       array_agg(DISTINCT r.rolname::text ORDER BY r.rolname::text)
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_roles r ON r.oid = c.relowner
-- A partitioned table's own statistics are made by ANALYZE alone; its leaves have those of autovacuum.
LEFT JOIN LATERAL (
    SELECT sum(greatest(leaf.reltuples, 0)) AS rows
    FROM pg_catalog.pg_partition_tree(c.oid) t
    JOIN pg_catalog.pg_class leaf ON leaf.oid = t.relid
    WHERE t.isleaf
) l ON c.relkind = 'p'
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
  AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  AND (n.nspname, c.relname) NOT IN (SELECT o.schema, o.name FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS o (schema, name))
GROUP BY n.nspname
ORDER BY n.nspname
