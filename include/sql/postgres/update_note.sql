-- Why a load stands still, for people. The state stays. Parameters: slave, update_id, message.
UPDATE ${schema}.${prefix}checkpoint SET message = %(message)s, updated_at = clock_timestamp()
WHERE slave = %(slave)s AND update_id = %(update_id)s
