-- From here on a table refuses whatever would change its rows, until a failover is through or aborted. Writers that are
-- in a transaction are waited for. What another replication applies passes: it names itself (origin in origins.sql).
-- Called by: sluice.failover, in a transaction for each table.
-- Placeholders: ${prefix}, ${schema} of the DbResources; ${function} its quoted name, ${table} quoted, ${message} a literal.
-- Result: none. Privileges: CREATE on the schema, TRIGGER on the table. Oldest version: PostgreSQL 14.
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
