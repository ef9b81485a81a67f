-- Makes every table accept writes again, at once and without locks. The triggers are dropped later, one by one: DROP
-- FUNCTION … CASCADE of each function ${prefix}capture_guard_…_x.
-- Called by: sluice.failover; by a person who gives up a failover whose Airflow is lost:
--   sed -e 's/${prefix}/demo_/g' -e 's/${schema}/sluice/g' guard_release.sql | psql -1 -v ON_ERROR_STOP=1 DATABASE
-- Placeholders: ${prefix}, ${schema} quoted schema of the DbResources. Result: none.
-- Privileges: the account that made them. Oldest version: PostgreSQL 14.

-- What runs here may be the account's own triggers and functions: they must not run as anybody else, a superuser least of all.
DO $sluice$
DECLARE
    owner name;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    SELECT pg_get_userbyid(c.relowner) INTO owner FROM pg_class c
    WHERE c.relnamespace = to_regnamespace($s$ ${schema}$s$) AND c.relname IN ('${prefix}info')
      AND pg_get_userbyid(c.relowner) <> current_user LIMIT 1;
    IF FOUND THEN
        RAISE insufficient_privilege USING MESSAGE = format('Run this as %s, to whom the tables of ${prefix} belong', owner);
    END IF;
END
$sluice$;
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
