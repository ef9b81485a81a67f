-- A begun block is planned again because its rows are locked on the master; others are read first.
-- Called by: a loader that reads with locks. Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, schema, name, block, loader; seconds float8: how long it rests.
-- Privileges: UPDATE on BLOCKS. Oldest version: PostgreSQL 13.
UPDATE ${schema}.${prefix}blocks
SET state = 'planned', loader = NULL, begun_at = NULL, tries = tries + 1,
    retry_at = clock_timestamp() + %(seconds)s * interval '1 second'
WHERE slave = %(slave)s AND schema = %(schema)s AND tablename = %(name)s AND block = %(block)s
  AND state = 'begun' AND loader = %(loader)s
