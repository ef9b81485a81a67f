-- Whether the blocks are read in one snapshot that a load job holds.
-- Called by: the load job.
-- Placeholders: ${prefix}, ${schema}.
-- Parameter: slave.
-- Result: one boolean.
-- Privileges: SELECT on BLOCKS.
SELECT EXISTS (SELECT 1 FROM ${schema}.${prefix}blocks WHERE slave = %(slave)s AND snapshot IS NOT NULL)
