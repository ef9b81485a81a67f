-- Writes the checkpoint of a window.
-- Called by: the apply, as the last statement of every transaction.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, epoch, state, message, position, time, target, slice_key, safemode_exit, changes (to add).
-- Result: no row changes if another apply has claimed the slave. Without a message of the apply, the message of the
--   initial update stays.
-- Privileges: UPDATE.
-- Oldest version: Oracle 12.2.
UPDATE ${schema}.${prefix}checkpoint
SET message = CASE WHEN %(message)s IS NULL AND %(state)s = 'TRANSITION' AND message LIKE 'Initial update %%'
                   THEN message ELSE TO_CLOB(%(message)s) END,
    state = %(state)s, position = %(position)s, position_time = %(time)s, target = %(target)s,
    slice_key = %(slice_key)s, safemode_exit = %(safemode_exit)s, changes = changes + %(changes)s,
    updated_at = ${clock}
WHERE slave = %(slave)s AND epoch = %(epoch)s
