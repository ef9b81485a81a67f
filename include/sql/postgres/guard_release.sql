-- Every table takes writes again, at once and without a lock on any of them. The triggers go afterwards, one by one:
-- DROP FUNCTION … CASCADE of each function ${prefix}capture_guard_…_x.
-- Called by: sluice.failover; by a person who gives up a failover whose Airflow is lost:
--   sed -e 's/${prefix}/demo_/g' -e 's/${schema}/sluice/g' guard_release.sql | psql -1 -v ON_ERROR_STOP=1 DATABASE
-- Placeholders: ${prefix}, ${schema} quoted schema of the DbResources. Result: none.
-- Privileges: the account that made them. Oldest version: PostgreSQL 14.
DO $sluice$
DECLARE
    guard text;
BEGIN
    FOR guard IN
        SELECT p.proname FROM pg_catalog.pg_proc p
        WHERE p.pronamespace = $s$ ${schema}$s$::regnamespace AND p.proname ~ '^${prefix}capture_guard_[0-9a-f]{8}_x$'
    LOOP
        EXECUTE format('CREATE OR REPLACE FUNCTION ${schema}.%I() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER '
                       'SET search_path = pg_catalog, pg_temp AS $f$ BEGIN RETURN NULL; END $f$', guard);
    END LOOP;
    -- A switch that comes later finds no claim, and fails.
    DELETE FROM ${schema}.${prefix}info WHERE name = 'failover' AND value::jsonb ->> 'phase' = 'guarded';
END
$sluice$;
