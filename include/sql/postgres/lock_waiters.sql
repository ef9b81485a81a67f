-- How many sessions wait for locks that some sessions hold. Called by: whoever holds a snapshot while others go on, and
-- gives way to them. Placeholder: ${pids} of the holders, between commas. Result: one number.
-- Privileges: none. Oldest version: PostgreSQL 13.
SELECT count(DISTINCT l.pid) FROM pg_locks l WHERE NOT l.granted AND pg_blocking_pids(l.pid) && '{${pids}}'::int[]
