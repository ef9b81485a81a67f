-- Reads the last or the running failover of a slave.
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema}, ${lock} empty or FOR UPDATE.
-- Parameter: slave.
-- Result: id, action, phase, reverse, by, begun_at (text), last, start, verified, made; id NULL: there was none.
-- Privileges: SELECT, UPDATE for the lock.
-- Oldest version: PostgreSQL 13.
SELECT failover_id, action, phase, reverse, started_by, begun_at::text, coalesce(last, ''), coalesce(start, ''),
       coalesce(verified, ''), made
FROM ${schema}.${prefix}failover WHERE slave = %(slave)s ${lock}
