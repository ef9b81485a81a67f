-- A new epoch for an apply that starts: from here on the former one cannot commit.
-- Parameters: slave, above (an epoch seen elsewhere; 0: none). Result: the epoch; no row for an unknown slave.
UPDATE ${schema}.${prefix}checkpoint SET epoch = greatest(epoch, %(above)s) + 1, updated_at = clock_timestamp()
WHERE slave = %(slave)s RETURNING epoch
