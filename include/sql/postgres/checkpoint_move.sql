-- A new state with its message. The caller holds the row's lock and checked the move.
-- Parameters: slave, state, message.
UPDATE ${schema}.${prefix}checkpoint SET state = %(state)s, message = %(message)s, updated_at = clock_timestamp()
WHERE slave = %(slave)s
