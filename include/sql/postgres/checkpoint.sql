-- CHECKPOINT. Each statement is a section with its name.

-- name: checkpoint_follow
-- Makes the former master a slave: its rows are those of the new master at this position.
-- Called by: a failover with reverse.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, position, time.
-- Privileges: UPDATE.
-- Oldest version: PostgreSQL 13.
UPDATE ${schema}.${prefix}checkpoint
SET state = 'NORMAL', message = '', position = %(position)s, position_time = %(time)s, epoch = epoch + 1, target = NULL,
    slice_key = NULL, safemode_exit = NULL, closed = NULL, updated_at = clock_timestamp()
WHERE slave = %(slave)s

-- name: checkpoint_insert
-- Inserts the row of a slave, in state UNCONFIGURED, unless it exists. Parameter: slave.
INSERT INTO ${schema}.${prefix}checkpoint (slave, state) VALUES (%(slave)s, 'UNCONFIGURED') ON CONFLICT DO NOTHING

-- name: checkpoint_read
-- Reads the checkpoint of a slave.
-- Called by: apply, initial update, housekeeping, status.
-- Placeholders: ${prefix}, ${schema}, ${lock} empty or FOR UPDATE. Parameter: slave.
-- Result: state, message, position, epoch, target, slice_key, safemode_exit, changes, updated_at, closed, tables (the
--   last two NULL also where the slave's CHECKPOINT is of a version that had no such columns).
SELECT state, message, position, epoch, target, slice_key, safemode_exit, changes, updated_at, to_jsonb(c) ->> 'closed',
       to_jsonb(c) ->> 'tables'
FROM ${schema}.${prefix}checkpoint c WHERE slave = %(slave)s ${lock}
