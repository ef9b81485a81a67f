-- Makes a table that has the guard's trigger refuse all changes of rows, without a lock of the table: statements that
-- begin later find the new function. Changes of an apply of another replication are accepted: it sets its origin
-- (origins.sql).
-- Called by: sluice.failover, for all tables in one transaction.
-- Placeholders: ${prefix}, ${schema} of the DbResources; ${function} its quoted name, ${message} a literal.
-- Result: none.
-- Privileges: the account that made the function.
-- Oldest version: PostgreSQL 14.
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
