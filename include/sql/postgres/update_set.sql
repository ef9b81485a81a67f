-- Names the initial update that owns the slave from now on. Parameters: slave, update_id.
UPDATE ${schema}.${prefix}checkpoint SET update_id = %(update_id)s WHERE slave = %(slave)s
