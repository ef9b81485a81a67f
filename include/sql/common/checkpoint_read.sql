-- Reads the checkpoint of a slave.
-- Called by: apply, initial update, housekeeping, status.
-- Placeholders: ${prefix}, ${schema}, ${lock} empty or FOR UPDATE.
-- Parameter: slave.
-- Result: state, message, position, epoch, target, slice_key, safemode_exit, changes, updated_at, closed, tables.
-- Privileges: SELECT; UPDATE where it is locked.
SELECT state, message, position, epoch, target, slice_key, safemode_exit, changes, updated_at, closed, tables
FROM ${schema}.${prefix}checkpoint WHERE slave = %(slave)s ${lock}
