-- DbResources of one prefix on a PostgreSQL master, step 7: keys are drawn from the write-ahead log from here on.
-- Called by: sluice.capture, and by hand, as resources_v1.sql.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none. It fails with lock_not_available if somebody still takes a position by the former function.
-- Privileges: those of the account that installed step 1.
-- Oldest version: PostgreSQL 14.

-- A position that is being taken by the function that was in force before step 6 has too low an end for keys from the log.
DO $sluice$
DECLARE
    began timestamptz := pg_catalog.clock_timestamp();
BEGIN
    WHILE EXISTS (SELECT FROM pg_catalog.pg_attrdef d WHERE d.adrelid = $s$ ${schema}.${prefix}items$s$::regclass
                  AND pg_catalog.pg_get_expr(d.adbin, d.adrelid) ~ '^nextval')
        AND EXISTS (SELECT FROM pg_catalog.pg_stat_activity a
                    WHERE a.datname = pg_catalog.current_database() AND a.pid <> pg_catalog.pg_backend_pid() AND a.state = 'active'
                      AND a.query_start < began AND pg_catalog.strpos(a.query, '${prefix}position()') > 0) LOOP
        IF pg_catalog.clock_timestamp() > began + '5 s'::interval THEN
            RAISE lock_not_available USING MESSAGE = 'A position is being taken';
        END IF;
        PERFORM pg_catalog.pg_sleep(0.01), pg_catalog.pg_stat_clear_snapshot();
    END LOOP;
END
$sluice$;

-- The lock makes all sessions plan their inserts anew, those of capture functions of an older release included: nobody
-- draws from SEQ after somebody has drawn from the log.
DO $sluice$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_attrdef d WHERE d.adrelid = $s$ ${schema}.${prefix}items$s$::regclass
               AND pg_catalog.pg_get_expr(d.adbin, d.adrelid) ~ '^nextval') THEN
        ALTER TABLE ${schema}.${prefix}items ALTER COLUMN repl_key SET DEFAULT ${schema}.${prefix}next_key();
        ALTER TABLE ${schema}.${prefix}tables ALTER COLUMN repl_key SET DEFAULT ${schema}.${prefix}next_key();
        ALTER TABLE ${schema}.${prefix}debug_table ALTER COLUMN repl_key SET DEFAULT ${schema}.${prefix}next_key();
    END IF;
END
$sluice$;
