-- Estimates the size of tables without reading them.
-- Called by: the initial update's progress and its first block sizes.
-- Parameters: schemas text[], names text[] (pairs).
-- Result: schema, name, rows bigint (NULL when never analysed), bytes bigint with TOAST; a partitioned table is the sum
--   of its partitions.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
WITH wanted AS (
    SELECT n.nspname, c.relname, c.oid, c.relkind
    FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
    JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
), parts AS (
    SELECT w.nspname, w.relname, w.oid FROM wanted w WHERE w.relkind <> 'p'
    UNION ALL
    SELECT w.nspname, w.relname, t.relid FROM wanted w, pg_catalog.pg_partition_tree(w.oid) t
    WHERE w.relkind = 'p' AND t.isleaf
), sizes AS (
    SELECT p.nspname, p.relname, c.reltuples, c.relpages, pg_catalog.pg_table_size(p.oid) AS bytes,
           pg_catalog.pg_relation_size(p.oid) / current_setting('block_size')::bigint AS pages
    FROM parts p JOIN pg_catalog.pg_class c ON c.oid = p.oid
)
SELECT nspname::text, relname::text,
       -- Rows a page as last analysed, times the pages there are now: what the planner does.
       CASE WHEN bool_and(pages = 0 OR relpages > 0 AND reltuples >= 0)
            THEN round(sum(CASE WHEN pages = 0 OR relpages = 0 THEN 0 ELSE reltuples::float8 / relpages * pages END))::bigint END,
       sum(bytes)::bigint
FROM sizes
GROUP BY nspname, relname
