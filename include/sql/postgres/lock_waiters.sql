-- Counts the sessions that wait for locks which some sessions hold.
-- Called by: holders of a snapshot, which end it if others wait.
-- Placeholders: ${pids} of the holders, with commas.
-- Result: one number.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT count(DISTINCT l.pid) FROM pg_locks l WHERE NOT l.granted AND pg_blocking_pids(l.pid) && '{${pids}}'::int[]
