-- Only the first block of each of some tables is left, to be planned anew. Called by: a load from one snapshot that
-- begins. Placeholders: ${prefix}, ${schema}. Parameters: slave; schemas text[], names text[] (pairs).
-- Privileges: DELETE on BLOCKS. Oldest version: PostgreSQL 13.
DELETE FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s
  AND (block > 1 OR (schema, tablename) NOT IN (SELECT * FROM unnest(%(schemas)s::text[], %(names)s::text[])))
