-- Event triggers that notice DDL on replicated tables in the transaction of the DDL, hence in the right place among the
-- changes of rows. Where there are none, sluice.structure_check finds changes by comparison, a little later.
-- Called by: sluice.install, which makes them when its account is a superuser; by hand, when an administrator makes them
--   for an account that is none, after the installation:
--   sed -e 's/${prefix}/demo_/g' -e 's/${schema}/public/g' event_triggers.sql | psql -1 -v ON_ERROR_STOP=1 DATABASE
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql. Result: none. What exists stays as it is.
--   They fire for what an apply does, too: captures must follow a table whose definition was replicated to here.
-- Privileges: superuser; any other account gets a notice and no triggers. Oldest version: PostgreSQL 14.
DO $sluice$
DECLARE
    -- Event triggers belong to the database, not to a schema.
    mark text := left(md5($s$ ${schema}$s$::regnamespace::text), 8);
    name text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_event_trigger e WHERE e.evtname = '${prefix}ddl_end_' || mark) THEN
        EXECUTE format('CREATE EVENT TRIGGER %I ON ddl_command_end WHEN TAG IN (''CREATE TABLE'', ''CREATE TABLE AS'','
            ' ''SELECT INTO'', ''ALTER TABLE'', ''CREATE INDEX'', ''ALTER INDEX'', ''CREATE TRIGGER'', ''ALTER SCHEMA'')'
            ' EXECUTE FUNCTION %s()', '${prefix}ddl_end_' || mark, ${schema}.${prefix}own('ddl_end'));
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_event_trigger e WHERE e.evtname = '${prefix}ddl_drop_' || mark) THEN
        EXECUTE format('CREATE EVENT TRIGGER %I ON sql_drop WHEN TAG IN (''DROP TABLE'', ''DROP SCHEMA'', ''DROP INDEX'','
            ' ''DROP OWNED'', ''DROP TYPE'', ''DROP DOMAIN'', ''DROP EXTENSION'')'
            ' EXECUTE FUNCTION %s()', '${prefix}ddl_drop_' || mark, ${schema}.${prefix}own('ddl_drop'));
    END IF;
    FOR name IN SELECT e.evtname FROM pg_catalog.pg_event_trigger e
                WHERE e.evtenabled = 'O' AND e.evtname IN ('${prefix}ddl_end_' || mark, '${prefix}ddl_drop_' || mark) LOOP
        EXECUTE format('ALTER EVENT TRIGGER %I ENABLE ALWAYS', name);
    END LOOP;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE '${prefix}: no event triggers, as % is no superuser; changes of structure are found by comparison', current_user;
END
$sluice$;
