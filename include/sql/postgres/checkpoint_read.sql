-- The checkpoint of a slave. Called by: apply, initial update, housekeeping, status.
-- Placeholders: ${prefix}, ${schema}, ${lock} empty or FOR UPDATE. Parameter: slave.
-- Result: state, message, position, epoch, target, slice_key, safemode_exit, changes, updated_at.
SELECT state, message, position, epoch, target, slice_key, safemode_exit, changes, updated_at
FROM ${schema}.${prefix}checkpoint WHERE slave = %(slave)s ${lock}
