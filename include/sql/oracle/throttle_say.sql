-- Says on the slave what its load is held to. What the apply said, or another update, stays.
-- Called by: the throttle of a load job. Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, update_id, message; ours: how messages of initial updates begin.
-- Result: none. Privileges: UPDATE on CHECKPOINT. Oldest version: Oracle 12.2.
UPDATE ${schema}.${prefix}checkpoint SET message = %(message)s, updated_at = ${clock}
WHERE slave = %(slave)s AND update_id = %(update_id)s AND state = 'TRANSITION'
  AND (message IS NULL OR TO_CHAR(SUBSTR(message, 1, LENGTH(%(ours)s))) = %(ours)s)
