-- Stores why the apply has stopped, and until which position safe mode must last. The applied position is not changed.
-- Called by: the apply.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, epoch, state (if it has changed, nothing is written), message, safemode_exit (NULL: unchanged).
-- Result: none.
-- Privileges: UPDATE.
-- Oldest version: Oracle 12.2.
UPDATE ${schema}.${prefix}checkpoint
SET message = %(message)s, safemode_exit = COALESCE(TO_CLOB(%(safemode_exit)s), safemode_exit), updated_at = ${clock}
WHERE slave = %(slave)s AND epoch = %(epoch)s AND state = %(state)s
