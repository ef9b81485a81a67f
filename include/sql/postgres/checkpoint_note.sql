-- Why the apply stands still, and up to where safe mode must last after it. The position stays.
-- Parameters: slave, epoch, state (nothing is written when it has changed), message, safemode_exit (NULL: unchanged).
UPDATE ${schema}.${prefix}checkpoint
SET message = %(message)s, safemode_exit = coalesce(%(safemode_exit)s, safemode_exit), updated_at = clock_timestamp()
WHERE slave = %(slave)s AND epoch = %(epoch)s AND state = %(state)s
