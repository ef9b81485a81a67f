-- The tables of which blocks are being read, and how many blocks of each. Called by: a loader that claims.
-- Placeholders: ${prefix}, ${schema}. Parameter: slave. Result: schema, tablename, blocks. Privileges: SELECT on BLOCKS.
SELECT "schema", tablename, COUNT(*) FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND state = 'begun'
GROUP BY "schema", tablename
