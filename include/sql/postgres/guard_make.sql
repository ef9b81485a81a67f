-- Makes a table refuse all changes of rows until a failover ends. Waits for writers that have an open transaction.
-- Changes of an apply of another replication are accepted: it sets its origin (origins.sql).
-- Called by: sluice.failover, in a transaction for each table.
-- Placeholders: ${prefix}, ${schema} of the DbResources; ${function} its quoted name, ${table} quoted, ${message} a
--   literal.
-- Result: none.
-- Privileges: CREATE on the schema, TRIGGER on the table.
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
REVOKE ALL ON FUNCTION ${schema}.${function}() FROM PUBLIC;
SELECT ${schema}.${prefix}make_trigger($sluice$
    CREATE OR REPLACE TRIGGER ${prefix}guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON ${table}
        FOR EACH STATEMENT EXECUTE FUNCTION ${schema}.${function}()$sluice$);
