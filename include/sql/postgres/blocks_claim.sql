-- A planned block to read next, locked until the caller commits; no row when other loaders hold all of them.
-- Called by: a loader, on the slave. Placeholders: ${prefix}, ${schema}.
-- Parameters: slave; schemas text[], names text[] (pairs): tables to leave alone for now; per_table int: how many
--   blocks of one table may be read at the same time.
-- Result: schema, tablename, block, lo, hi; then of the table's block stored or exported last: rows, bytes, seconds it
--   took (or NULLs).
-- Privileges: SELECT, UPDATE on BLOCKS. Oldest version: PostgreSQL 13.
WITH full_tables AS (
    SELECT schema, tablename FROM ${schema}.${prefix}blocks
    WHERE slave = %(slave)s AND state = 'begun'
    GROUP BY schema, tablename HAVING count(*) >= %(per_table)s
    UNION ALL
    SELECT * FROM unnest(%(schemas)s::text[], %(names)s::text[])
), claimed AS (
    SELECT b.schema, b.tablename, b.block, b.lo, b.hi
    FROM ${schema}.${prefix}blocks b
    WHERE b.slave = %(slave)s AND b.state = 'planned'
      AND (b.schema, b.tablename) NOT IN (SELECT f.schema, f.tablename FROM full_tables f)
    ORDER BY b.planned_at, b.schema, b.tablename, b.block
    LIMIT 1
    FOR UPDATE OF b SKIP LOCKED
)
SELECT c.*, l.rows, l.bytes, l.seconds
FROM claimed c
LEFT JOIN LATERAL (
    SELECT s.rows, s.bytes, extract(epoch FROM s.stored_at - s.begun_at)::float8 AS seconds
    FROM ${schema}.${prefix}blocks s
    WHERE s.slave = %(slave)s AND s.schema = c.schema AND s.tablename = c.tablename
      AND s.state IN ('stored', 'exported')
    ORDER BY s.stored_at DESC LIMIT 1
) l ON true
