-- Reads the checkpoint of a slave.
-- Called by: apply, initial update, housekeeping, status.
-- Placeholders: ${prefix}, ${schema}, ${lock} empty or FOR UPDATE.
-- Parameter: slave.
-- Result: state, message, position, epoch, target, slice_key, safemode_exit, changes, updated_at, closed, tables (the
--   last two NULL also where the slave's CHECKPOINT is of a version that had no such columns).
SELECT state, message, position, epoch, target, slice_key, safemode_exit, changes, updated_at, to_jsonb(c) ->> 'closed',
       to_jsonb(c) ->> 'tables'
FROM ${schema}.${prefix}checkpoint c WHERE slave = %(slave)s ${lock}
