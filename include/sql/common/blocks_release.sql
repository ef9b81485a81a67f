-- Blocks that were begun are planned again, or exported again when they were being imported from a file, because
-- their loader failed or died.
-- Called by: a loader for its own blocks and those of its earlier starts, a job for those of its predecessors.
-- Placeholders: ${prefix}, ${schema}. Parameters: slave; kin: how the loaders' names begin (empty: anyone's).
-- Result: as many rows change as blocks were begun. Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks
SET state = CASE WHEN "file" IS NULL THEN 'planned' ELSE 'exported' END, loader = NULL, begun_at = NULL
WHERE slave = %(slave)s AND state = 'begun' AND LEFT(loader, CHAR_LENGTH(%(kin)s)) = %(kin)s
