-- Begins a failover: clears what an earlier one left in the row, except the master's definitions.
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, id, action, reverse, by.
-- Privileges: INSERT, UPDATE.
-- Oldest version: PostgreSQL 13.
INSERT INTO ${schema}.${prefix}failover AS f (slave, failover_id, action, phase, reverse, started_by, begun_at)
VALUES (%(slave)s, %(id)s, %(action)s, 'begun', %(reverse)s, %(by)s, clock_timestamp())
ON CONFLICT (slave) DO UPDATE SET failover_id = excluded.failover_id, action = excluded.action, phase = excluded.phase,
    reverse = excluded.reverse, started_by = excluded.started_by, begun_at = excluded.begun_at, last = NULL, start = NULL,
    verified = NULL, made = '[]', guarded_at = NULL, updated_at = clock_timestamp()
