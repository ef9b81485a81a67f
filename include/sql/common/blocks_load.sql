-- Reads the blocks of a slave's tables.
-- Called by: the apply while the slave is in TRANSITION, the loader.
-- Placeholders: ${prefix}, ${schema}; ${tables} of which tables.
-- Parameters: slave, and those of ${tables}.
-- Result: schema, tablename, block, lo, hi, state, marker, rows, bytes, loader, begun_at, stored_at, file, sha256,
--   snapshot.
-- Privileges: SELECT on BLOCKS.
SELECT "schema", tablename, block, lo, hi, state, marker, COALESCE("rows", 0), COALESCE(bytes, 0), loader, begun_at,
       stored_at, "file", sha256, snapshot
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND ${tables}
