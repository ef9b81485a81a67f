-- The slave has a new checkpoint: last statement of every apply transaction.
-- Parameters: slave, epoch, state, message, position, time, target, slice_key, safemode_exit, changes (to add).
-- Result: no row changes when another apply has claimed the slave.
-- An apply that has nothing to say leaves what the initial update says of its load.
UPDATE ${schema}.${prefix}checkpoint
SET state = %(state)s,
    message = CASE WHEN %(message)s = '' AND %(state)s = 'TRANSITION' AND starts_with(message, 'Initial update ')
                   THEN message ELSE %(message)s END,
    position = %(position)s, position_time = %(time)s, target = %(target)s,
    slice_key = %(slice_key)s, safemode_exit = %(safemode_exit)s, changes = changes + %(changes)s,
    updated_at = clock_timestamp()
WHERE slave = %(slave)s AND epoch = %(epoch)s
