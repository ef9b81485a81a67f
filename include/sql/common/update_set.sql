-- Records which initial update owns the slave from now on.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, update_id.
-- Privileges: UPDATE on CHECKPOINT.
UPDATE ${schema}.${prefix}checkpoint SET update_id = %(update_id)s WHERE slave = %(slave)s
