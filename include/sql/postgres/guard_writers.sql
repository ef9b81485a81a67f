-- Transactions that hold locks of the replicated tables as writers do. Once a guard is closed, those that were there
-- before it may still commit changes.
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema} of the DbResources.
-- Result: pid (0: a prepared transaction), the virtual transaction, quoted name of a table.
-- Privileges: SELECT on TABLES.
-- Oldest version: PostgreSQL 14.
SELECT coalesce(l.pid, 0), l.virtualtransaction, format('%I.%I', n.nspname, c.relname)
FROM pg_catalog.pg_locks l
JOIN pg_catalog.pg_class c ON c.oid = l.relation
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE l.locktype = 'relation' AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
  AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database())
  AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
  AND l.relation IN (SELECT r.relid FROM ${schema}.${prefix}tables t
                     JOIN pg_catalog.pg_namespace tn ON tn.nspname = t.schemaname
                     JOIN pg_catalog.pg_class tc ON tc.relnamespace = tn.oid AND tc.relname = t.tablename
                     CROSS JOIN LATERAL (SELECT tc.oid AS relid UNION SELECT relid FROM pg_catalog.pg_partition_tree(tc.oid)) r)
