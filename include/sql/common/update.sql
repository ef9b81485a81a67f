-- The initial update of a slave, in CHECKPOINT. Each statement is a section with its name.

-- name: update_note
-- Writes why a load waits into the slave's message. The state is not changed.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, update_id, message.
-- Privileges: UPDATE on CHECKPOINT.
UPDATE ${schema}.${prefix}checkpoint SET message = %(message)s, updated_at = ${clock}
WHERE slave = %(slave)s AND update_id = %(update_id)s

-- name: update_read
-- Reads the state and the owner of a slave's load.
-- Called by: the steps of an initial update, loaders before each block.
-- Placeholders: ${prefix}, ${schema}. Parameter: slave.
-- Result: state, update_id, message, position_time (the slave is current as of it).
-- Privileges: SELECT on CHECKPOINT.
SELECT state, update_id, message, position_time FROM ${schema}.${prefix}checkpoint WHERE slave = %(slave)s

-- name: update_set
-- Records which initial update owns the slave from now on.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, update_id.
-- Privileges: UPDATE on CHECKPOINT.
UPDATE ${schema}.${prefix}checkpoint SET update_id = %(update_id)s WHERE slave = %(slave)s
