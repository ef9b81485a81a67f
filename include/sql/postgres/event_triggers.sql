-- Event triggers that notice DDL on replicated tables in the transaction of the DDL, so that its item has the right
-- place among the changes of rows. Without them, and for changes that fire no event trigger, ${prefix}check_structure()
-- finds the change by comparison, a little later.
-- Called by: sluice.capture, which makes them when its account is a superuser; by hand, when an administrator makes them
--   for an account that is none, after the installation:
--   sed -e 's/${prefix}/demo_/g' -e 's/${schema}/sluice/g' event_triggers.sql | psql -1 -v ON_ERROR_STOP=1 DATABASE
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql. Result: none. Those of an older version are made anew; what
--   an administrator has disabled stays disabled.
--   They fire for what an apply does, too: captures must follow a table whose definition was replicated to here.
-- Privileges: superuser; any other account gets a notice and no triggers. Oldest version: PostgreSQL 14.

-- Names refer to PostgreSQL's own objects: the account may be able to create objects in a schema of the administrator's
-- search_path.
SET LOCAL search_path = pg_catalog, pg_temp;
DO $sluice$
DECLARE
    -- Event triggers belong to the database, not to a schema.
    mark text := left(md5($s$ ${schema}$s$::regnamespace::text), 8);
    wanted record;
BEGIN
    FOR wanted IN
        SELECT '${prefix}' || w.name || '_' || mark AS name, w.event, w.tags, $s$ ${schema}.${prefix}$s$ || w.name AS function
        FROM (VALUES
            ('ddl_end', 'ddl_command_end', ARRAY[
                'CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'ALTER TABLE', 'CREATE INDEX', 'ALTER INDEX',
                'CREATE TRIGGER', 'ALTER SCHEMA', 'ALTER TYPE']),
            -- Whatever may take a table or a column along with CASCADE. ALTER TABLE is heard of above.
            ('ddl_drop', 'sql_drop', ARRAY[
                'DROP TABLE', 'DROP SCHEMA', 'DROP INDEX', 'DROP OWNED', 'DROP TYPE', 'DROP DOMAIN', 'DROP EXTENSION',
                'DROP FUNCTION', 'DROP ROUTINE', 'DROP AGGREGATE', 'DROP LANGUAGE', 'DROP OPERATOR', 'DROP OPERATOR CLASS',
                'DROP OPERATOR FAMILY', 'DROP COLLATION', 'DROP SEQUENCE', 'DROP ACCESS METHOD',
                'DROP TEXT SEARCH CONFIGURATION', 'DROP VIEW', 'DROP MATERIALIZED VIEW', 'DROP FOREIGN TABLE']),
            ('ddl_rewrite', 'table_rewrite', ARRAY['ALTER TABLE', 'ALTER TYPE'])
        ) AS w (name, event, tags)
    LOOP
        IF EXISTS (SELECT FROM pg_catalog.pg_event_trigger e
                   WHERE e.evtname = wanted.name AND e.evtenabled <> 'D' AND e.evttags IS DISTINCT FROM wanted.tags) THEN
            EXECUTE format('DROP EVENT TRIGGER %I', wanted.name);
        END IF;
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_event_trigger e WHERE e.evtname = wanted.name) THEN
            EXECUTE format('CREATE EVENT TRIGGER %I ON %s WHEN TAG IN (%s) EXECUTE FUNCTION %s()', wanted.name, wanted.event,
                (SELECT string_agg(quote_literal(t.tag), ', ' ORDER BY t.place)
                 FROM unnest(wanted.tags) WITH ORDINALITY AS t (tag, place)), wanted.function);
        END IF;
        IF EXISTS (SELECT FROM pg_catalog.pg_event_trigger e WHERE e.evtname = wanted.name AND e.evtenabled = 'O') THEN
            EXECUTE format('ALTER EVENT TRIGGER %I ENABLE ALWAYS', wanted.name);
        END IF;
    END LOOP;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE '${prefix}: no event triggers, as % is no superuser; changes of structure are found by comparison', current_user;
END
$sluice$;
