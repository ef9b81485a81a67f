-- A planned block to read next, locked until the caller commits; no row when other loaders hold all of them.
-- Called by: a loader, on the slave. Placeholders: ${prefix}, ${schema}.
-- Parameters: slave; schemas text[], names text[] (pairs): tables to leave alone for now; ranges int: how many blocks of
--   one table may be read at the same time; tables int: how many tables they may belong to.
-- Result: schema, tablename, block, lo, hi, marker, snapshot, tries; then of the table's block stored or exported last:
--   rows, bytes, seconds it took (or NULLs).
-- Privileges: SELECT, UPDATE on BLOCKS. Oldest version: PostgreSQL 13.
WITH open_tables AS (
    SELECT schema, tablename, count(*) AS ranges FROM ${schema}.${prefix}blocks
    WHERE slave = %(slave)s AND state = 'begun'
    GROUP BY schema, tablename
), full_tables AS (
    SELECT schema, tablename FROM open_tables WHERE ranges >= %(ranges)s
    UNION ALL
    SELECT * FROM unnest(%(schemas)s::text[], %(names)s::text[])
), claimed AS (
    SELECT b.schema, b.tablename, b.block, b.lo, b.hi, b.marker, b.snapshot, b.tries
    FROM ${schema}.${prefix}blocks b
    WHERE b.slave = %(slave)s AND b.state = 'planned'
      AND (b.schema, b.tablename) NOT IN (SELECT f.schema, f.tablename FROM full_tables f)
      AND ((SELECT count(*) FROM open_tables) < %(tables)s
           OR (b.schema, b.tablename) IN (SELECT o.schema, o.tablename FROM open_tables o))
      AND (b.retry_at IS NULL OR b.retry_at <= clock_timestamp())
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
