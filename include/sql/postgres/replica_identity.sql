-- Sets the replica identity of Sluice's tables without a key, for publications of all tables of the database: otherwise
-- PostgreSQL would refuse their changes, and with them the application's statement that changes a definition.
-- Called by: sluice.capture, and by hand, as resources_v1.sql.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none. If a table is in use for longer than half a second, the installation fails, and is tried again.
-- Privileges: those of the account that installed the tables.
-- Oldest version: PostgreSQL 14.
DO $sluice$
DECLARE
    relation regclass;
    had text := current_setting('lock_timeout');
BEGIN
    FOR relation IN
        SELECT c.oid FROM pg_catalog.pg_class c
        WHERE c.relnamespace = $name$ ${schema}$name$::regnamespace AND c.relreplident = 'd'
          AND c.relname IN ('${prefix}cols_table', '${prefix}debug_table', '${prefix}partitions')
    LOOP
        PERFORM set_config('lock_timeout', '500ms', true);
        EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', relation);
    END LOOP;
    PERFORM set_config('lock_timeout', had, true);
END
$sluice$;
