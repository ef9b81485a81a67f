-- Raises the epoch for an apply that starts: from here on, an earlier apply cannot commit.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, above (the epoch must be higher than this one; 0: any).
-- Result: no row changes for an unknown slave.
-- Privileges: UPDATE.
UPDATE ${schema}.${prefix}checkpoint SET epoch = GREATEST(epoch, %(above)s) + 1, updated_at = ${clock}
WHERE slave = %(slave)s
