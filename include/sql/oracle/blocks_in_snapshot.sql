-- Whether the blocks are read in one snapshot that a load job holds.
-- Called by: the load job.
-- Placeholders: ${prefix}, ${schema}.
-- Parameter: slave.
-- Result: 0 or 1.
-- Privileges: SELECT on BLOCKS.
-- Oldest version: Oracle 12.2.
SELECT COUNT(*) FROM DUAL
WHERE EXISTS (SELECT 1 FROM ${schema}.${prefix}blocks WHERE slave = %(slave)s AND snapshot IS NOT NULL)
