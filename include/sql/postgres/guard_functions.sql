-- The functions of the guard, which refuse writes or did.
-- Called by: sluice.failover, which drops them, their triggers with them.
-- Placeholders: ${prefix}, ${schema} quoted schema of the DbResources.
-- Result: name.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
SELECT p.proname::text FROM pg_catalog.pg_proc p
WHERE p.pronamespace = $s$ ${schema}$s$::regnamespace AND p.proname ~ '^${prefix}capture_guard_[0-9a-f]{8}_x$'
ORDER BY 1
