-- A new epoch for an apply that starts: from here on the former one cannot commit.
-- Parameter: slave. Result: the epoch; no row for an unknown slave.
UPDATE ${schema}.${prefix}checkpoint SET epoch = epoch + 1, updated_at = clock_timestamp()
WHERE slave = %(slave)s RETURNING epoch
