-- The replicated tables and their partitions, and which of them refuse writes.
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema} of the DbResources.
-- Result: oid, quoted name, name of the function of its guard, bool: the trigger exists and fires, bool: and its function
--   refuses writes (after guard_open.sql and guard_release.sql it does not).
-- Privileges: SELECT on TABLES.
-- Oldest version: PostgreSQL 14.
SELECT r.relid::bigint, format('%I.%I', n.nspname, c.relname), f.name, g.refuses IS NOT NULL, coalesce(g.refuses, false)
FROM ${schema}.${prefix}tables t
JOIN pg_catalog.pg_namespace tn ON tn.nspname = t.schemaname
JOIN pg_catalog.pg_class tc ON tc.relnamespace = tn.oid AND tc.relname = t.tablename
CROSS JOIN LATERAL (SELECT tc.oid::regclass AS relid UNION SELECT relid FROM pg_catalog.pg_partition_tree(tc.oid)) r
JOIN pg_catalog.pg_class c ON c.oid = r.relid AND c.relkind IN ('r', 'p')
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
-- A name by which the capture knows that it is no trigger of the application.
CROSS JOIN LATERAL (SELECT '${prefix}capture_guard_' || lpad(to_hex(r.relid::oid::bigint), 8, '0') || '_x' AS name) f
LEFT JOIN LATERAL (
    SELECT p.prosrc LIKE '%read_only_sql_transaction%' AS refuses
    FROM pg_catalog.pg_trigger g JOIN pg_catalog.pg_proc p ON p.oid = g.tgfoid
    WHERE g.tgrelid = r.relid AND g.tgname = '${prefix}guard' AND g.tgenabled IN ('O', 'A') AND p.proname = f.name
) g ON true
ORDER BY 2
