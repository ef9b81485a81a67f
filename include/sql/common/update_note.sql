-- Writes why a load waits into the slave's message. The state is not changed.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, update_id, message.
-- Privileges: UPDATE on CHECKPOINT.
UPDATE ${schema}.${prefix}checkpoint SET message = %(message)s, updated_at = ${clock}
WHERE slave = %(slave)s AND update_id = %(update_id)s
