-- Generates the capture functions of the registered tables again, so that no statement of the application runs code of
-- an older release after an upgrade. Triggers that should be different are left to reconcile_tables.
-- Called by: sluice.capture, after the files of functions.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: those of the account that installed.
-- Oldest version: PostgreSQL 14.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}renew_functions() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off SET standard_conforming_strings = on
AS $sluice$
DECLARE
    c record;
BEGIN
    FOR c IN
        SELECT h.relid, h.functions, x.functionname, x.function_code
        FROM ${schema}.${prefix}captures h
        CROSS JOIN LATERAL ${schema}.${prefix}capture_code(h.schemaname, h.tablename) x
        WHERE h.mode = x.mode AND h.relid = ${schema}.${prefix}relation(h.schemaname, h.tablename)
    LOOP
        EXECUTE c.function_code;
        PERFORM ${schema}.${prefix}grant_execute(c.relid, c.functionname);
        UPDATE ${schema}.${prefix}captures h SET functions = h.functions || c.functionname
            WHERE h.relid = c.relid AND h.mode <> 'dropped' AND c.functionname <> ALL (h.functions);
    END LOOP;
END
$sluice$;

-- First the changes since the last comparison: the functions generated below assume that they are known.
SELECT ${schema}.${prefix}check_structure();
SELECT ${schema}.${prefix}renew_functions();
