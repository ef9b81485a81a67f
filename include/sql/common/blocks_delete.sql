-- Deletes blocks.
-- Called by: an initial update that begins, the apply when a table is dropped.
-- Placeholders: ${prefix}, ${schema}; ${tables} of which tables.
-- Parameters: slave, and those of ${tables}.
-- Privileges: DELETE on BLOCKS.
DELETE FROM ${schema}.${prefix}blocks WHERE slave = %(slave)s AND ${tables}
