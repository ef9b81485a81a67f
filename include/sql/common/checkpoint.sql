-- CHECKPOINT. Each statement is a section with its name.

-- name: checkpoint_advance
-- Writes the checkpoint of a window, in the transaction that applies it. The row is locked: nobody else changes it.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, epoch, state, message, position, time, target, slice_key, safemode_exit, changes (to add).
-- Result: no row changes if another apply has claimed the slave. Without a message of the apply, the message of the
--   initial update stays.
-- Privileges: UPDATE.
UPDATE ${schema}.${prefix}checkpoint
SET message = CASE WHEN %(message)s = '' AND %(state)s = 'TRANSITION' AND LEFT(message, 15) = 'Initial update '
                   THEN message ELSE %(message)s END,
    state = %(state)s, position = %(position)s, position_time = %(time)s, target = %(target)s,
    slice_key = %(slice_key)s, safemode_exit = %(safemode_exit)s, changes = changes + %(changes)s,
    updated_at = ${clock}
WHERE slave = %(slave)s AND epoch = %(epoch)s

-- name: checkpoint_claim
-- Raises the epoch for an apply that starts: from here on, an earlier apply cannot commit.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, above (the epoch must be higher than this one; 0: any).
-- Result: no row changes for an unknown slave.
-- Privileges: UPDATE.
UPDATE ${schema}.${prefix}checkpoint SET epoch = GREATEST(epoch, %(above)s) + 1, updated_at = ${clock}
WHERE slave = %(slave)s

-- name: checkpoint_close
-- Stores or clears (NULL) the closure of the gate by an admin, so that an emptied Redis does not open the gate. Waits for
--   a running transaction of the apply.
-- Called by: an admin.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, closed (JSON).
-- Privileges: UPDATE.
UPDATE ${schema}.${prefix}checkpoint SET closed = %(closed)s, updated_at = ${clock} WHERE slave = %(slave)s

-- name: checkpoint_move
-- Writes a state with its message. The caller holds the row's lock and has checked the transition.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, state, message.
-- Privileges: UPDATE.
UPDATE ${schema}.${prefix}checkpoint SET state = %(state)s, message = %(message)s, updated_at = ${clock}
WHERE slave = %(slave)s

-- name: checkpoint_note
-- Stores why the apply has stopped, and until which position safe mode must last. The applied position is not changed.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, epoch, state (if it has changed, nothing is written), message, safemode_exit (NULL: unchanged).
-- Privileges: UPDATE.
UPDATE ${schema}.${prefix}checkpoint
SET message = %(message)s, safemode_exit = COALESCE(%(safemode_exit)s, safemode_exit), updated_at = ${clock}
WHERE slave = %(slave)s AND epoch = %(epoch)s AND state = %(state)s

-- name: checkpoint_read
-- Reads the checkpoint of a slave.
-- Called by: apply, initial update, housekeeping, status.
-- Placeholders: ${prefix}, ${schema}, ${lock} empty or FOR UPDATE. Parameter: slave.
-- Result: state, message, position, epoch, target, slice_key, safemode_exit, changes, updated_at, closed, tables.
-- Privileges: SELECT; UPDATE where it is locked.
SELECT state, message, position, epoch, target, slice_key, safemode_exit, changes, updated_at, closed, tables
FROM ${schema}.${prefix}checkpoint WHERE slave = %(slave)s ${lock}

-- name: checkpoint_start
-- Writes the start position of a planned load, and clears whatever was in progress before.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, position, time.
-- Privileges: UPDATE.
UPDATE ${schema}.${prefix}checkpoint
SET position = %(position)s, position_time = %(time)s, target = NULL, slice_key = NULL, safemode_exit = NULL,
    updated_at = ${clock}
WHERE slave = %(slave)s

-- name: checkpoint_tables
-- Writes the tables that are not ready, whose changes are left out. The caller holds the row's lock.
-- Called by: the apply, in the transaction that carries the data; the initial update. The caller holds the row's lock.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, tables (JSON [[schema, name, state], ...]; NULL: all are ready).
-- Privileges: UPDATE.
UPDATE ${schema}.${prefix}checkpoint SET tables = %(tables)s WHERE slave = %(slave)s
