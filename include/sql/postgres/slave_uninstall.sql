-- Removes what Sluice has on a slave: its rows of CHECKPOINT, BLOCKS, REJECTS, THROTTLE, DEFINITIONS and FAILOVER, with
-- those of the last slave the tables, and then the schema if it is empty and belongs to the account. The replicated
-- tables and their rows stay. Can be repeated.
-- Called by: ./sluice remove, when no apply of the slave runs; by hand:
--   sed -e 's/${prefix}/demo_/g' -e 's/${schema}/sluice/g' -e "s/\${slave}/'dr1'/g" slave_uninstall.sql \
--     | psql -1 -v ON_ERROR_STOP=1 DATABASE
-- Placeholders: ${prefix}, ${schema} as in slave_resources.sql; ${slave} a literal. Result: none.
-- Privileges: the account of the slave, which owns the tables. Oldest version: PostgreSQL 14.

-- What runs here may be the account's own triggers and functions: they must not run as anybody else, a superuser least of all.
DO $sluice$
DECLARE
    owner name;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    SELECT pg_get_userbyid(c.relowner) INTO owner FROM pg_class c
    WHERE c.relnamespace = to_regnamespace($s$ ${schema}$s$) AND c.relname IN ('${prefix}checkpoint', '${prefix}blocks', '${prefix}rejects', '${prefix}throttle', '${prefix}definitions', '${prefix}failover')
      AND pg_get_userbyid(c.relowner) <> current_user LIMIT 1;
    IF FOUND THEN
        RAISE insufficient_privilege USING MESSAGE = format('Run this as %s, to whom the tables of ${prefix} belong', owner);
    END IF;
END
$sluice$;
DO $sluice$
DECLARE
    stage text;
BEGIN
    IF to_regclass($s$ ${schema}.${prefix}checkpoint$s$) IS NULL THEN
        RETURN;
    END IF;
    DELETE FROM ${schema}.${prefix}checkpoint WHERE slave = ${slave};
    IF EXISTS (SELECT FROM ${schema}.${prefix}checkpoint) THEN
        DELETE FROM ${schema}.${prefix}blocks WHERE slave = ${slave};
        DELETE FROM ${schema}.${prefix}rejects WHERE slave = ${slave};
        DELETE FROM ${schema}.${prefix}throttle WHERE slave = ${slave};
        IF to_regclass($s$ ${schema}.${prefix}definitions$s$) IS NOT NULL THEN
            DELETE FROM ${schema}.${prefix}definitions WHERE slave = ${slave};
        END IF;
        IF to_regclass($s$ ${schema}.${prefix}failover$s$) IS NOT NULL THEN
            DELETE FROM ${schema}.${prefix}failover WHERE slave = ${slave};
        END IF;
        RETURN;
    END IF;
    DROP TABLE IF EXISTS ${schema}.${prefix}checkpoint, ${schema}.${prefix}blocks, ${schema}.${prefix}rejects,
        ${schema}.${prefix}throttle, ${schema}.${prefix}definitions, ${schema}.${prefix}failover;
    -- Windows that Spark staged and nobody came to drop.
    FOR stage IN
        SELECT c.oid::regclass::text
        FROM pg_catalog.pg_class c
        WHERE c.relnamespace = $s$ ${schema}$s$::regnamespace AND c.relkind = 'r' AND c.relpersistence = 'u'
          AND c.relname ~ '^${prefix}stage_\d+_'
    LOOP
        EXECUTE 'DROP TABLE ' || stage;
    END LOOP;
END
$sluice$;
DO $sluice$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.oid = to_regnamespace($s$ ${schema}$s$)
               AND n.nspname <> 'public' AND pg_catalog.pg_get_userbyid(n.nspowner) = current_user) THEN
        DROP SCHEMA ${schema};
    END IF;
EXCEPTION WHEN dependent_objects_still_exist THEN
    NULL;
END
$sluice$;
