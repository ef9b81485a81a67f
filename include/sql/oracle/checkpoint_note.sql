-- Why the apply stands still, and up to where safe mode must last after it. The position stays.
-- Called by: the apply.
-- Placeholders: ${prefix}, ${schema}, ${clock}. Parameters: slave, epoch, state (nothing is written when it has changed),
--   message, safemode_exit (NULL: unchanged). Result: none. Privileges: UPDATE. Oldest version: Oracle 12.2.
UPDATE ${schema}.${prefix}checkpoint
SET message = %(message)s, safemode_exit = COALESCE(TO_CLOB(%(safemode_exit)s), safemode_exit), updated_at = ${clock}
WHERE slave = %(slave)s AND epoch = %(epoch)s AND state = %(state)s
