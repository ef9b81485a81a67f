-- Creates the schema of Sluice's own objects if it is absent. Only the account gets privileges on it, because functions
-- that triggers call run with the rights of their owner.
-- Called by: the installation on the master, the initial update on a slave; by hand, as the account, or as an administrator
--   with AUTHORIZATION sluice in place of CURRENT_USER:
--   sed -e 's/${schema}/sluice/g' schema_make.sql | psql -1 -v ON_ERROR_STOP=1 DATABASE
-- Placeholder: ${schema} quoted. Result: none. Privileges: CREATE on the database. Oldest version: PostgreSQL 14.
DO $sluice$
BEGIN
    IF pg_catalog.to_regnamespace($s$ ${schema}$s$) IS NULL THEN
        CREATE SCHEMA ${schema} AUTHORIZATION CURRENT_USER;
        REVOKE ALL ON SCHEMA ${schema} FROM PUBLIC;
    END IF;
END
$sluice$;
