-- A new epoch for an apply that starts: from here on the former one cannot commit.
-- Placeholders: ${prefix}, ${schema}, ${clock}. Parameters: slave, above (an epoch seen elsewhere; 0: none).
-- Result: no row changes for an unknown slave. Privileges: UPDATE.
UPDATE ${schema}.${prefix}checkpoint SET epoch = GREATEST(epoch, %(above)s) + 1, updated_at = ${clock}
WHERE slave = %(slave)s
