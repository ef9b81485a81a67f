-- The tables with begun blocks, and the number of these blocks.
-- Called by: a loader that claims.
-- Placeholders: ${prefix}, ${schema}.
-- Parameter: slave.
-- Result: schema, tablename, blocks.
-- Privileges: SELECT on BLOCKS.
SELECT "schema", tablename, COUNT(*) FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND state = 'begun'
GROUP BY "schema", tablename
