-- Reads the last or the running failover of a slave.
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema}, ${lock} empty or FOR UPDATE.
-- Parameter: slave.
-- Result: id, action, phase, reverse, by, begun_at (text), last, start, verified, made,
--   guarded_at (ISO 8601, UTC); id NULL: there was none.
-- Privileges: SELECT, UPDATE for the lock.
-- Oldest version: PostgreSQL 13.
SELECT failover_id, action, phase, reverse, started_by, begun_at::text, coalesce(last, ''), coalesce(start, ''),
       coalesce(verified, ''), made,
       -- A table of an earlier release lacks it until a failover begins.
       coalesce(to_char((to_jsonb(f) ->> 'guarded_at')::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '')
FROM ${schema}.${prefix}failover f WHERE slave = %(slave)s ${lock}
