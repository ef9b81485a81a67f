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
