-- Moves a failover to another phase. The caller holds the row's lock.
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, phase; last, start, verified (NULL: unchanged); switch: a change of the master (a JSON array; NULL: none).
-- Privileges: UPDATE.
-- Oldest version: PostgreSQL 13.
UPDATE ${schema}.${prefix}failover
SET phase = %(phase)s, last = coalesce(%(last)s, last), start = coalesce(%(start)s, start),
    verified = coalesce(%(verified)s, verified),
    switches = switches || coalesce(%(switch)s::jsonb, '[]'),
    guarded_at = CASE WHEN %(phase)s = 'guarded' THEN clock_timestamp() ELSE guarded_at END, updated_at = clock_timestamp()
WHERE slave = %(slave)s
