-- CHECKPOINT. Each statement is a section with its name.
-- Oldest version: Oracle 12.2.

-- name: checkpoint_advance
-- Writes the checkpoint of a window.
-- Called by: the apply, as the last statement of every transaction.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, epoch, state, message, position, time, target, slice_key, safemode_exit, changes (to add).
-- Result: no row changes if another apply has claimed the slave. Without a message of the apply, the message of the
--   initial update stays.
-- Privileges: UPDATE.
UPDATE ${schema}.${prefix}checkpoint
SET message = CASE WHEN %(message)s IS NULL AND %(state)s = 'TRANSITION' AND message LIKE 'Initial update %%'
                   THEN message ELSE TO_CLOB(%(message)s) END,
    state = %(state)s, position = %(position)s, position_time = %(time)s, target = %(target)s,
    slice_key = %(slice_key)s, safemode_exit = %(safemode_exit)s, changes = changes + %(changes)s,
    updated_at = ${clock}
WHERE slave = %(slave)s AND epoch = %(epoch)s

-- name: checkpoint_insert
-- Inserts the row of a slave, in state UNCONFIGURED, unless it exists.
-- Called by: the creation of a slave's tables.
-- Placeholders: ${prefix}, ${schema}, ${clock}. Parameter: slave.
-- Result: none.
-- Privileges: SELECT, INSERT on CHECKPOINT.
INSERT INTO ${schema}.${prefix}checkpoint (slave, state, updated_at)
SELECT %(slave)s, 'UNCONFIGURED', ${clock} FROM DUAL
WHERE NOT EXISTS (SELECT 1 FROM ${schema}.${prefix}checkpoint c WHERE c.slave = %(slave)s)

-- name: checkpoint_note
-- Stores why the apply has stopped, and until which position safe mode must last. The applied position is not changed.
-- Called by: the apply.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, epoch, state (if it has changed, nothing is written), message, safemode_exit (NULL: unchanged).
-- Result: none.
-- Privileges: UPDATE.
UPDATE ${schema}.${prefix}checkpoint
SET message = %(message)s, safemode_exit = COALESCE(TO_CLOB(%(safemode_exit)s), safemode_exit), updated_at = ${clock}
WHERE slave = %(slave)s AND epoch = %(epoch)s AND state = %(state)s
