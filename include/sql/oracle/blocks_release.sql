-- Plans begun blocks again, or marks them as exported again if they were being imported, because their loader failed or
-- died.
-- Called by: a loader for its own blocks and those of its earlier starts; a job for those of earlier jobs.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave; kin: the beginning of the loaders' names (empty: all).
-- Result: the number of changed rows is that of the begun blocks.
-- Privileges: UPDATE on BLOCKS.
-- Oldest version: Oracle 12.2.
UPDATE ${schema}.${prefix}blocks
SET state = CASE WHEN "file" IS NULL THEN 'planned' ELSE 'exported' END, loader = NULL, begun_at = NULL
WHERE slave = %(slave)s AND state = 'begun'
  AND (%(kin)s IS NULL OR SUBSTR(loader, 1, LENGTH(%(kin)s)) = %(kin)s)
