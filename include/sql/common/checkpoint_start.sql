-- Writes the start position of a planned load, and clears whatever was in progress before.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, position, time.
-- Privileges: UPDATE.
UPDATE ${schema}.${prefix}checkpoint
SET position = %(position)s, position_time = %(time)s, target = NULL, slice_key = NULL, safemode_exit = NULL,
    updated_at = ${clock}
WHERE slave = %(slave)s
