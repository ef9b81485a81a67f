-- Where applying starts after a load was planned; whatever was under way before is void.
-- Placeholders: ${prefix}, ${schema}, ${clock}. Parameters: slave, position, time. Privileges: UPDATE.
UPDATE ${schema}.${prefix}checkpoint
SET position = %(position)s, position_time = %(time)s, target = NULL, slice_key = NULL, safemode_exit = NULL,
    updated_at = ${clock}
WHERE slave = %(slave)s
