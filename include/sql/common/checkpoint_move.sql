-- A new state with its message. The caller holds the row's lock and checked the move.
-- Placeholders: ${prefix}, ${schema}, ${clock}. Parameters: slave, state, message. Privileges: UPDATE.
UPDATE ${schema}.${prefix}checkpoint SET state = %(state)s, message = %(message)s, updated_at = ${clock}
WHERE slave = %(slave)s
