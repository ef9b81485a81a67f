-- Counts the blocks that are not stored: planned, begun, exported.
-- Called by: a loader that found none to claim.
-- Placeholders: ${prefix}, ${schema}.
-- Parameter: slave.
-- Result: one row of three numbers.
-- Privileges: SELECT on BLOCKS.
SELECT COUNT(CASE WHEN state = 'planned' THEN 1 END), COUNT(CASE WHEN state = 'begun' THEN 1 END),
       COUNT(CASE WHEN state = 'exported' THEN 1 END)
FROM ${schema}.${prefix}blocks WHERE slave = %(slave)s AND state <> 'stored'
