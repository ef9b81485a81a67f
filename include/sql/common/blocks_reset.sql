-- Only the first block of each of some tables is left, to be planned anew. Called by: a load from one snapshot that
-- begins. Placeholders: ${prefix}, ${schema}; ${tables} which tables these are. Parameters: slave, and those of ${tables}.
-- Privileges: DELETE on BLOCKS.
DELETE FROM ${schema}.${prefix}blocks WHERE slave = %(slave)s AND (block > 1 OR NOT (${tables}))
