-- Estimates the size of tables without reading them, and without waiting for a lock: one that a session has locked has the
-- size that it had when it was last analysed or vacuumed.
-- Called by: the initial update's progress and its first block sizes.
-- Parameters: schemas text[], names text[] (pairs).
-- Result: schema, name, rows bigint (NULL when never analysed), bytes bigint with TOAST; a partitioned table is the sum
--   of its partitions.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
WITH RECURSIVE wanted AS (
    SELECT n.nspname, c.relname, c.oid, c.relkind
    FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
    JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
), parts (nspname, relname, oid, relkind) AS (
    SELECT w.nspname, w.relname, w.oid, w.relkind FROM wanted w
    UNION ALL
    SELECT p.nspname, p.relname, c.oid, c.relkind
    FROM parts p
    JOIN pg_catalog.pg_inherits i ON i.inhparent = p.oid AND p.relkind = 'p'
    JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
), locked AS MATERIALIZED (
    SELECT l.relation AS oid FROM pg_catalog.pg_locks l
    WHERE l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock'
      AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
), sizes AS (
    SELECT p.nspname, p.relname, c.reltuples, c.relpages, s.*
    FROM parts p
    JOIN pg_catalog.pg_class c ON c.oid = p.oid AND c.relkind <> 'p'
    LEFT JOIN pg_catalog.pg_class t ON t.oid = c.reltoastrelid
    CROSS JOIN current_setting('block_size') b (block)
    CROSS JOIN LATERAL (
        SELECT pg_catalog.pg_table_size(c.oid) AS bytes, pg_catalog.pg_relation_size(c.oid) / b.block::bigint AS pages
        WHERE NOT EXISTS (SELECT FROM locked k WHERE k.oid = c.oid)
        UNION ALL
        SELECT (c.relpages + coalesce(t.relpages, 0)) * b.block::bigint, c.relpages
        WHERE EXISTS (SELECT FROM locked k WHERE k.oid = c.oid)
    ) s
)
SELECT nspname::text, relname::text,
       -- Rows a page as last analysed, times the pages there are now: what the planner does.
       CASE WHEN bool_and(pages = 0 OR relpages > 0 AND reltuples >= 0)
            THEN round(sum(CASE WHEN pages = 0 OR relpages = 0 THEN 0 ELSE reltuples::float8 / relpages * pages END))::bigint END,
       sum(bytes)::bigint
FROM sizes
GROUP BY nspname, relname
