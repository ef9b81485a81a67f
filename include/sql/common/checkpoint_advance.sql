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
