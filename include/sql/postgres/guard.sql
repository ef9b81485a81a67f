-- The guard of a master in a failover: triggers that refuse writes. Each statement is a section with its name.
-- Oldest version: PostgreSQL 14.

-- name: guard_close
-- Makes a table that has the guard's trigger refuse all changes of rows, without a lock of the table: statements that
--   begin later find the new function. Changes of an apply of another replication are accepted: it sets its origin
--   (origins.sql).
-- Called by: sluice.failover, for all tables in one transaction.
-- Placeholders: ${prefix}, ${schema} of the DbResources; ${function} its quoted name, ${message} a literal.
-- Result: none.
-- Privileges: the account that made the function.
CREATE OR REPLACE FUNCTION ${schema}.${function}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    IF ${schema}.${prefix}origin() = '' THEN
        RAISE EXCEPTION USING ERRCODE = 'read_only_sql_transaction', MESSAGE = ${message},
            HINT = 'Connect to the new master, and try again.';
    END IF;
    RETURN NULL;
END
$sluice$;

-- name: guard_functions
-- The functions of the guard, which refuse writes or did.
-- Called by: sluice.failover, which drops them, their triggers with them.
-- Placeholders: ${prefix}, ${schema} quoted schema of the DbResources.
-- Result: name.
-- Privileges: none.
SELECT p.proname::text FROM pg_catalog.pg_proc p
WHERE p.pronamespace = $s$ ${schema}$s$::regnamespace AND p.proname ~ '^${prefix}capture_guard_[0-9a-f]{8}_x$'
ORDER BY 1

-- name: guard_lay
-- Makes a trigger that asks the function of a table's guard before each statement. Waits for writers that have an open
--   transaction.
-- Called by: sluice.failover, in a transaction for each table, after guard_open.
-- Placeholders: ${prefix}, ${schema} of the DbResources; ${function} its quoted name, ${table} quoted.
-- Result: none.
-- Privileges: TRIGGER on the table.
SELECT ${schema}.${prefix}make_trigger($sluice$
    CREATE OR REPLACE TRIGGER ${prefix}guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON ${table}
        FOR EACH STATEMENT EXECUTE FUNCTION ${schema}.${function}()$sluice$);

-- name: guard_open
-- The function of a table's guard, which refuses nothing.
-- Called by: sluice.failover.
-- Placeholders: ${schema} of the DbResources; ${function} its quoted name.
-- Result: none.
-- Privileges: CREATE on the schema.
CREATE OR REPLACE FUNCTION ${schema}.${function}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $sluice$ BEGIN RETURN NULL; END $sluice$;
REVOKE ALL ON FUNCTION ${schema}.${function}() FROM PUBLIC;

-- name: guard_relations
-- The replicated tables and their partitions, and which of them refuse writes.
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema} of the DbResources.
-- Result: oid, quoted name, name of the function of its guard, bool: the trigger exists and fires, bool: and its function
--   refuses writes (after guard_open and guard_release.sql it does not).
-- Privileges: SELECT on TABLES.
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

-- name: guard_writers
-- Transactions that hold locks of the replicated tables as writers do. Once a guard is closed, those that were there
--   before it may still commit changes.
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema} of the DbResources.
-- Result: pid (0: a prepared transaction), the virtual transaction, quoted name of a table.
-- Privileges: SELECT on TABLES.
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
