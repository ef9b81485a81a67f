-- Writes the reason of a throttle into the slave's message, unless the message is from the apply or from another
-- update.
-- Called by: the throttle of a load job.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, update_id, message; ours: the beginning of messages of initial updates.
-- Result: none.
-- Privileges: UPDATE on CHECKPOINT.
-- Oldest version: Oracle 12.2.
UPDATE ${schema}.${prefix}checkpoint SET message = %(message)s, updated_at = ${clock}
WHERE slave = %(slave)s AND update_id = %(update_id)s AND state = 'TRANSITION'
  AND (message IS NULL OR TO_CHAR(SUBSTR(message, 1, LENGTH(%(ours)s))) = %(ours)s)
