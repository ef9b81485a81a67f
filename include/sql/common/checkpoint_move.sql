-- Writes a state with its message. The caller holds the row's lock and has checked the transition.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, state, message.
-- Privileges: UPDATE.
UPDATE ${schema}.${prefix}checkpoint SET state = %(state)s, message = %(message)s, updated_at = ${clock}
WHERE slave = %(slave)s
