-- Begins the import of an exported block, the first by the name of its file; its marker stays.
-- Called by: an importer, on the slave. Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, loader; schemas text[], names text[] (pairs): tables to leave alone for now.
-- Result: schema, tablename, block, lo, hi, file; no row when other importers hold all of them.
-- Privileges: SELECT, UPDATE on BLOCKS. Oldest version: PostgreSQL 13.
UPDATE ${schema}.${prefix}blocks b
SET state = 'begun', loader = %(loader)s, begun_at = clock_timestamp(), stored_at = NULL
FROM (
    SELECT e.slave, e.schema, e.tablename, e.block
    FROM ${schema}.${prefix}blocks e
    WHERE e.slave = %(slave)s AND e.state = 'exported'
      AND (e.schema, e.tablename) NOT IN (SELECT * FROM unnest(%(schemas)s::text[], %(names)s::text[]))
    ORDER BY e.file
    LIMIT 1
    FOR UPDATE OF e SKIP LOCKED
) AS next
WHERE (b.slave, b.schema, b.tablename, b.block) = (next.slave, next.schema, next.tablename, next.block)
RETURNING b.schema, b.tablename, b.block, b.lo, b.hi, b.file
