-- THROTTLE. Each statement is a section with its name.

-- name: throttle_clear
-- Deletes the throttle of a slave's load.
-- Called by: a load job that starts or ends. Parameter: slave.
-- Placeholders: ${prefix}, ${schema}.
-- Result: none.
-- Privileges: DELETE on THROTTLE.
DELETE FROM ${schema}.${prefix}throttle WHERE slave = %(slave)s

-- name: throttle_say
-- Writes the reason of a throttle into the slave's message, unless the message is from the apply or from another update.
-- Called by: the throttle of a load job.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, update_id, message; ours: the beginning of messages of initial updates.
-- Result: none.
-- Privileges: UPDATE on CHECKPOINT.
UPDATE ${schema}.${prefix}checkpoint SET message = %(message)s, updated_at = ${clock}
WHERE slave = %(slave)s AND update_id = %(update_id)s AND state = 'TRANSITION'
  AND (message = '' OR LEFT(message, CHAR_LENGTH(%(ours)s)) = %(ours)s) AND message <> %(message)s
