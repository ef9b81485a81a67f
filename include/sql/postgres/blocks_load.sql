-- The blocks of a slave's tables. Called by: the apply while the slave is in TRANSITION, the loader.
-- Placeholders: ${prefix}, ${schema}. Parameters: slave; schemas text[], names text[] (pairs; both NULL: all tables).
-- Result: schema, tablename, block, lo, hi, state, marker, rows, bytes, loader, begun_at, stored_at, file, sha256,
--   snapshot.
-- Privileges: SELECT on BLOCKS. Oldest version: PostgreSQL 13.
SELECT schema, tablename, block, lo, hi, state, marker, coalesce(rows, 0), coalesce(bytes, 0), loader, begun_at, stored_at,
       file, sha256, snapshot
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s
  AND (%(schemas)s::text[] IS NULL
       OR (schema, tablename) IN (SELECT * FROM unnest(%(schemas)s::text[], %(names)s::text[])))
