-- Tables that can be replicated: ordinary and partitioned ones, without the partitions.
-- Called by: the expansion of wildcards in the configuration.
-- Result: schema, name; ordered.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT n.nspname::text, c.relname::text
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
  AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
ORDER BY 1, 2
