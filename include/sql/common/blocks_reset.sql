-- Deletes all blocks of some tables but the first, which is planned again.
-- Called by: a load from one snapshot that begins.
-- Placeholders: ${prefix}, ${schema}; ${tables} which tables these are.
-- Parameters: slave, and those of ${tables}.
-- Privileges: DELETE on BLOCKS.
DELETE FROM ${schema}.${prefix}blocks WHERE slave = %(slave)s AND (block > 1 OR NOT (${tables}))
